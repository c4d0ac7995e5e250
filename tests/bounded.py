"""Models compiled in a process of their own, which has little memory and time: what becomes of those that are out to take more.

The processes are forked off one that has loaded everything and done nothing.
"""

from __future__ import annotations

import multiprocessing
import resource
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import onnxruntime

import isthmus
from isthmus.errors import IsthmusError

MEMORY: Final = 3 << 30
"""Bytes that a process may take beyond what it has at the start."""
SECONDS: Final = 60
Feed: TypeAlias = Mapping[str, Any]
PAGE: Final = resource.getpagesize()

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["bounded", "isthmus.backends.onnx", "isthmus.frontends.onnx", "isthmus.backends.reference"])


@dataclass
class Outcome:
    """What became of a model.

    Attributes:
        kind: ``made``; ``refused``, with one of isthmus' errors; ``crashed``, with another exception; ``killed``; or ``slow``.
        told: the error.
        outputs: for each feed, the outputs in order.
    """

    kind: str
    told: str = ""
    outputs: list[list[Any]] = field(default_factory=list)


def compiled(
    path: Path, saved: Path | None, feeds: Sequence[Feed] = (), memory: int = MEMORY, seconds: float = SECONDS, **options: Any,
) -> Outcome:  # fmt: skip
    """Compiles a file, saves the result and runs it.

    Args:
        path: the file.
        saved: where the result goes; None for a target that writes no files.
        feeds: inputs by name, for each run.
        memory: bytes that this may take.
        seconds: how long it may take.
        options: of `isthmus.compile`.
    """
    here, there = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_compile, args=(there, str(path), saved, list(feeds), memory, options))
    process.start()
    there.close()
    try:
        found = here.recv() if here.poll(seconds) else Outcome("slow", f"takes more than {seconds} s")
    except EOFError:
        process.join()
        found = Outcome("killed", f"exit code {process.exitcode}")
    finally:
        process.kill()
        process.join()
    return found


def _compile(told: Any, path: str, saved: Path | None, feeds: Sequence[Feed], memory: int, options: dict[str, Any]) -> None:
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
    resource.setrlimit(resource.RLIMIT_AS, (taken + memory, taken + memory))
    onnxruntime.set_default_logger_severity(4)
    try:
        net = isthmus.compile(path, **options)
        if saved is not None:
            net.save(saved)
        outcome = Outcome("made", "", [list(net(**feed).values()) for feed in feeds])
    except IsthmusError as error:
        outcome = Outcome("refused", f"{type(error).__name__}: {error}")
    except BaseException as error:
        where = traceback.format_tb(error.__traceback__)[-3:]
        outcome = Outcome("crashed", f"{type(error).__name__}: {str(error)[:500]}\n{''.join(where)}")
    told.send(outcome)
