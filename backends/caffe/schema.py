"""What a Caffe file may hold: messages, their fields and enums, in a notation of our own; no protoc is needed.

A field reads ``name=number:type(default)``, with ``*`` behind the number where it repeats and ``+`` where it repeats and is
packed. The numbers are those of BVLC's caffe.proto; what a dialect has besides, or instead, its own data says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

VARINTS: Final = ("i32", "i64", "u32", "u64", "bool")
FLOATS: Final = {"f32": 4, "f64": 8}
SCALARS: Final = (*VARINTS, *FLOATS, "str", "bytes")

DEPTH: Final = 32
"""How deep messages may nest; Caffe's nest five deep."""

_MESSAGES: Final = """
NetParameter: name=1:str input=3*:str input_dim=4*:i32 force_backward=5:bool(false) debug_info=7:bool(false)
  input_shape=8*:BlobShape layer=100*:LayerParameter
BlobShape: dim=1+:i64
BlobProto: num=1:i32(0) channels=2:i32(0) height=3:i32(0) width=4:i32(0) data=5+:f32 diff=6+:f32 shape=7:BlobShape
  double_data=8+:f64 double_diff=9+:f64
LayerParameter: name=1:str type=2:str bottom=3*:str top=4*:str loss_weight=5*:f32 param=6*:ParamSpec blobs=7*:BlobProto
  include=8*:NetStateRule exclude=9*:NetStateRule phase=10:Phase(TRAIN) propagate_down=11*:bool
  argmax_param=103:ArgMaxParameter concat_param=104:ConcatParameter convolution_param=106:ConvolutionParameter
  dropout_param=108:DropoutParameter eltwise_param=110:EltwiseParameter exp_param=111:ExpParameter
  inner_product_param=117:InnerProductParameter lrn_param=118:LRNParameter mvn_param=120:MVNParameter
  pooling_param=121:PoolingParameter power_param=122:PowerParameter relu_param=123:ReLUParameter
  sigmoid_param=124:SigmoidParameter softmax_param=125:SoftmaxParameter slice_param=126:SliceParameter
  tanh_param=127:TanHParameter threshold_param=128:ThresholdParameter prelu_param=131:PReLUParameter
  reshape_param=133:ReshapeParameter log_param=134:LogParameter flatten_param=135:FlattenParameter
  reduction_param=136:ReductionParameter embed_param=137:EmbedParameter tile_param=138:TileParameter
  batch_norm_param=139:BatchNormParameter elu_param=140:ELUParameter bias_param=141:BiasParameter
  scale_param=142:ScaleParameter input_param=143:InputParameter crop_param=144:CropParameter
ParamSpec: name=1:str share_mode=2:i32 lr_mult=3:f32(1) decay_mult=4:f32(1)
NetStateRule: phase=1:Phase min_level=2:i32 max_level=3:i32 stage=4*:str not_stage=5*:str
ArgMaxParameter: out_max_val=1:bool(false) top_k=2:u32(1) axis=3:i32
ConcatParameter: concat_dim=1:u32(1) axis=2:i32(1)
ConvolutionParameter: num_output=1:u32 bias_term=2:bool(true) pad=3*:u32 kernel_size=4*:u32 group=5:u32(1) stride=6*:u32
  pad_h=9:u32(0) pad_w=10:u32(0) kernel_h=11:u32 kernel_w=12:u32 stride_h=13:u32 stride_w=14:u32 axis=16:i32(1)
  force_nd_im2col=17:bool(false) dilation=18*:u32
DropoutParameter: dropout_ratio=1:f32(0.5)
EltwiseParameter: operation=1:EltwiseOp(SUM) coeff=2*:f32 stable_prod_grad=3:bool(true)
ExpParameter: base=1:f32(-1) scale=2:f32(1) shift=3:f32(0)
InnerProductParameter: num_output=1:u32 bias_term=2:bool(true) axis=5:i32(1) transpose=6:bool(false)
LRNParameter: local_size=1:u32(5) alpha=2:f32(1) beta=3:f32(0.75) norm_region=4:NormRegion(ACROSS_CHANNELS) k=5:f32(1)
MVNParameter: normalize_variance=1:bool(true) across_channels=2:bool(false) eps=3:f32(1e-9)
PoolingParameter: pool=1:PoolMethod(MAX) kernel_size=2:u32 stride=3:u32(1) pad=4:u32(0) kernel_h=5:u32 kernel_w=6:u32
  stride_h=7:u32 stride_w=8:u32 pad_h=9:u32(0) pad_w=10:u32(0) global_pooling=12:bool(false)
PowerParameter: power=1:f32(1) scale=2:f32(1) shift=3:f32(0)
ReLUParameter: negative_slope=1:f32(0)
SigmoidParameter:
SoftmaxParameter: axis=2:i32(1)
SliceParameter: slice_dim=1:u32(1) slice_point=2*:u32 axis=3:i32(1)
TanHParameter:
ThresholdParameter: threshold=1:f32(0)
PReLUParameter: channel_shared=2:bool(false)
ReshapeParameter: shape=1:BlobShape axis=2:i32(0) num_axes=3:i32(-1)
LogParameter: base=1:f32(-1) scale=2:f32(1) shift=3:f32(0)
FlattenParameter: axis=1:i32(1) end_axis=2:i32(-1)
ReductionParameter: operation=1:ReductionOp(SUM) axis=2:i32(0) coeff=3:f32(1)
EmbedParameter: num_output=1:u32 input_dim=2:u32 bias_term=3:bool(true)
TileParameter: axis=1:i32(1) tiles=2:i32
BatchNormParameter: use_global_stats=1:bool moving_average_fraction=2:f32(0.999) eps=3:f32(1e-5)
ELUParameter: alpha=1:f32(1)
BiasParameter: axis=1:i32(1) num_axes=2:i32(1)
ScaleParameter: axis=1:i32(1) num_axes=2:i32(1) bias_term=4:bool(false)
InputParameter: shape=1*:BlobShape
CropParameter: axis=1:i32(2) offset=2*:u32
"""

