"""Assertions inside models."""

from __future__ import annotations

from typing import Any

from isthmus.frontends.torch.aten.common import truth
from isthmus.frontends.torch.lowering import Lowering, lowers
from isthmus.ir.graph import Value


@lowers("aten._assert_async", "aten._assert_async.msg")
def assert_async(w: Lowering, x: Value, assert_msg: str = "") -> Any:
    w.b.check(truth(w, x), message=assert_msg)
