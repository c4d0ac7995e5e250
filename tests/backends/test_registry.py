from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from isthmus.backends import registry
from isthmus.backends.onnx import OnnxBackend
from isthmus.backends.reference import ReferenceBackend
from isthmus.ir.errors import UsageError


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    monkeypatch.setattr(registry, "_entries", lambda: found)
    return found


def test_own_backends_are_found() -> None:
    assert {"onnx", "reference"} <= set(registry.names())
    assert registry.find("onnx") is OnnxBackend
    assert registry.find("reference") is ReferenceBackend


def test_unknown_target_names_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"there is no target 'onxx'(.|\n)*expected: .*onnx, .*reference"):
        registry.find("onxx")


def test_target_whose_package_is_broken_is_listed_and_explained(entries: dict[str, EntryPoint]) -> None:
    entries["lost"] = EntryPoint("lost", "nowhere_at_all.backend:Lost", registry.GROUP)
    assert registry.names() == ["lost"]
    with pytest.raises(UsageError, match=r"'lost' cannot be loaded from nowhere_at_all(.|\n)*No module named(.|\n)*repair"):
        registry.find("lost")


def test_own_target_without_its_packages_says_what_to_install(entries: dict[str, EntryPoint]) -> None:
    entries["onnx"] = EntryPoint("onnx", "isthmus.backends.onnx:Missing", registry.GROUP)
    with pytest.raises(UsageError, match=r"pip install 'isthmus\[onnx\]'"):
        registry.find("onnx")


def test_what_is_no_backend_is_refused(entries: dict[str, EntryPoint]) -> None:
    entries["odd"] = EntryPoint("odd", "builtins:dict", registry.GROUP)
    with pytest.raises(UsageError, match="'odd' is not a backend"):
        registry.find("odd")
