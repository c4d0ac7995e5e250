"""A TensorRT network, and the engines built from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isthmus.backends.base import Artefact
from isthmus.backends.files import destination, together
from isthmus.backends.tensorrt import library, runtime
from isthmus.ir.errors import VerifyError

if TYPE_CHECKING:
    from isthmus.backends.tensorrt.backend import TensorRTOptions


class TensorRTArtefact(Artefact):
    """A network with its optimization profile.

    Engines are built when they are needed: by `save` and `validate` for the option `targets`, by `run` for the GPU that is
    there. `run` needs an NVIDIA GPU, and says so where there is none.

    Attributes:
        trt: TensorRT's module.
        network: the `INetworkDefinition`.
        config: the `IBuilderConfig` that engines are built with.
        profile: the `IOptimizationProfile`.
        lines: what TensorRT said while it built engines: warnings and errors, or with the option `verbose` everything.
        kept: the arrays that the network points to; it has no copies of them.
    """

    def __init__(
        self, trt: Any, builder: Any, network: Any, config: Any, profile: Any, kept: list[Any], options: TensorRTOptions,
    ) -> None:  # fmt: skip
        super().__init__()
        self.trt = trt
        self.network = network
        self.config = config
        self.profile = profile
        self.lines: list[str] = []
        self._log = library.log(trt)
        self.options = options
        self._builder = builder
        self.kept = kept

    @property
    def node_count(self) -> int:
        constant = self.trt.LayerType.CONSTANT
        return sum(self.network.get_layer(index).type != constant for index in range(self.network.num_layers))

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return [self.network.get_input(index).name for index in range(self.network.num_inputs)]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in order."""
        return [self.network.get_output(index).name for index in range(self.network.num_outputs)]

    def build(self, targets: Sequence[str] | None = None) -> Any:
        """An engine in TensorRT's own form, an `IHostMemory`.

        Args:
            targets: the GPUs to build for; by default those of the options. Empty for the GPU that is there.

        Raises:
            VerifyError: TensorRT cannot build it; with its own words.
        """
        trt = self.trt
        targets = self.options.targets if targets is None else targets
        if hasattr(self.config, "num_compute_capabilities"):
            names = [target.upper() for target in targets] or ["CURRENT"]
            self.config.num_compute_capabilities = len(names)
            for index, name in enumerate(names):
                self.config.set_compute_capability(getattr(trt.ComputeCapability, name), index)
        self._log.take()
        with self._log.listening(self.lines, self.options.verbose):
            found = self._builder.build_serialized_network(self.network, self.config)
        if found is None:
            what = ", ".join(targets) or "the GPU of this machine"
            reason = self._log.take() or "TensorRT gives no reason"
            raise VerifyError(f"TensorRT cannot build an engine for {what}: {reason}")
        return found

    def save(self, path: str | Path) -> list[Path]:
        """Builds an engine for the option `targets` and writes it. See `Artefact.save`.

        Raises:
            VerifyError: TensorRT cannot build it.
            FileError: the file cannot be written.
        """
        path = destination(path)
        with together([path]) as (file,):  # opened before minutes are spent
            file.write(memoryview(self.build()))
        return [path]

    def validate(self) -> None:
        """Builds an engine, which is the only complete check that TensorRT has. See `Artefact.validate`."""
        self.build()

    # ---- running

    @cached_property
    def _engine(self) -> runtime.Engine:
        runtime.need_gpu()
        return runtime.Engine(self.trt, self._log, self.build(()), self.output_names)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, by TensorRT on the GPU of this machine, through torch's buffers. See `Artefact.run`.

        Raises:
            UnavailableError: there is no GPU here, or torch is missing or sees none.
            EvaluationError: TensorRT refuses the inputs.
        """
        return self._engine.run(dict(zip(self.input_names, inputs, strict=True)))
