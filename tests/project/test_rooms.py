"""Arrows between the rooms point one way, and importing the package is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAY_IMPORT = {
    "ir": {"ir"},
    "frontends": {"frontends", "ir"},
    "passes": {"passes", "ir"},
    "backends": {"backends", "ir"},
}
HEAVY = ["torch", "onnx", "onnxruntime", "networkx", "sympy", "torchvision", "transformers", "google.protobuf"]


def imported_rooms(path: Path) -> Iterator[str]:
    """The rooms that a file imports anywhere in it, `isthmus` itself told as ``api``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == "isthmus":
                room = rest.partition(".")[0]
                yield room if room in MAY_IMPORT else "api"


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_lies_under_it(room: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {other}"
        for path in (ROOT / room).rglob("*.py")
        for other in imported_rooms(path)
        if other not in MAY_IMPORT[room]
    }
    assert not wrong


@pytest.mark.parametrize("module", ["isthmus", "isthmus.ir", "isthmus.passes", "isthmus.backends.registry", "isthmus.cli"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_loads_only_the_face() -> None:
    """What makes an import slow is what it loads: not even numpy or pydantic, until something is asked for."""
    code = "import sys; before = set(sys.modules); import isthmus; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in done.stdout.split()}
    assert packages - set(sys.stdlib_module_names) == {"isthmus"}
