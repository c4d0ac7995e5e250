"""The typed, framework-agnostic intermediate representation."""

from isthmus.ir import dims, dtypes, ops
from isthmus.ir.builder import Builder, decompose
from isthmus.ir.dims import Dim, Symbol
from isthmus.ir.dtypes import DType
from isthmus.ir.equality import difference, equal
from isthmus.ir.graph import Graph, Node, Value
from isthmus.ir.location import Location
from isthmus.ir.op import OPS, Call, Op, Sample, Trait, register, sample
from isthmus.ir.parser import parse
from isthmus.ir.printer import print_graph, weight_table
from isthmus.ir.symbols import Assumption, Symbols
from isthmus.ir.types import Map, Optional, Sequence, Tensor, Type, Unknown
from isthmus.ir.verifier import verify
from isthmus.ir.weights import ArrayWeight, LazyWeight, MappedWeight, Weight, weight

__all__ = [
    "OPS", "ArrayWeight", "Assumption", "Builder", "Call", "DType", "Dim", "Graph", "LazyWeight", "Location",
    "Map", "MappedWeight", "Node", "Op", "Optional", "Sample", "Sequence", "Symbol", "Symbols", "Tensor", "Trait", "Type",
    "Unknown", "Value", "Weight", "decompose", "difference", "dims", "dtypes", "equal", "ops", "parse", "print_graph",
    "register", "sample", "verify", "weight", "weight_table",
]  # fmt: skip