_ENUMS: Final = """
Phase: TRAIN=0 TEST=1
EltwiseOp: PROD=0 SUM=1 MAX=2
PoolMethod: MAX=0 AVE=1 STOCHASTIC=2
NormRegion: ACROSS_CHANNELS=0 WITHIN_CHANNEL=1
ReductionOp: SUM=1 ASUM=2 SUMSQ=3 MEAN=4
"""

PARAMETERS: Final = {
    "ArgMax": "argmax_param", "BatchNorm": "batch_norm_param", "Bias": "bias_param", "Concat": "concat_param",
    "Convolution": "convolution_param", "Crop": "crop_param", "Deconvolution": "convolution_param",
    "Dropout": "dropout_param", "ELU": "elu_param", "Eltwise": "eltwise_param", "Embed": "embed_param", "Exp": "exp_param",
    "Flatten": "flatten_param", "InnerProduct": "inner_product_param", "Input": "input_param", "LRN": "lrn_param",
    "Log": "log_param", "MVN": "mvn_param", "PReLU": "prelu_param", "Pooling": "pooling_param", "Power": "power_param",
    "ReLU": "relu_param", "Reduction": "reduction_param", "Reshape": "reshape_param", "Scale": "scale_param",
    "Slice": "slice_param", "Softmax": "softmax_param", "Threshold": "threshold_param", "Tile": "tile_param",
}  # fmt: skip
"""The field of LayerParameter that holds the parameters of a layer type."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        name: its name in text.
        number: its number in binary.
        type: one of `SCALARS`, or the name of a message or an enum.
        repeated: whether it may be there any number of times.
        packed: whether its numbers are written as one run of bytes.
        default: what its absence means; None where that is nothing in particular.
    """

    name: str
    number: int
    type: str
    repeated: bool = False
    packed: bool = False
    default: Any = None


@dataclass(slots=True)
class Message:
    """A message's content: by field name a number, text, bytes, enum name, message, or a list of these where it repeats.

    Packed numbers may also be a weight handle (when written) or a numpy array (when read).
    """

    type: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The field's content, or the default where it is absent."""
        return self.fields.get(name, default)

    def messages(self, name: str) -> Iterator[Message]:
        """The messages in a field that repeats."""
        yield from self.fields.get(name, ())


