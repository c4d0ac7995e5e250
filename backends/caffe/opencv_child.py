"""Runs Caffe nets in OpenCV's dnn module: one request a line on standard input, one answer a line. Started by `Worker`."""

import json
import os
import sys
from typing import Any, TextIO

import cv2
import numpy as np


def serve(answers: TextIO) -> None:
    """Answers requests until there are no more."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            run(request)
            problem = ""
        except Exception as error:  # whatever it is, the other process tells it to the user
            problem = " ".join(str(error).split()) or type(error).__name__
        answers.write(json.dumps({"problem": problem}) + "\n")
        answers.flush()


def run(request: Any) -> None:
    """Reads the net, feeds the inputs, and writes the outputs."""
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        found = f"OpenCV {cv2.__version__} reads no Caffe nets any more"
        raise RuntimeError(f"{found}; pip install 'opencv-python-headless>=4.10,<5'")
    net = cv2.dnn.readNetFromCaffe(*request["files"])
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    with np.load(request["inputs"]) as arrays:
        for name in arrays.files:
            net.setInput(arrays[name], name.removeprefix("input:"))
    found = net.forward(request["outputs"])
    np.savez(request["made"], **{f"output:{name}": array for name, array in zip(request["outputs"], found, strict=True)})


if __name__ == "__main__":
    cv2.setNumThreads(1)
    # What the library prints must not be taken for an answer.
    with os.fdopen(os.dup(1), "w") as stream:
        os.dup2(2, 1)
        serve(stream)
