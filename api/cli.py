"""The command line: ``isthmus compile``, ``simplify``, ``show``, ``verify``, ``targets``.

Exit codes: 0 all is well, 1 the model was refused or disagrees, 2 the command was wrong.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from isthmus.ir.errors import IsthmusError, IsthmusWarning, UnsupportedError, UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from isthmus.report import Report

F = TypeVar("F", bound=Callable[..., Any])


_JSON = "isthmus.json"


def _wants_json(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    """Lets the group know, which reports errors; the contexts of a command and its group share `meta`."""
    ctx.meta[_JSON] = value
    return value


class _Group(click.Group):
    """Turns our errors into a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (IsthmusError, OSError) as error:
            if ctx.meta.get(_JSON):
                click.echo(json.dumps({"ok": False, "error": {"kind": type(error).__name__, "text": str(error)}}))
            else:
                click.echo(f"{type(error).__name__}: {error}", err=True)
            ctx.exit(2 if isinstance(error, UsageError) else 1)


def _json(text: str | None, option: str, kind: type) -> Any:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{option} is not JSON", found=f"{text} ({error})") from None
    if not isinstance(found, kind):
        raise UsageError(f"{option} must be a JSON {'object' if kind is dict else 'value'}", found=text)
    return found


def _int_keys(value: Any) -> Any:
    """JSON's keys are strings; axes are integers."""
    if isinstance(value, dict):
        return {int(key) if key.lstrip("-").isdigit() else key: _int_keys(item) for key, item in value.items()}
    return [_int_keys(item) for item in value] if isinstance(value, list) else value


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


