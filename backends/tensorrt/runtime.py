"""Runs an engine on the GPU, with torch's tensors as buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from isthmus.ir.errors import EvaluationError, UnavailableError

_SAVE = "save the engine (net.save('model.engine')) and run it on a machine with an NVIDIA GPU of its targets"


def need_gpu() -> None:
    """Makes sure that there is a GPU to run on.

    Raises:
        UnavailableError: there is none, or nothing to reach it by.
    """
    try:
        import torch
    except ImportError as error:
        remedy = "pip install torch"
        raise UnavailableError("engines run on buffers of torch, which is not installed", remedy=remedy) from error
    if not torch.cuda.is_available():
        raise UnavailableError("TensorRT runs on an NVIDIA GPU, and there is none here that torch can use", remedy=_SAVE)


class Engine:
    """A deserialized engine with a context to run it in.

    Args:
        trt: TensorRT's module.
        log: its log.
        plan: the engine in TensorRT's own form.
        outputs: the names of the outputs, in order.

    Raises:
        EvaluationError: TensorRT cannot load it.
    """

    def __init__(self, trt: Any, log: Any, plan: Any, outputs: Sequence[str]) -> None:
        self.log = log
        self.outputs = list(outputs)
        self._runtime = trt.Runtime(log)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise EvaluationError(f"TensorRT cannot load the engine: {log.take()}")
        self._context = self._engine.create_execution_context()

    def run(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs as numpy arrays.

        Args:
            inputs: arrays by the names of the inputs.

        Raises:
            EvaluationError: TensorRT refuses them.
        """
        import torch

        context, buffers = self._context, {}
        for name, array in inputs.items():
            buffers[name] = to_tensor(np.asarray(array)).cuda()
            if not context.set_input_shape(name, tuple(buffers[name].shape)):
                raise EvaluationError(f"TensorRT refuses the input {name}: {self.log.take()}", found=str(np.shape(array)))
        for name in self.outputs:
            kind = getattr(torch, _TORCH[self._engine.get_tensor_dtype(name).name])
            buffers[name] = torch.empty(tuple(context.get_tensor_shape(name)), dtype=kind, device="cuda")
        for name, buffer in buffers.items():
            context.set_tensor_address(name, buffer.data_ptr())
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        if not context.execute_async_v3(stream.cuda_stream):
            raise EvaluationError(f"TensorRT failed: {self.log.take()}")
        stream.synchronize()
        return [to_array(buffers[name].cpu()) for name in self.outputs]


_TORCH = {
    "FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16", "INT64": "int64", "INT32": "int32", "INT8": "int8",
    "UINT8": "uint8", "BOOL": "bool", "FP8": "float8_e4m3fn",
}  # fmt: skip
_OPAQUE = {"bfloat16": ("bfloat16", np.int16), "float8_e4m3fn": ("float8_e4m3fn", np.int8)}


def to_tensor(array: Any) -> Any:
    """An array as a tensor; numpy's element types that torch does not know go by their bits."""
    import torch

    array = np.array(array, order="C")
    name = array.dtype.name
    if name in _OPAQUE:
        return torch.from_numpy(array.view(_OPAQUE[name][1])).view(getattr(torch, _OPAQUE[name][0]))
    return torch.from_numpy(array)


def to_array(tensor: Any) -> Any:
    """A tensor in ordinary memory as an array."""
    import ml_dtypes
    import torch

    for name, (kind, bits) in _OPAQUE.items():
        if tensor.dtype is getattr(torch, kind):
            return tensor.view(getattr(torch, np.dtype(bits).name)).numpy().view(getattr(ml_dtypes, name))
    return tensor.numpy()
