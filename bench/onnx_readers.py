"""Readers of ONNX files, each in a process of its own: a bad file can end that process, and not this one."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

Read: TypeAlias = Callable[[bytes, Mapping[str, Any], Sequence[str]], "list[Any] | None"]
"""From a file's content, inputs by name and names of outputs to these; None from a reader that only reads."""


class Rejected(Exception):
    """A reader refuses a file, or dies of it; the argument is what it says, or how it ended."""


def opencv(content: bytes, inputs: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
    """OpenCV's dnn module."""
    import cv2

    net = cv2.dnn.readNetFromONNX(np.frombuffer(content, np.uint8))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    for name, array in inputs.items():
        net.setInput(array, name)
    return list(net.forward(list(outputs)))


def onnxruntime(content: bytes, inputs: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
    """onnxruntime, on the CPU."""
    from isthmus.backends.onnx.runtime import Session

    return Session(content)([inputs[name] for name in inputs])


def tensorrt_parser(content: bytes, inputs: Mapping[str, Any], outputs: Sequence[str]) -> None:
    """TensorRT's parser, which needs no GPU."""
    _parsed(content)


def tensorrt_builder(content: bytes, inputs: Mapping[str, Any], outputs: Sequence[str]) -> None:
    """TensorRT's parser and its builder, which need no GPU; the inputs tell the sizes to build for."""
    trt, builder, network, log, _parser = _parsed(content)
    _build(trt, builder, network, log, inputs)


def _parsed(content: bytes) -> tuple[Any, ...]:
    import tensorrt_rtx as trt

    class Log(trt.ILogger):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, text: str) -> None:
            if severity <= trt.ILogger.Severity.ERROR:
                self.errors.append(text)

    log = Log()
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, log)
    if not parser.parse(content):
        problems = [parser.get_error(index) for index in range(parser.num_errors)]
        raise ValueError("; ".join(f"{each.node_operator()}: {each.desc()}" for each in problems) or str(log.errors))
    return trt, builder, network, log, parser


def _build(trt: Any, builder: Any, network: Any, log: Any, inputs: Mapping[str, Any]) -> None:
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM89, 0)
    profile, any_dynamic = builder.create_optimization_profile(), False
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        given = np.asarray(inputs[tensor.name])
        if tensor.is_shape_tensor:
            any_dynamic = True
            profile.set_shape_input(tensor.name, *[given.reshape(-1).tolist()] * 3)
        elif -1 in tuple(tensor.shape):
            any_dynamic = True
            profile.set_shape(tensor.name, *[given.shape] * 3)
    if any_dynamic:
        config.add_optimization_profile(profile)
    if builder.build_serialized_network(network, config) is None:
        raise ValueError("; ".join(text for text in log.errors if "cudaError" not in text) or "it builds nothing")


READERS: dict[str, Read] = {
    "onnxruntime": onnxruntime, "opencv": opencv, "tensorrt-parser": tensorrt_parser, "tensorrt-builder": tensorrt_builder,
}  # fmt: skip


class Reader:
    """A reader that is asked again and again; its process starts with the first question, and anew when it has died.

    Args:
        name: one of `READERS`, or ``module:function`` of a `Read`.
        seconds: how long an answer may take.
    """

    def __init__(self, name: str, seconds: float = 300) -> None:
        self.name = name
        self.seconds = seconds
        self._process: Any = None
        self._line: Any = None

    def __call__(self, content: bytes, inputs: Mapping[str, Any], outputs: Sequence[str]) -> list[Any] | None:
        """What the reader makes of a file on these inputs.

        Raises:
            Rejected: nothing.
        """
        if self._process is None or not self._process.is_alive():
            self._start()
        try:
            self._line.send((content, dict(inputs), list(outputs)))
            if not self._line.poll(self.seconds):
                self.close()
                raise Rejected(f"it gives no answer within {self.seconds:g} s")
            problem, found = self._line.recv()
        except (EOFError, OSError):
            self._process.join()
            status = self._process.exitcode
            self.close()
            raise Rejected(f"it dies, with exit status {status}") from None
        if problem is not None:
            raise Rejected(problem)
        return found  # type: ignore[no-any-return]

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.name, other), daemon=True)
        self._process.start()
        other.close()

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._line.close()
            self._process = None


def _serve(name: str, line: Any) -> None:
    os.environ["OPENCV_LOG_LEVEL"] = "SILENT"
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    home, _, function = name.partition(":")
    read: Read = getattr(import_module(home), function) if function else READERS[name]
    while True:
        try:
            request = line.recv()
        except EOFError:
            return
        try:
            answer: Any = (None, read(*request))
        except Exception as error:  # whatever it is, the other process tells it
            answer = (" ".join(str(error).split()) or type(error).__name__, None)
        line.send(answer)
