"""A finished Caffe net: its text, and its weights as handles."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from isthmus.backends.base import Artefact
from isthmus.backends.caffe import checker, text, wire
from isthmus.backends.caffe.dialect import Dialect, load
from isthmus.backends.caffe.emitter import Net
from isthmus.backends.caffe.schema import Message
from isthmus.backends.caffe.worker import opencv
from isthmus.backends.files import destination, together
from isthmus.ir.dims import Dim, Symbol, evaluate, symbols
from isthmus.ir.errors import EvaluationError, UnavailableError, UsageError

OPENCV: Final = "opencv"
_RUNNER: Final = "net(...) and net.verify(...) run Caffe nets in OpenCV"
FILES: Final = ("net.prototxt", "net.caffemodel")


def in_words_of(reader: str, net: Message, dialect: Dialect) -> Message:
    """A net with another dialect's word for rounding the number of windows down; for the reader of that one.

    Nothing else differs between what the dialects say and what their readers take.
    """
    own, other = dialect.pooling.floor, load(reader).pooling.floor
    layers = []
    for layer in net.messages("layer"):
        parameters = layer.get("pooling_param")
        if own and parameters is not None and own.items() <= parameters.fields.items():
            kept = {name: content for name, content in parameters.fields.items() if name not in own}
            layer = Message(layer.type, {**layer.fields, "pooling_param": Message(parameters.type, {**kept, **other})})
        layers.append(layer)
    return Message(net.type, {**net.fields, "layer": layers})


class CaffeArtefact(Artefact):
    """A net for Caffe's readers.

    Attributes:
        net: its layers and weights.
        dialect: the dialect that it is in.
    """

    def __init__(self, net: Net, dialect: Dialect) -> None:
        super().__init__()
        self.net = net
        self.dialect = dialect
        self._readable = in_words_of(OPENCV, net.text, dialect)
        self._objections = list(self._of_opencv())
        if self._objections:
            self.notes.append(f"{_RUNNER}, which does not take this net: {self._objections[0]}")

    @property
    def node_count(self) -> int:
        return len(self.net.text["layer"]) - len(self.net.inputs)

    @property
    def op_counts(self) -> dict[str, int]:
        """How many layers there are of each type."""
        found: dict[str, int] = {}
        for layer in self.net.text.messages("layer"):
            found[layer["type"]] = found.get(layer["type"], 0) + 1
        return found

    @property
    def prototxt(self) -> str:
        """The text file."""
        return text.write(self.net.text, self.dialect.format)

    def files(self, path: str | Path) -> list[Path]:
        path = destination(path)
        stem = path.with_suffix("") if path.suffix in (".prototxt", ".caffemodel") else path
        return [stem.with_name(stem.name + ending) for ending in (".prototxt", ".caffemodel")]

    def save(self, path: str | Path) -> list[Path]:
        """Writes ``name.prototxt`` and ``name.caffemodel``, whichever of the two (or neither) the path names."""
        files = self.files(path)
        # The text comes into place last: whoever sees it finds the weights.
        with together(files[::-1]) as (weights, prototxt):
            wire.write(self.net.weights, self.dialect.format, weights)
            prototxt.write(self.prototxt.encode())
        return files

    def validate(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            prototxt, caffemodel = self.save(Path(folder, "net"))
            checker.check(prototxt, caffemodel, self.dialect)

    def _of_opencv(self) -> Iterator[str]:
        """What OpenCV does not take of the net, though the net's own dialect does."""
        reader = load(OPENCV)
        blobs = {layer["name"]: len(layer["blobs"]) for layer in self.net.weights.messages("layer")}
        for layer in self._readable.messages("layer"):
            holder = reader.parameter_field(layer["type"])
            parameters = None if holder is None else layer.get(holder)
            counts = (len(layer.get("bottom", ())), len(layer["top"]), blobs.get(layer["name"], 0))
            objection = reader.objection(layer["type"], parameters, *counts)
            if objection is not None:
                yield f"layer {layer['name']!r}: {objection}"

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        """Both files in OpenCV's words, for as long as the artefact is there."""
        folder = tempfile.TemporaryDirectory()
        prototxt, _ = self.save(Path(folder.name, FILES[0]))
        prototxt.write_text(text.write(self._readable, load(OPENCV).format))
        return folder

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, by OpenCV's dnn module in a process of its own, whatever the dialect. See `Artefact.run`.

        Raises:
            UnavailableError: OpenCV is not installed, or does not take what the dialect's own reader does.
        """
        if self._objections:
            raise UnavailableError(
                f"{_RUNNER}, which does not take this net, though the readers of the dialect {self.dialect.name} do",
                found="; ".join(self._objections),
                remedy=f"save it and run the files in a reader of the dialect ({self.dialect.about.rstrip('.')}), "
                f"or compile for the dialect {OPENCV} or portable to have it run and verified here",
            )
        if len(inputs) != len(self.net.inputs):
            names = ", ".join(self.net.inputs)
            raise UsageError(f"the net takes {len(self.net.inputs)} inputs", expected=names, found=str(len(inputs)))
        known: dict[Symbol, int] = {}
        feeds = {}
        for name, given, shape in zip(self.net.inputs, inputs, self.net.input_shapes, strict=True):
            array = np.ascontiguousarray(given, np.float32).reshape(np.shape(given))
            for dim, size in zip(shape, array.shape, strict=False):
                known.update(dict.fromkeys(symbols(dim), size))
            self._fits(f"the input {name}", array, shape, known)
            feeds[name] = array
        worker = opencv()
        outputs = worker.run([str(Path(self._folder.name, name)) for name in FILES], feeds, self.net.outputs)
        found = []
        for name, shape in zip(self.net.outputs, self.net.shapes, strict=True):
            sizes = tuple(evaluate(dim, known) for dim in shape)
            array = outputs[name]
            # Readers differ in whether they keep axes of size 1.
            if [size for size in array.shape if size != 1] == [size for size in sizes if size != 1]:
                array = array.reshape(sizes)
            if array.shape != sizes:
                expected, got = str(list(sizes)), str(list(array.shape))
                raise EvaluationError(f"OpenCV gives the output {name} another shape", expected=expected, found=got)
            found.append(array)
        return found

    @staticmethod
    def _fits(what: str, array: Any, shape: tuple[Dim, ...], known: dict[Symbol, int]) -> None:
        sizes = tuple(evaluate(dim, known) for dim in shape)
        if array.shape != sizes:
            raise EvaluationError(f"{what} has another shape", expected=str(list(sizes)), found=str(list(array.shape)))
