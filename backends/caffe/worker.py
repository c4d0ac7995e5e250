"""A reader of Caffe files in a process of its own: a bad file can end that process, and not this one."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from isthmus.ir.errors import EvaluationError, UnavailableError

REMEDY = "pip install 'opencv-python-headless>=4.10,<5'"


class Worker:
    """Runs a script that answers a request a line on its standard input with a line on its standard output.

    The process starts with the first request, serves further ones, and is started anew when it has died.

    Args:
        script: the script.
        reader: the reader's name, for errors.
    """

    def __init__(self, script: Path, reader: str) -> None:
        self.script = script
        self.reader = reader
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def run(self, files: Sequence[str], inputs: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
        """The blobs of these names, of the net in these files on these inputs.

        Raises:
            EvaluationError: the reader refuses the net or the inputs, or its process dies.
        """
        with self._lock, tempfile.TemporaryDirectory() as folder:
            given, made, complaints = (str(Path(folder, name)) for name in ("in.npz", "out.npz", "complaints"))
            np.savez(given, **{f"input:{name}": array for name, array in inputs.items()})
            request = {"files": list(files), "inputs": given, "outputs": list(outputs), "made": made, "complaints": complaints}
            answer = self._ask(json.dumps(request))
            if answer is None:
                status = self._process.wait() if self._process is not None else None
                self._process = None
                raise EvaluationError(f"{self.reader} died on the net", found=f"exit status {status}")
            problem = json.loads(answer)["problem"]
            if problem:
                raise EvaluationError(f"{self.reader} refuses the net: {problem}")
            with np.load(made) as arrays:
                return {name: arrays[f"output:{name}"] for name in outputs}

    def _ask(self, line: str) -> str | None:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = subprocess.Popen(
                [sys.executable, str(self.script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True,
            )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return None
        return process.stdout.readline() or None


@cache
def opencv() -> Worker:
    """The process with OpenCV.

    Raises:
        UnavailableError: it is not installed.
    """
    if find_spec("cv2") is None:
        raise UnavailableError("Caffe nets are run by OpenCV's dnn module, which is not installed", remedy=REMEDY)
    return Worker(Path(__file__).with_name("opencv_child.py"), "OpenCV")
