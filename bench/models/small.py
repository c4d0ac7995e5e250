"""Small networks of our own, each for one kind of layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models import Entry, as_trained
from zoo import Example

BATCH = ({"N": 1}, {"N": 3})
PLANES = ({"N": 1, "H": 37, "W": 48}, {"N": 3, "H": 24, "W": 19})
SERIES = ({"N": 1, "S": 9}, {"N": 3, "S": 1})


def entry(
    name: str, model: Callable[[], nn.Module], inputs: Callable[[], tuple[Any, ...]], dynamic: Any,
    sizes: tuple[dict[str, int], ...],
) -> Entry:  # fmt: skip
    """A network by its class, with what makes its inputs."""

    def make() -> Example:
        torch.manual_seed(0)
        return Example(as_trained(model()), inputs(), dynamic_shapes=dynamic)

    return Entry(name, make, sizes)


def twice(into: int, out: int) -> nn.Sequential:
    """Two convolutions with batch norm, as in a U-Net."""
    layers: list[nn.Module] = []
    for channels in (into, out):
        layers += [nn.Conv2d(channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Down and up again by two steps; what comes up is padded to the size of what it meets."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.down = nn.ModuleList([twice(3, 8), twice(8, 16), twice(16, 32)])
        self.up = nn.ModuleList([self.rise(32, 16, transposed), self.rise(16, 8, transposed)])
        self.mix = nn.ModuleList([twice(32, 16), twice(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    @staticmethod
    def rise(into: int, out: int, transposed: bool) -> nn.Module:
        """Twice the size, other channels."""
        if transposed:
            return nn.ConvTranspose2d(into, out, 2, stride=2)
        return nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(into, out, 1))

    def forward(self, x: Tensor) -> Tensor:
        """A score for two classes at each place."""
        passed = []
        for block in self.down:
            x = block(F.max_pool2d(x, 2) if passed else x)
            passed.append(x)
        for rise, mix, skip in zip(self.up, self.mix, passed[-2::-1], strict=True):
            x = rise(x)
            high, wide = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = F.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
            x = mix(torch.cat([skip, x], 1))
        return self.head(x)


class Interpolated(nn.Module):
    """A decoder that brings all levels to the input's size, by every mode of interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList([nn.Conv2d(channels, 8, 3, stride=2, padding=1) for channels in (3, 8, 8)])

    def forward(self, x: Tensor) -> list[Tensor]:
        """The first two levels at the input's size, the last by scales."""
        size = x.shape[-2:]
        one, two, three = (x := F.silu(level(x)) for level in self.levels)
        return [
            F.interpolate(one, size, mode="bilinear", align_corners=False),
            F.interpolate(two, size, mode="nearest"),
            F.interpolate(three, scale_factor=1.5, mode="bilinear"),
            F.interpolate(three, scale_factor=3, mode="bicubic"),
            F.interpolate(x, size, mode="bicubic", align_corners=True),
        ]


class ESPCN(nn.Module):
    """Super-resolution by sub-pixel convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1), nn.Tanh(),
            nn.Conv2d(8, 9, 3, padding=1), nn.PixelShuffle(3), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Three times as high and wide."""
        return self.layers(x)


class Encoder(nn.Module):
    """PyTorch's own encoder over embedded tokens; padding is left out of attention."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        torch.backends.mha.set_fastpath_enabled(False)
        self.embed, self.places = nn.Embedding(100, 32), nn.Embedding(64, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True, norm_first=norm_first)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(32), enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        """The last layer's states."""
        x = self.embed(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.encoder(x, src_key_padding_mask=ids == 0)


class Transformer(nn.Module):
    """PyTorch's encoder and decoder with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        torch.backends.mha.set_fastpath_enabled(False)
        self.model = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The decoder's states."""
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.model(source, target, tgt_mask=mask, tgt_is_causal=True)


class Detector(nn.Module):
    """A YOLO-style head on three levels: boxes decoded with anchors, and all levels' boxes in one list."""

    anchors: Tensor

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.outputs = classes + 5
        self.strides = (8, 16, 32)
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, stride=8, padding=3), nn.SiLU())
        self.down = nn.ModuleList([nn.Conv2d(8, 8, 3, stride=2, padding=1) for _ in self.strides[1:]])
        self.heads = nn.ModuleList([nn.Conv2d(8, 3 * self.outputs, 1) for _ in self.strides])
        self.register_buffer("anchors", torch.rand(3, 3, 2) * 60 + 8)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Boxes [batch, all, 4] as centre and size in pixels, and scores [batch, all, classes]."""
        x = self.stem(image)
        levels = [x]
        for down in self.down:
            x = F.silu(down(x))
            levels.append(x)
        found = []
        for x, head, stride, anchors in zip(levels, self.heads, self.strides, self.anchors, strict=True):
            n, _, high, wide = x.shape
            y = head(x).view(n, 3, self.outputs, high, wide).permute(0, 1, 3, 4, 2).sigmoid()
            rows, columns = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
            grid = torch.stack((columns, rows), 2).to(y.dtype)
            centre, size, rest = y.split((2, 2, self.outputs - 4), 4)
            centre = (centre * 2 - 0.5 + grid) * stride
            size = (size * 2) ** 2 * anchors.view(1, 3, 1, 1, 2)
            found.append(torch.cat((centre, size, rest), 4).view(n, -1, self.outputs))
        boxes, objectness, scores = torch.cat(found, 1).split((4, 1, self.outputs - 5), 2)
        return boxes, scores * objectness


class AttentionPool(nn.Module):
    """A learned query looks at a sequence; what lies behind each one's length is masked."""

    def __init__(self) -> None:
        super().__init__()
        torch.backends.mha.set_fastpath_enabled(False)
        self.query = nn.Parameter(torch.randn(1, 2, 32))
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Two summaries of each sequence, and the weights."""
        hidden = torch.arange(x.shape[1]) >= lengths[:, None]
        return self.attention(self.query.expand(x.shape[0], -1, -1), x, x, key_padding_mask=hidden)


class Classifier(nn.Module):
    """Tokens through a recurrent layer of any kind; the last states of both directions are looked at."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.layers = getattr(nn, kind)(16, 24, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1, **options)
        width = options.get("proj_size", 24)
        self.head = nn.Linear(4 * width, 5)

    def forward(self, ids: Tensor) -> Tensor:
        """Scores of the classes."""
        y, state = self.layers(self.embed(ids))
        hidden = state[0] if isinstance(state, tuple) else state
        return self.head(torch.cat([y.mean(1), hidden[-2], hidden[-1]], 1))


