"""Readers of Caffe files, each in a process of its own that all tests share."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from isthmus.backends.caffe.worker import Worker


@cache
def mnn() -> Worker:
    """The process with MNN; the test is skipped where it is not installed."""
    if find_spec("MNN") is None:
        pytest.skip("MNN is not installed: pip install mnn==3.6.1")
    return Worker(Path(__file__).parent / "backends" / "caffe" / "mnn_child.py", "MNN")
