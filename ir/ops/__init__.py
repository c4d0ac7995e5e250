"""The op table's rows, one file a family. Importing this package fills `isthmus.ir.op.OPS`."""

from isthmus.ir.ops import core, elementwise

__all__ = ["core", "elementwise"]
