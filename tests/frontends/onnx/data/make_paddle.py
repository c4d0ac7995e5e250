"""Models of PaddlePaddle, written by Paddle2ONNX: ``python make_paddle.py`` in an environment with
``pip install paddlepaddle==3.3.1 paddle2onnx==2.1.0 packaging six``."""

from __future__ import annotations

import tempfile

import numpy as np
import paddle
import paddle2onnx
from keep import draw, keep, tokens
from paddle import nn
from paddle.nn import functional

paddle.seed(0)


class Conv(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2D(3, 4, 3, padding=1, bias_attr=False), nn.BatchNorm2D(4)
        self.depth, self.out = nn.Conv2D(4, 4, 3, padding=1, groups=4), nn.Linear(4, 3)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu6(self.norm(self.conv(x))), 2, 2)
        x = x + functional.hardswish(self.depth(x))
        return functional.softmax(self.out(functional.adaptive_avg_pool2d(x, 1).flatten(1)))


class Gru(nn.Layer):
    def __init__(self):
        super().__init__()
        self.cells = nn.GRU(5, 6)

    def forward(self, x):
        return self.cells(x)


class Block(nn.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(20, 16), nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)

    def forward(self, words):
        return self.layer(self.words(words))


class Pieces(nn.Layer):
    def forward(self, x):
        values, places = paddle.topk(x, 3, axis=1)
        found = values, places, paddle.cumsum(x, 1), paddle.where(x > 0, x, paddle.exp(x)), paddle.argmax(x, 1)
        return *found, paddle.clip(x, -1, 1), paddle.concat(paddle.split(x, 2, 1)[::-1], 1), paddle.std(x, 1)


for name, model, rows in (
    ("conv", Conv(), draw(3, 3, 12, 12)), ("gru", Gru(), draw(3, 7, 5)), ("block", Block(), tokens(3, 9).astype(np.int64)),
    ("pieces", Pieces(), draw(3, 8)),
):  # fmt: skip
    model.eval()
    for key, value in model.state_dict().items():  # norms as they are after training
        if key.endswith(("_variance", "_mean")):
            value.set_value(np.random.default_rng(0).uniform(0.5, 2, value.shape).astype(np.float32))
    found = model(paddle.to_tensor(rows))
    path = keep(f"paddle_{name}", [rows], [each.numpy() for each in (found if isinstance(found, tuple) else (found,))])
    spec = paddle.static.InputSpec([None, *rows.shape[1:]], str(rows.dtype), "x")
    with tempfile.TemporaryDirectory() as folder:
        paddle.jit.save(paddle.jit.to_static(model, input_spec=[spec], full_graph=True), f"{folder}/model")
        paddle2onnx.export(f"{folder}/model.json", f"{folder}/model.pdiparams", str(path), opset_version=16)
