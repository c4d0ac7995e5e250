"""Models of Keras on TensorFlow, written by Keras's own exporter (tf2onnx): ``python make_keras.py`` in an environment with
``pip install tensorflow-cpu==2.21.0 keras==3.15.1 tf2onnx==1.17.0``."""

from __future__ import annotations

import keras
import numpy as np
from keep import draw, keep, tokens
from keras import layers as L
from keras import ops

keras.utils.set_random_seed(0)
TRAINED = np.random.default_rng(0)


def conv():
    x = given = L.Input((12, 12, 3))
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(4, 3, padding="same", use_bias=False)(x)))
    x = L.MaxPooling2D()(x)
    x = L.GlobalAveragePooling2D()(x + L.Conv2D(4, 3, padding="same", activation="relu")(x))
    return keras.Model(given, L.Dense(3, activation="softmax")(x)), draw(3, 12, 12, 3)


def mobile():
    x = given = L.Input((13, 13, 3))
    x = L.ReLU(max_value=6)(L.BatchNormalization()(L.Conv2D(4, 3, strides=2, padding="same")(x)))
    x = L.Activation("swish")(L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same", use_bias=False)(x)))
    x = L.SeparableConv2D(6, 3)(x)
    weights = L.Dense(3, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(x))
    x = x * L.Dense(6, activation="hard_sigmoid")(weights)
    return keras.Model(given, L.Dense(3)(L.Flatten()(x))), draw(3, 13, 13, 3)


def dense():
    x = given = L.Input((10,))
    x = L.LayerNormalization()(L.Dense(8, activation=lambda t: keras.activations.gelu(t, approximate=True))(x))
    x = L.Dense(8, activation="selu")(L.Dropout(0.2)(x))
    return keras.Model(given, L.Dense(4, activation="softplus")(x)), draw(3, 10)


def lstm():
    x = given = L.Input((7, 5))
    x = L.Bidirectional(L.LSTM(4))(L.LSTM(6, return_sequences=True)(x))
    return keras.Model(given, L.Dense(2)(x)), draw(3, 7, 5)


def loop():
    given = L.Input((7, 5))
    return keras.Model(given, L.SimpleRNN(6)(given)), draw(3, 7, 5)


def text():
    given = L.Input((9,), dtype="int32")
    x = L.GlobalMaxPooling1D()(L.Conv1D(6, 3, activation="relu")(L.Embedding(20, 8)(given)))
    return keras.Model(given, L.Dense(2, activation="sigmoid")(x)), tokens(3, 9)


def windows():
    x = given = L.Input((8, 8, 4))
    x = ops.transpose(ops.reshape(x, (-1, 2, 4, 2, 4, 4)), (0, 1, 3, 2, 4, 5))
    x = ops.reshape(x, (-1, 16, 4))
    x = ops.reshape(L.MultiHeadAttention(2, 4)(x, x), (-1, 2, 2, 4, 4, 4))
    x = ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, 8, 8, 4))
    return keras.Model(given, L.LayerNormalization()(ops.roll(x, 1, axis=1))), draw(2, 8, 8, 4)


def pieces():
    given = L.Input((8,))
    first, second = ops.split(given, 2, axis=-1)
    chosen = ops.where(first > 0, first, ops.exp(second))
    found = [chosen, *ops.top_k(given, 3), ops.cumsum(given, axis=1), ops.take(given, [1, 3], axis=1), ops.sort(given, axis=1)]
    return keras.Model(given, found), draw(3, 8)


for make in (conv, mobile, dense, lstm, loop, text, windows, pieces):
    model, rows = make()
    for weight in model.weights:  # norms as they are after training
        if any(word in weight.path for word in ("moving_variance", "gamma")):
            weight.assign(TRAINED.uniform(0.5, 2, weight.shape))
        elif any(word in weight.path for word in ("beta", "bias", "moving_mean")):
            weight.assign(TRAINED.normal(0, 0.3, weight.shape))
    model.export(keep(f"keras_{make.__name__}", [rows], model(rows)), format="onnx", verbose=False)
