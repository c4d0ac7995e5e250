"""Reads a TensorRT network back through TensorRT's own API, and evaluates it with torch.

It knows nothing of isthmus: what each layer does is taken from TensorRT's documentation. Control flow is evaluated on
demand: what a loop or a branch holds is whatever its results need and nothing outside does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from tensorrt_layers import KINDS, LAYERS

CLASSES = {
    "CONVOLUTION": "IConvolutionLayer", "DECONVOLUTION": "IDeconvolutionLayer", "POOLING": "IPoolingLayer",
    "ACTIVATION": "IActivationLayer", "CONSTANT": "IConstantLayer", "ELEMENTWISE": "IElementWiseLayer",
    "UNARY": "IUnaryLayer", "REDUCE": "IReduceLayer", "TOPK": "ITopKLayer", "MATRIX_MULTIPLY": "IMatrixMultiplyLayer",
    "NORMALIZATION": "INormalizationLayer", "SOFTMAX": "ISoftMaxLayer", "CONCATENATION": "IConcatenationLayer",
    "CUMULATIVE": "ICumulativeLayer", "SHUFFLE": "IShuffleLayer", "SLICE": "ISliceLayer", "RESIZE": "IResizeLayer",
    "GATHER": "IGatherLayer", "SCATTER": "IScatterLayer", "EINSUM": "IEinsumLayer", "CAST": "ICastLayer",
    "FILL": "IFillLayer", "QUANTIZE": "IQuantizeLayer", "DEQUANTIZE": "IDequantizeLayer", "TRIP_LIMIT": "ITripLimitLayer",
    "RECURRENCE": "IRecurrenceLayer", "ITERATOR": "IIteratorLayer", "LOOP_OUTPUT": "ILoopOutputLayer",
    "CONDITION": "IConditionLayer", "CONDITIONAL_INPUT": "IIfConditionalInputLayer",
    "CONDITIONAL_OUTPUT": "IIfConditionalOutputLayer", "GRID_SAMPLE": "IGridSampleLayer",
}  # fmt: skip


class Reader:
    """A network to be evaluated.

    Args:
        trt: TensorRT's module.
        network: the network.
        opaque: the arrays of bfloat16 weights in the order in which the network has them; TensorRT does not show those.
    """

    def __init__(self, trt: Any, network: Any, opaque: Sequence[Any] = ()) -> None:
        self.trt = trt
        self.network = network
        self.layers = [network.get_layer(index) for index in range(network.num_layers)]
        self.kinds = [layer.type.name for layer in self.layers]
        self.makers: dict[str, tuple[int, int]] = {}
        for index, (layer, kind) in enumerate(zip(self.layers, self.kinds, strict=True)):
            for number in range(layer.num_outputs):
                self.makers[layer.get_output(number).name] = (index, number)
            if kind in CLASSES:
                layer.__class__ = getattr(trt, CLASSES[kind])
        self._opaque = iter(opaque)
        self._weights: dict[tuple[int, str], Any] = {}
        for index, kind in enumerate(self.kinds):
            for name in {"CONSTANT": ["weights"], "CONVOLUTION": ["kernel", "bias"], "DECONVOLUTION": ["kernel", "bias"]}.get(
                kind, []
            ):
                self._weights[index, name] = self._read(getattr(self.layers[index], name))
        self._inner = self._held()

    def _read(self, weights: Any) -> Any:
        if isinstance(weights, np.ndarray):
            return torch.from_numpy(np.array(weights))
        if not weights.size:
            return torch.zeros(0)
        array = next(self._opaque)
        assert array.dtype == ml_dtypes.bfloat16
        assert array.size == weights.size
        return torch.from_numpy(array.reshape(-1).view(np.int16).copy()).view(torch.bfloat16)

    def _held(self) -> set[int]:
        """The layers inside loops and branches, to be evaluated only when asked for."""
        inside: set[str] = set()
        held = set()
        for index, (layer, kind) in enumerate(zip(self.layers, self.kinds, strict=True)):
            opens = kind in ("RECURRENCE", "ITERATOR", "CONDITIONAL_INPUT")
            closes = kind in ("LOOP_OUTPUT", "CONDITIONAL_OUTPUT")
            if opens or any(tensor.name in inside for tensor in _inputs(layer) if tensor is not None):
                held.add(index)
                if not closes:
                    inside |= {layer.get_output(number).name for number in range(layer.num_outputs)}
        return held

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs on numpy arrays, as numpy arrays."""
        network = self.network
        values: dict[str, Any] = {}
        for number, array in enumerate(inputs):
            tensor = network.get_input(number)
            value = to_torch(array)
            assert value.dtype == KINDS[tensor.dtype.name], (tensor.name, tensor.dtype, value.dtype)
            assert len(value.shape) == len(tensor.shape)
            assert all(size in (-1, own) for size, own in zip(tensor.shape, value.shape, strict=True)), tensor.name
            values[tensor.name] = value
        memo = _Memo(values)
        for index in range(len(self.layers)):
            if index not in self._inner:
                self._layer(index, memo)
        outputs = [network.get_output(number) for number in range(network.num_outputs)]
        found = [self._pull(tensor, memo) for tensor in outputs]
        for tensor, value in zip(outputs, found, strict=True):
            assert all(size in (-1, own) for size, own in zip(tensor.shape, value.shape, strict=True)), tensor.name
            assert value.dtype == KINDS[tensor.dtype.name], tensor.name
        return [to_numpy(value) for value in found]

    def _pull(self, tensor: Any, memo: _Memo) -> Any:
        if tensor.name not in memo:
            index, _ = self.makers[tensor.name]
            self._layer(index, memo)
        return memo[tensor.name]

    def _layer(self, index: int, memo: _Memo) -> None:
        layer, kind = self.layers[index], self.kinds[index]
        if kind in ("LOOP_OUTPUT", "CONDITIONAL_OUTPUT", "RECURRENCE", "ITERATOR", "TRIP_LIMIT", "CONDITION"):
            found = getattr(self, f"_{kind.lower()}")(layer, memo)
        else:
            inputs = [None if tensor is None else self._pull(tensor, memo) for tensor in _inputs(layer)]
            weights = {name: value for (at, name), value in self._weights.items() if at == index} if kind in (
                "CONSTANT", "CONVOLUTION", "DECONVOLUTION") else {}  # fmt: skip
            found = LAYERS[kind](self.trt, layer, *inputs, **weights)
        for number, value in enumerate(found if isinstance(found, tuple) else (found,)):
            if value is not None:
                memo[layer.get_output(number).name] = value

    # ---- control flow

    def _condition(self, layer: Any, memo: _Memo) -> Any:
        return None

    def _trip_limit(self, layer: Any, memo: _Memo) -> Any:
        return None

    def _conditional_output(self, layer: Any, memo: _Memo) -> Any:
        name = layer.conditional.name
        (condition,) = [
            each for each, kind in zip(self.layers, self.kinds, strict=True)
            if kind == "CONDITION" and each.conditional.name == name
        ]  # fmt: skip
        chosen = bool(self._pull(condition.get_input(0), memo))
        return self._pull(layer.get_input(0 if chosen else 1), memo)

    def _of_loop(self, loop: Any, kind: str) -> Iterator[Any]:
        for layer, own in zip(self.layers, self.kinds, strict=True):
            if own == kind and layer.loop.name == loop.name:
                yield layer

    def _loop_output(self, layer: Any, memo: _Memo) -> Any:
        """Runs the loop, for one of its results."""
        trt, loop = self.trt, layer.loop
        recurrences = list(self._of_loop(loop, "RECURRENCE"))
        iterators = list(self._of_loop(loop, "ITERATOR"))
        limits = list(self._of_loop(loop, "TRIP_LIMIT"))
        carried = [self._pull(each.get_input(0), memo) for each in recurrences]
        counts = [int(self._pull(each.get_input(0), memo)) for each in limits if each.kind == trt.TripLimit.COUNT]
        scanned = [self._pull(each.get_input(0), memo) for each in iterators]
        collected, turn = [], 0
        while not counts or turn < min(counts):
            inner = memo.inner()
            for each, value in zip(recurrences, carried, strict=True):
                inner[each.get_output(0).name] = value
            for each, value in zip(iterators, scanned, strict=True):
                at = value.shape[each.axis] - 1 - turn if each.reverse else turn
                inner[each.get_output(0).name] = value.select(each.axis, at)
            whiles = [each for each in limits if each.kind == trt.TripLimit.WHILE]
            if not all(bool(self._pull(each.get_input(0), inner)) for each in whiles):
                break
            if layer.kind != trt.LoopOutput.LAST_VALUE:
                collected.append(self._pull(layer.get_input(0), inner))
            carried = [self._pull(each.get_input(1), inner) for each in recurrences]
            turn += 1
            assert turn < 10000
        if layer.kind == trt.LoopOutput.LAST_VALUE:
            names = [each.get_output(0).name for each in recurrences]
            return carried[names.index(layer.get_input(0).name)]
        assert layer.kind == trt.LoopOutput.CONCATENATE
        length = int(self._pull(layer.get_input(1), memo))
        if not collected:
            tensor = layer.get_input(0)
            shape = [max(size, 0) for size in tensor.shape]
            shape.insert(layer.axis, 0)
            return torch.zeros(shape, dtype=KINDS[tensor.dtype.name])
        assert len(collected) <= length
        return torch.stack(collected, layer.axis)


