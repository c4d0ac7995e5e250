"""Runs Caffe nets in MNN, converter and runtime: one request a line on standard input, one answer a line."""

import json
import os
import sys
from pathlib import Path


def serve(answers):
    for line in sys.stdin:
        request = json.loads(line)
        try:
            run(request)
            problem = ""
        except Exception as error:  # whatever it is, the other process tells it
            problem = " ".join(str(error).split()) or type(error).__name__
        answers.write(json.dumps({"problem": problem}) + "\n")
        answers.flush()


def run(request):
    import _tools
    import MNN
    import numpy as np

    prototxt, caffemodel = request["files"]
    made = prototxt + ".mnn"
    _tools.mnnconvert([
        "mnnconvert", "-f", "CAFFE", "--modelFile", caffemodel, "--prototxt", prototxt, "--MNNModel", made, "--bizCode", "test",
    ])  # fmt: skip
    if not Path(made).exists():
        raise RuntimeError("the converter makes no file")
    interpreter = MNN.Interpreter(made)
    # WINOGRAD_MEMORY_LEVEL: at 0 only the small tiles, whose rounding is 50 times less than the large ones' on VGG at 224.
    interpreter.setSessionHint(3, 0)
    session = interpreter.createSession({"backend": "CPU", "numThread": 1, "saveTensors": tuple(request["outputs"])})
    with np.load(request["inputs"]) as arrays:
        for name in arrays.files:
            array = np.ascontiguousarray(arrays[name], np.float32)
            tensor = interpreter.getSessionInput(session, name.removeprefix("input:"))
            given = MNN.Tensor(array.shape, MNN.Halide_Type_Float, array, MNN.Tensor_DimensionType_Caffe)
            tensor.copyFrom(given)
    interpreter.runSession(session)
    found = {}
    for name in request["outputs"]:
        tensor = interpreter.getSessionOutput(session, name)
        shape = tuple(tensor.getShape())
        room = np.zeros(shape, np.float32)
        copy = MNN.Tensor(shape, MNN.Halide_Type_Float, room, MNN.Tensor_DimensionType_Caffe)
        tensor.copyToHostTensor(copy)
        found[f"output:{name}"] = np.array(copy.getNumpyData(), np.float32).reshape(shape)
    np.savez(request["made"], **found)


if __name__ == "__main__":
    # What the libraries print must not be taken for an answer.
    with os.fdopen(os.dup(1), "w") as stream:
        os.dup2(2, 1)
        serve(stream)
