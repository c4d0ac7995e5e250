"""Turns a graph of legal nodes into a net: names, layers, and where each of the graph's outputs is found."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from isthmus.backends.caffe.dialect import Dialect
from isthmus.backends.caffe.layers import Blob, Layer, rank_of, say
from isthmus.backends.caffe.schema import Message
from isthmus.backends.caffe.wire import blob
from isthmus.backends.names import Names
from isthmus.ir.dims import Dim, hint
from isthmus.ir.errors import Refusal, UnsupportedError
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.op import Trait

_STRANGE: Final = re.compile(r"[^\w./-]+", re.ASCII)
"""ncnn's files are divided by blanks, and others take names apart at signs of their own."""


class Net:
    """A net.

    Attributes:
        text: the NetParameter with the parameters and without weights.
        weights: the NetParameter with names, types and weights.
        inputs: the names of the inputs, in order.
        outputs: the names of the blobs, and of the layers that make them, that are the outputs, in order.
        shapes: the shape of each output.
        input_shapes: the shape of each input.
        locations: where each layer comes from, by its name.
    """

    def __init__(self, graph: Graph, dialect: Dialect, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.dialect = dialect
        self.text = Message("NetParameter", {"name": clean(graph.name), "layer": []})
        self.weights = Message("NetParameter", {"name": clean(graph.name), "layer": []})
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.shapes: list[tuple[Dim, ...]] = [value.tensor.shape or () for value in graph.outputs]
        self.input_shapes: list[tuple[Dim, ...]] = [value.tensor.shape or () for value in graph.inputs]
        self.locations: dict[str, str] = {}
        self._taken = Names(second=2)
        self._names: dict[Value | Blob, str] = {}
        self._raised: set[str] = set()
        for value, name in zip(graph.inputs, inputs, strict=True):
            found = self.unique(name)
            self.inputs.append(found)
            self._names[value] = found
            sizes = [hint(dim) or 1 for dim in value.tensor.shape or ()]
            shape = Message("InputParameter", {"shape": [Message("BlobShape", {"dim": sizes})]})
            self.layer(Layer("Input", [], [Blob(len(sizes))], shape), [found])
            if not value.uses:  # OpenCV wants every input read
                self.layer(Layer("Power", [value], [Blob(len(sizes))]), [self.unique(f"{found}/unused")])
        wanted: dict[Value, str] = {}
        self._reserved = [self.unique(name) for name in outputs]
        for value, name in zip(graph.outputs, self._reserved, strict=True):
            # One that is read as well keeps a name of its own, and a layer copies it out: OpenCV fuses a layer into the
            # one before it, in place, where nothing else reads the blob between them.
            if value.producer is not None and all(user is graph for user, _ in value.uses):
                wanted.setdefault(value, name)
        for node in graph.nodes:
            if not node.has(Trait.CONSTANT):
                self.node(node, wanted)
        for value, name in zip(graph.outputs, self._reserved, strict=True):
            if self._names.get(value) != name:
                self.layer(Layer("Power", [value], [Blob(value.tensor.rank)]), [name])
            self.outputs.append(name)

    def unique(self, name: str) -> str:
        """The name, as readers take it, with a number where something has it already."""
        return self._taken.unique(clean(name))

    def node(self, node: Node, wanted: dict[Value, str]) -> None:
        """Adds a node's layers. A result that is an output, and the first top of its layer, has the output's name."""
        layers, results = say(self.dialect, node)
        firsts = {layer.tops[0] for layer in layers}
        base = node.location.module or node.op.name
        found = {
            blob: wanted[value] for value, blob in zip(node.results, results, strict=True) if value in wanted and blob in firsts
        }
        stem = next(iter(found.values()), None) or self.unique(base)
        for value, result in zip(node.results, results, strict=True):
            if result not in found:
                free = result is results[0] and stem not in found.values()
                found[result] = stem if free else self.unique(stem)
            self._names[value] = found[result]
        for layer in layers:
            names = [found.get(top) or self.unique(f"{stem}/{top.hint or layer.type.lower()}") for top in layer.tops]
            self._names.update(zip(layer.tops, names, strict=True))
            self.layer(layer, names)
            self.locations[names[0]] = str(node.location)

    def _apart(self, value: Value | Blob) -> Blob:
        """A copy of what a Power with an exponent made: OpenCV fuses the next Power into that one and forgets the exponent.

        A blob is the greater of itself and itself, and two readings of a blob are never fused.
        """
        copy = Blob(rank_of(value), "apart")
        greater = Message("EltwiseParameter", {"operation": "MAX"})
        name = self._names[copy] = self.unique(f"{self._names[value]}/apart")
        self.layer(Layer("Eltwise", [value, value], [copy], greater), [name])
        return copy

    def layer(self, layer: Layer, tops: list[str]) -> None:
        """Adds a layer under the name of its first top.

        Raises:
            UnsupportedError: the dialect does not take it. Nodes were asked before; this is one that joins them.
        """
        if layer.type == "Power" and self._names[layer.bottoms[0]] in self._raised:
            layer = dataclasses.replace(layer, bottoms=[self._apart(layer.bottoms[0])])
        if layer.type == "Power" and layer.parameters is not None and layer.parameters.fields.get("power", 1.0) != 1.0:
            self._raised.add(tops[0])
        rank = rank_of(layer.bottoms[0]) if layer.bottoms else None
        counts = (len(layer.bottoms), len(tops), len(layer.blobs))
        objection = self.dialect.objection(layer.type, layer.parameters, *counts, rank)
        if objection is not None:
            what = f"the layer {tops[0]}, which names or copies a blob, cannot be written"
            raise UnsupportedError(what, [Refusal(objection, remedy=f"give the dialect a layer {layer.type}")])
        made = Message("LayerParameter", {"name": tops[0], "type": layer.type})
        if layer.bottoms:
            made.fields["bottom"] = [self._names[bottom] for bottom in layer.bottoms]
        made.fields["top"] = tops
        holder = self.dialect.parameter_field(layer.type)
        if layer.parameters is not None and holder is not None:
            made.fields[holder] = layer.parameters
        self.text["layer"].append(made)
        if layer.blobs:
            blobs = [blob(weight, shape) for weight, shape in layer.blobs]
            fields = {"name": tops[0], "type": layer.type, "blobs": blobs}
            self.weights["layer"].append(Message("LayerParameter", fields))


def clean(name: str) -> str:
    """A name of letters, digits, ``_``, ``.``, ``/`` and ``-`` alone."""
    return _STRANGE.sub("_", name) or "_"