class _Memo:
    """The tensors that are known, those of the turns around included."""

    def __init__(self, values: dict[str, Any], outer: _Memo | None = None) -> None:
        self.values = values
        self.outer = outer

    def inner(self) -> _Memo:
        return _Memo({}, self)

    def __contains__(self, name: str) -> bool:
        return name in self.values or (self.outer is not None and name in self.outer)

    def __getitem__(self, name: str) -> Any:
        return self.values[name] if name in self.values or self.outer is None else self.outer[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.values[name] = value


def _inputs(layer: Any) -> list[Any]:
    return [layer.get_input(number) for number in range(layer.num_inputs)]


def to_torch(array: Any) -> Any:
    """An array as a tensor, whatever its element type."""
    array = np.array(array, order="C")
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if array.dtype == ml_dtypes.float8_e4m3fn:
        return torch.from_numpy(array.view(np.uint8)).view(torch.float8_e4m3fn)
    return torch.from_numpy(array)


def to_numpy(tensor: Any) -> Any:
    """A tensor as an array."""
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if tensor.dtype == torch.float8_e4m3fn:
        return tensor.contiguous().view(torch.uint8).numpy().view(ml_dtypes.float8_e4m3fn)
    return tensor.numpy()


def evaluate(artefact: Any, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of an artefact's network on arrays. Of the artefact nothing but the network is looked at, and the arrays
    of bfloat16, which TensorRT keeps to itself."""
    opaque = [array for array in artefact.kept if array.dtype == ml_dtypes.bfloat16]
    return Reader(artefact.trt, artefact.network, opaque).run(inputs)