class PackedTagger(nn.Module):
    """Sequences of several lengths, packed: a tag for each element, and the last state of each sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(8, 16, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 6)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of the tags, and the states."""
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, (hidden, _) = self.layer(packed)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
        return self.head(y), hidden


class SpatialTransformer(nn.Module):
    """A net looks at the image and says where to look again, by an affine grid."""

    def __init__(self) -> None:
        super().__init__()
        self.localization = nn.Sequential(
            nn.Conv2d(1, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(8, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
            nn.Linear(10 * 3 * 3, 32), nn.ReLU(), nn.Linear(32, 6),
        )  # fmt: skip
        self.layers = nn.Sequential(
            nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
            nn.Linear(20 * 4 * 4, 50), nn.ReLU(), nn.Linear(50, 10), nn.LogSoftmax(1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities of the digits."""
        theta = self.localization(x).view(-1, 2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return self.layers(F.grid_sample(x, grid, align_corners=False))


def image(channels: int = 3, size: int = 32) -> Callable[[], tuple[Tensor]]:
    """What makes two images."""
    return lambda: (torch.randn(2, channels, size, size + 8),)


ON_PLANES = ({0: "N", 2: "H", 3: "W"},)
SEQUENCE = {0: "N", 1: "S"}
ENTRIES: list[Entry] = [
    entry("U-Net, bilinear", lambda: UNet(False), image(), ON_PLANES, PLANES),
    entry("U-Net, transposed", lambda: UNet(True), image(), ON_PLANES, PLANES),
    # Where the nearest element is that of a whole number of steps, the way that torch rounds tells which one it takes.
    entry("interpolation", Interpolated, image(), ON_PLANES, (*PLANES, {"N": 1, "H": 198, "W": 230})),
    entry("ESPCN", ESPCN, image(1, 24), ON_PLANES, PLANES),
    entry("YOLO head", Detector, image(3, 64), ON_PLANES, ({"N": 1, "H": 96, "W": 80}, {"N": 3, "H": 71, "W": 33})),
    *(
        entry(
            f"nn.TransformerEncoder, {name}", lambda first=first: Encoder(first),
            lambda: (torch.randint(0, 9, (2, 7)),), (SEQUENCE,), SERIES,
        )
        for name, first in (("post-norm", False), ("pre-norm", True))
    ),
    entry(
        "nn.Transformer", Transformer, lambda: (torch.randn(2, 7, 32), torch.randn(2, 5, 32)),
        (SEQUENCE, {0: "N", 1: "T"}), ({"N": 1, "S": 9, "T": 4}, {"N": 3, "S": 1, "T": 1}),
    ),
    entry(
        "attention pooling", AttentionPool, lambda: (torch.randn(2, 7, 32), torch.tensor([1, 7])), (SEQUENCE, {0: "N"}),
        ({"N": 1, "S": 9}, {"N": 3, "S": 12}),
    ),
    *(
        entry(f"{name} classifier", make, lambda: (torch.randint(0, 100, (2, 7)),), (SEQUENCE,), SERIES)
        for name, make in (
            ("LSTM", lambda: Classifier("LSTM")), ("LSTM with projections", lambda: Classifier("LSTM", proj_size=12)),
            ("GRU", lambda: Classifier("GRU")), ("RNN", lambda: Classifier("RNN")),
        )
    ),
    entry(
        "LSTM, packed", PackedTagger, lambda: (torch.randn(2, 7, 8), torch.tensor([1, 7])), (SEQUENCE, {0: "N"}),
        ({"N": 1, "S": 9}, {"N": 3, "S": 12}),
    ),
    entry("spatial transformer", SpatialTransformer, lambda: (torch.randn(2, 1, 28, 28),), ({0: "N"},), BATCH),
]  # fmt: skip