def _inputs(specs: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example arguments from ``SPEC`` (by position) and ``name=SPEC`` (by keyword); inputs of files have names of all kinds."""
    from isthmus.specs import spec

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in specs:
        name, equals, rest = text.partition("=")
        if equals and "[" not in name:
            kwargs[name.strip()] = spec(rest)
        else:
            args.append(spec(text))
    return tuple(args), kwargs


def _options(pairs: Sequence[str]) -> dict[str, Any]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{pair!r} is no option", expected="name=value")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


_INPUT = click.option(
    "--input", "inputs", multiple=True, metavar="SPEC",
    help="An example argument, such as f32[N,3,224,224]; by keyword as name=SPEC. A name in place of a number makes that size "
         "dynamic; of a model file, a number fixes a size that the file leaves open.",
)  # fmt: skip
_OPSET = click.option("--opset", type=int, help="Version of the target's operator set.")
_OPTION = click.option("-O", "--option", "options", multiple=True, metavar="NAME=VALUE", help="Another option.")
_STRICT = click.option("--strict", is_flag=True, help="What the model takes for granted about sizes is an error.")
_QUIET = click.option("--quiet", is_flag=True, help="Say nothing but errors.")
_JSON_OUT = click.option("--json", "as_json", is_flag=True, callback=_wants_json, help="Print JSON.")


def _model(command: F) -> F:
    """The arguments that say which model, on which inputs, for which target."""
    for decorate in reversed((
        click.argument("model"),
        _INPUT,
        click.option("--kwargs", metavar="JSON", help="What to call MODEL with to build the model."),
        click.option("--weights", metavar="FILE", help="A .safetensors file, or a .pt file with a state dict."),
        click.option("--meta", is_flag=True, help="Build the model on the meta device: its content is in --weights alone, a "
                     ".safetensors file or the .safetensors.index.json of several."),
        click.option("--target", default="onnx", show_default=True, help="See `isthmus targets`."),
        _OPSET,
        _OPTION,
        click.option("--dynamic", metavar="JSON", help="Dynamic sizes, such as {\"x\": {\"0\": \"N\"}}."),
        click.option("--input-names", metavar="A,B", help="Names for the inputs."),
        click.option("--output-names", metavar="A,B", help="Names for the outputs."),
        _STRICT,
        _QUIET,
        _JSON_OUT,
    )):  # fmt: skip
        command = decorate(command)
    return command


class _Request:
    """The options that all commands with a model share, and what follows from them."""

    def __init__(
        self, model: str, inputs: Sequence[str], options: Sequence[str], opset: int | None, strict: bool, quiet: bool,
        as_json: bool, target: str = "onnx", kwargs: str | None = None, weights: str | None = None, meta: bool = False,
        dynamic: str | None = None, input_names: str | None = None, output_names: str | None = None,
    ) -> None:  # fmt: skip
        self.model, self.weights, self.meta, self.quiet, self.as_json = model, weights, meta, quiet, as_json
        if meta and weights is None:
            raise UsageError("--meta needs --weights: the model has no content of its own")
        if self.is_file and (told := [option for option, value in (("--kwargs", kwargs), ("--weights", weights)) if value]):
            raise UsageError(f"{' and '.join(told)} cannot go with a file, which holds the whole model", found=model)
        self.build = _json(kwargs, "--kwargs", dict)
        args, keywords = _inputs(inputs)
        extra = {**({} if opset is None else {"opset": opset}), **({"strict": True} if strict else {}), **_options(options)}
        self.arguments: dict[str, Any] = {
            "args": args, "kwargs": keywords, "target": target, "input_names": _names(input_names),
            "output_names": _names(output_names), "dynamic_shapes": _int_keys(_json(dynamic, "--dynamic", object)), **extra,
        }  # fmt: skip

    @property
    def is_file(self) -> bool:
        """Whether the model is a file that a frontend reads."""
        from isthmus.compiler import FILES

        return Path(self.model).suffix in FILES

    def made(self) -> Any:
        """The model, or the path of its file."""
        if self.is_file:
            return Path(self.model)
        from isthmus.models import build

        return build(self.model, self.build, None if self.meta else self.weights, meta=self.meta)

    def lower(self, until: Any, tell: Callable[[str], None]) -> Any:
        """Builds the model, captures and lowers it."""
        from isthmus.compiler import lower

        tell(f"building {self.model}")
        model = self.made()
        weights = self.weights if self.meta else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IsthmusWarning)  # the report tells
            return lower(model, weights=weights, until=until, on_stage=tell, **self.arguments)

    def warn(self, report: Report) -> None:
        """Prints the report's warnings, for commands that do not print the report."""
        for warning in () if self.quiet or self.as_json else report.warnings:
            click.echo(f"WARNING: {warning}", err=True)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Says what is going on, where standard error is a terminal.

    Standard output is ours: what the model prints meanwhile goes to standard error, or nowhere.
    """
    if quiet:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            yield lambda text: None
        return
    with redirect_stdout(sys.stderr):
        if not sys.stderr.isatty():
            yield lambda text: None
            return
        from rich.console import Console

        with Console(stderr=True).status("starting") as status:
            yield status.update


def _seed_note(request: _Request) -> str | None:
    from isthmus.models import SEED

    return None if request.weights or request.is_file else f"no --weights given: the model's own, made with seed {SEED}"


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="isthmus")
def main() -> None:
    """Turns models into something that runs elsewhere.

    MODEL is module:callable or file.py:callable; a class or function is called to make the model. Or it is an .onnx file.
    """


@main.command("compile")
@_model
@click.option("-o", "--output", required=True, metavar="FILE", help="The file to write.")
@click.option("--no-verify", is_flag=True, help="Write the file without comparing it with the model.")
def compile_command(output: str, no_verify: bool, **given: Any) -> None:
    """Compile MODEL, compare it with the original on fresh inputs, and write it."""
    request = _Request(**given)
    if not output or Path(output).is_dir():
        raise UsageError("-o must name a file", found=f"the folder {output}" if output else "nothing")
    from isthmus.compiler import emit

    verified = None
    with _progress(request.quiet) as tell:
        captured, report, backend = request.lower("legal", tell)
        if (note := _seed_note(request)) is not None:
            report.notes.append(note)
        tell("emit")
        net = emit(captured, report, backend)
        if not no_verify:
            tell("verify")
            verified = net.verify()
        tell("save")
        files = net.save(output)
    if request.as_json:
        told = {"ok": True, "files": list(map(str, files)), "report": report.model_dump(mode="json")}
        click.echo(json.dumps({**told, "verified": verified.model_dump(mode="json") if verified else None}))
    elif not request.quiet:
        click.echo(str(report))
        if verified is not None:
            click.echo(f"\n{verified}")
        click.echo(f"\nwrote {', '.join(map(str, files))}")


@main.command()
@click.argument("source", metavar="IN.onnx")
@click.argument("output", metavar="OUT.onnx")
@_INPUT
@_OPSET
@_OPTION
@click.option("--verify", is_flag=True, help="Compare with the original on fresh inputs before anything is written.")
@_STRICT
@_QUIET
@_JSON_OUT
def simplify(source: str, output: str, verify: bool, **given: Any) -> None:
    """Write an ONNX model with fewer nodes: the same inputs, outputs and numbers, at its own opset or another.

    OUT may be IN. Weights that lie outside do so again. A model that onnxruntime has no kernels for is written as the standard
    has it, with a note. For a reader other than onnxruntime name its profile, such as -O profile=opencv, or a .toml file.
    """
    request = _Request(source, **given)
    if Path(source).suffix != ".onnx":
        raise UsageError("simplify takes an .onnx file", found=source)
    if not output or Path(output).is_dir():
        raise UsageError("OUT must name a file", found=f"the folder {output}" if output else "nothing")
    from isthmus.compiler import emit
    from isthmus.simplifying import told

    verified = None
    with _progress(request.quiet) as tell:
        if "profile" not in request.arguments:
            request.arguments.setdefault("keep_ops", True)
        captured, report, backend = _lower_for_any(request, tell)
        tell("emit")
        net = emit(captured, report, backend)
        if verify:
            tell("verify")
            verified = net.verify()
        tell("save")
        found = told(captured, report, net.artefact, net.save(output))
    if request.as_json:
        more = {"verified": verified.model_dump(mode="json") if verified else None}
        click.echo(json.dumps({"ok": True, **found.model_dump(mode="json"), **more}))
    elif not request.quiet:
        click.echo("\n\n".join(map(str, filter(None, (verified, found)))))


def _lower_for_any(request: _Request, tell: Callable[[str], None]) -> Any:
    """A model, legal for onnxruntime; for whatever takes all of the standard where that is what lacks something."""
    try:
        return request.lower("legal", tell)
    except UnsupportedError as error:
        if "profile" in request.arguments:
            raise
        request.arguments["profile"] = "onnx"
        captured, report, backend = request.lower("legal", tell)
        reasons = dict.fromkeys(f"{each.op}: {each.message}" for each in error.refusals)
        report.notes += [f"onnxruntime does not run it, nor the original: {reason}" for reason in reasons]
        return captured, report, backend


@main.command()
@_model
@click.option("--stage", type=click.Choice(["captured", "passes", "legal"]), default="passes", show_default=True,
              help="After which stage.")  # fmt: skip
def show(stage: str, **given: Any) -> None:
    """Print MODEL as the IR's text."""
    request = _Request(**given)
    with _progress(request.quiet) as tell:
        captured, report, _ = request.lower(stage, tell)
    if request.as_json:
        told = {"ok": True, "stage": stage, "graph": str(captured.graph), "report": report.model_dump(mode="json")}
        click.echo(json.dumps(told))
    else:
        request.warn(report)
        click.echo(str(captured.graph))


@main.command()
@_model
@click.argument("file")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="How many fresh inputs.")
@click.option("--rtol", default=1e-4, show_default=True, help="Relative tolerance.")
@click.option("--atol", default=1e-5, show_default=True, help="Absolute tolerance, as a share of the output's scale.")
def verify(file: str, seeds: int, rtol: float, atol: float, **given: Any) -> None:
    """Compare a saved FILE with MODEL, on fresh inputs of other sizes."""
    request = _Request(**given)
    if not Path(file).exists():
        raise UsageError(f"there is no file {file}")
    from isthmus.verification import compare

    with _progress(request.quiet) as tell:
        captured, report, backend = request.lower("captured", tell)
        tell("verify")
        found = compare(captured, backend.load(file), seeds=seeds, rtol=rtol, atol=atol)
    request.warn(report)
    if request.as_json:
        click.echo(json.dumps({"ok": True, "verified": found.model_dump(mode="json")}))
    elif not request.quiet:
        click.echo(str(found))