_FIELD: Final = re.compile(r"(\w+)=(\d+)([*+]?):(\w+)(?:\(([^)]*)\))?")
_VALUE: Final = re.compile(r"(\w+)=(\d+)")


class Schema:
    """Messages and enums.

    Attributes:
        messages: the fields of each message, by name.
        enums: the numbers of each enum's values, by name.
    """

    def __init__(self, messages: Mapping[str, Mapping[str, Field]], enums: Mapping[str, Mapping[str, int]]) -> None:
        self.messages = messages
        self.enums = enums
        self.numbers = {name: {each.number: each for each in fields.values()} for name, fields in messages.items()}

    def extended(self, messages: Mapping[str, str], enums: Mapping[str, str]) -> Schema:
        """This schema with further fields and enums; a field takes the place of those of the same name or number.

        Args:
            messages: fields in the notation of this module, by the name of the message that they join.
            enums: values, by the name of the enum.

        Raises:
            ValueError: they are not in the notation, or name a type that is not there.
        """
        all_enums = {name: dict(values) for name, values in self.enums.items()}
        for name, text in enums.items():
            parts = [(part, _VALUE.fullmatch(part)) for part in text.split()]
            bad = [part for part, match in parts if match is None]
            if bad:
                raise ValueError(f"enums.{name}: {bad[0]!r} is not name=number")
            all_enums[name] = {match[1]: int(match[2]) for _, match in parts if match}
        all_messages = {name: dict(fields) for name, fields in self.messages.items()}
        known = {*SCALARS, *all_enums, *all_messages, *messages}
        for name, text in messages.items():
            fields = all_messages.setdefault(name, {})
            for part in text.split():
                made = self._field(part, name, known, all_enums)
                clash = [other for other in fields.values() if other.number == made.number]
                for other in clash:
                    del fields[other.name]
                fields[made.name] = made
        return Schema(all_messages, all_enums)

    def takes(self, row: Field, item: Any) -> bool:
        """Whether a field takes a number, a truth value, text, or the name of an enum's value."""
        if isinstance(item, bool) or row.type == "bool":
            return isinstance(item, bool) and row.type == "bool"
        if row.type in self.enums:
            return item in self.enums[row.type]
        if row.type in VARINTS:
            return isinstance(item, int) and (item >= 0 or row.type.startswith("i"))
        return isinstance(item, int | float) if row.type in FLOATS else row.type == "str" and isinstance(item, str)

    @staticmethod
    def _field(part: str, message: str, known: set[str], enums: Mapping[str, Mapping[str, int]]) -> Field:
        match = _FIELD.fullmatch(part)
        if match is None:
            notation = "name=number:type(default), with * or + behind the number where it repeats"
            raise ValueError(f"messages.{message}: {part!r} is not {notation}")
        name, number, mark, type, default = match.groups()
        if type not in known:
            known_ones = f"none of {', '.join(SCALARS)}, a message or an enum"
            raise ValueError(f"messages.{message}: {name} is of an unknown type {type!r}, {known_ones}")
        if not 1 <= int(number) < 1 << 29:
            raise ValueError(f"messages.{message}: {name} has the number {number}, and fields have 1 to {(1 << 29) - 1}")
        value = None if default is None else _default(default, type, enums)
        if default is not None and value is None:
            raise ValueError(f"messages.{message}: {default!r} is no default for {name}, which is {type}")
        return Field(name, int(number), type, bool(mark), mark == "+", value)


def _default(text: str, type: str, enums: Mapping[str, Mapping[str, int]]) -> Any:
    if type in enums:
        return text if text in enums[type] else None
    if type == "bool":
        return {"true": True, "false": False}.get(text)
    try:
        return float(text) if type in FLOATS else text if type == "str" else int(text)
    except ValueError:
        return None


def _declarations(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            name, _, line = line.partition(":")
        found[name] = f"{found.get(name, '')} {line}"
    return found


@cache
def base() -> Schema:
    """What all dialects share."""
    return Schema({}, {}).extended(_declarations(_MESSAGES), _declarations(_ENUMS))
