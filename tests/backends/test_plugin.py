"""A backend in a package of its own: installed, found, used and tested by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).with_name("plugin")
COMPILE = """
import json, torch, isthmus
from isthmus.errors import IsthmusError

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x) * 2

model, x = Net(), torch.randn(2, 3)
net = isthmus.compile(model, x, target="dummy", longest=50)
told = {"worst": net.verify().worst, "nodes": net.artefact.node_count, "options": net.report.options}
for name, options in {"type": {"longest": "many"}, "range": {"longest": 0}, "unknown": {"shortest": 1}, "few": {"longest": 1},
                      "lacking": {"without": "exp"}, "broken": {"target": "broken"}}.items():
    try:
        isthmus.compile(model, x, **{"target": "dummy", **options})
    except IsthmusError as error:
        told[name] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the package is installed; it is built from a copy, so that nothing is left behind here."""
    folder = tmp_path_factory.mktemp("plugin")
    source, target = folder / "source", folder / "installed"
    (source / "isthmus_dummy").mkdir(parents=True)
    for file in ("pyproject.toml", "isthmus_dummy/__init__.py", "isthmus_dummy/broken.py"):
        (source / file).write_text((PLUGIN / file).read_text())
    pip = ["pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    environment = {**os.environ, "PYTHONPATH": str(target), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    run(environment, "-m", *pip, "--target", str(target), str(source))
    return environment


def run(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, cwd=PLUGIN)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_compiles_and_its_options_are_checked(installed: dict[str, str]) -> None:
    told = json.loads(run(installed, "-c", COMPILE))
    assert told["worst"] < 1e-5
    assert told["nodes"] > 3
    assert told["options"] == {"longest": 50}
    assert "UsageError: an option has a wrong value" in told["type"]
    assert "longest: Input should be a valid integer" in told["type"]
    assert "greater than 0" in told["range"]
    assert "there is no option shortest" in told["unknown"]
    assert "longest, without (of the target dummy)" in told["unknown"]
    assert "the list of calls is too long" in told["few"]
    assert "UnsupportedError" in told["lacking"]
    assert "dummy has no exp" in told["lacking"]
    assert "UsageError: the target 'broken' cannot be loaded from isthmus_dummy.broken:BrokenBackend" in told["broken"]
    assert "RuntimeError: the licence server does not answer" in told["broken"]


def test_it_is_listed_with_its_options_and_what_is_broken_is_told(installed: dict[str, str]) -> None:
    listed = json.loads(run(installed, "-m", "isthmus.cli", "targets", "--json"))
    assert listed["dummy"]["longest"]["description"] == "how many calls a list may have."
    assert {"onnx", "reference", "dummy"} <= listed.keys()
    assert "broken" not in listed
    assert "the licence server does not answer" in run(installed, "-m", "isthmus.cli", "targets")


def test_it_passes_the_suite(installed: dict[str, str]) -> None:
    alone = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(PLUGIN)]
    told = run(installed, "-m", "pytest", "-q", *alone, "conformance.py")
    assert " passed" in told