@main.command()
@click.option("--json", "as_json", is_flag=True, callback=_wants_json, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="Print the names alone.")
def targets(as_json: bool, quiet: bool) -> None:
    """List the targets with their options, and those of the capture, which go with every target.

    As JSON: the options' schemas by target, those of the capture under "capture".
    """
    from isthmus.backends import registry
    from isthmus.compiler import FRONTENDS
    from isthmus.tables import table, text

    schemas: dict[str, dict[str, Any]] = {}
    broken: dict[str, str] = {}
    for name in registry.names():
        try:
            schemas[name] = _schema(registry.find(name).Options)
        except UsageError as error:  # a package of somebody else's may be broken; the other targets are there all the same
            broken[name] = error.found or error.message
    if quiet and not as_json:
        click.echo("\n".join(schemas))
        return
    for frontend, home in FRONTENDS.items():
        try:
            found = _schema(import_module(home).CaptureOptions)
            schemas["capture"] = found | schemas.get("capture", {})  # where two have the same, the first says what it is
        except ImportError as error:  # its framework is not installed
            broken[f"capture of {frontend}"] = str(error)
    if as_json:
        click.echo(json.dumps(schemas))
    else:
        rows = [
            (name, option, _kind(schema), _default(schema), schema.get("description"))
            for name, found in schemas.items()
            for option, schema in (found or {"": {}}).items()
        ]
        rows += [(name, "", "", None, f"cannot be loaded: {why}") for name, why in broken.items()]
        click.echo(text(table(["target", "option", "type", "default", "what it does"], rows)))


def _schema(options: type[BaseModel]) -> dict[str, Any]:
    """The options by name, with what their class's docstring says about them."""
    about = inspect.cleandoc(options.__doc__ or "").partition("Attributes:\n")[2]
    told = dict(re.findall(r"^    (\w+): (.+(?:\n     .+)*)", about, re.MULTILINE))
    found: dict[str, Any] = options.model_json_schema().get("properties", {})
    return {name: {"description": " ".join(told.get(name, "").split()), **schema} for name, schema in found.items()}


def _default(schema: dict[str, Any]) -> str | None:
    return None if schema.get("default") is None else json.dumps(schema["default"])


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    return " or ".join(_kind(part) for part in schema["anyOf"]) if "anyOf" in schema else str(schema.get("type", ""))


if __name__ == "__main__":
    main()
