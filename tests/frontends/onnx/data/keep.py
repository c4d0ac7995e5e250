"""What the scripts beside this file write: for each model ``NAME.onnx``, and ``NAME.npz`` with inputs and the framework's own
outputs, as ``in0``, ``out0`` and so on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def draw(*shape: int) -> Any:
    """Numbers of a normal distribution, the same for a shape each time."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def tokens(*shape: int) -> Any:
    """Numbers of words, of which there are 20."""
    return np.random.default_rng(sum(shape)).integers(0, 20, shape).astype(np.int32)


def keep(name: str, inputs: Sequence[Any], outputs: Any) -> Path:
    """Writes inputs and outputs, and gives the path that the model goes to."""
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    named = {f"in{index}": array for index, array in enumerate(inputs)}
    named |= {f"out{index}": np.asarray(array) for index, array in enumerate(outputs)}
    np.savez_compressed(HERE / f"{name}.npz", **named)
    return HERE / f"{name}.onnx"
