"""Captures a torch model or function and holds the graph against eager torch, on fresh inputs and at several sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from isthmus.frontends.torch import CaptureOptions, TorchCaptured, capture
from isthmus.ir import interpreter
from isthmus.ir.verifier import verify


def agree(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Any = None,
    sizes: Sequence[Mapping[str, int]] = (),
    tolerance: float = 1e-5,
    **options: Any,
) -> TorchCaptured:
    """The capture, after its graph gave what eager torch gives: dtypes, shapes and numbers."""
    captured = capture(model, args, kwargs, dynamic_shapes=dynamic, options=CaptureOptions(**options))
    verify(captured.graph)
    for seed, at in enumerate(({}, *sizes)):
        new_args, new_kwargs = captured.fresh_inputs(seed, at)
        arrays = [np.array(array) for array in captured.flatten(new_args, new_kwargs)]
        wanted = captured.eager(new_args, new_kwargs)
        found = interpreter.run(captured.graph, arrays)
        assert len(found) == len(wanted) == len(captured.output_names)
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), tolerance, tolerance)
    return captured
