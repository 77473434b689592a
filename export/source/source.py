"""Find the model: `file.py[:name]`, `package.module:name` or `file.pt2`, with its example inputs.

In a file the first hit wins, and a notice says which it was:

0. `methods()`, where no other name is given: see `edgex.export.source.methods`;
1. the given name;
2. `get_model()` with `get_args()`;
3. `model` with `example_inputs`;
4. `get_eager_model()` with `get_example_inputs()`;
5. the only `nn.Module`, class or instance, that needs no arguments.

A name may be a module, or a callable that returns a module or `(module, example_inputs)`. Example inputs: a tuple
holds positional arguments, a dict keyword arguments, `(args, kwargs)` both; a single tensor is one argument.
`dynamic_shapes`, `calibration_data`, `evaluate`, `model_card` and `example_sequence` are read from the file as well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from edgex.errors import ArtifactError, RunError, UsageError, nearest_name
from edgex.export.source.example_inputs import Call, apply_input_shapes, make_inputs, read_arguments, read_call
from edgex.export.source.methods import NAME as METHODS
from edgex.export.source.methods import MethodExample, read_method_sequence, read_methods
from edgex.export.source.processors import find_processor_files
from edgex.export.source.user_code.code_search import find_definition
from edgex.export.source.user_code.user_line import line_at
from edgex.export.source.user_file import Found, find_in_namespace, load_file, load_module, run_user_code
from edgex.export.source.weights import check_weights, put_in_eval
from edgex.runtime.artifact.card import check_card
from edgex.runtime.artifact.language_model import ENCODE, LanguageModel
from edgex.runtime.artifact.specs import Dim
from edgex.runtime.engines.torch.pt2.archive import load_program

__all__ = ["ModelSource", "check_weights", "find_model", "wrap_methods", "wrap_model"]

_FILE = re.compile(r"^(?P<file>.+\.py)(?::(?P<name>\w+))?$")
_MODULE = re.compile(r"^(?P<module>[A-Za-z_]\w*(\.\w+)*):(?P<name>\w+)$")


@dataclass(frozen=True)
class ModelSource:
    """A model with what the user's file says about it.

    Attributes:
        module: In eval mode; an ExportedProgram from a .pt2 file.
        args: Example inputs by position; empty for an ExportedProgram, which has its own.
        kwargs: Example inputs by name.
        name: The artifact's NAME.
        description: Where it comes from, for example `model.py:get_model`.
        source_root: Folder of the user's file.
        dynamic_shapes: As torch.export takes it, or None.
        example_sequence: Inputs of several runs in a row, for a model with state; None when not given.
        calibration_data: As the file gives it, a callable mostly; None when not given.
        evaluate: The file's `evaluate(run)`; None when not given.
        model_card: Labels, image mean and the like; empty when not given.
        card_place: The line that gives it, for messages.
        processor_files: Files of a tokenizer or processor that travel with the model, by name.
        notices: What the user should know, a sentence each.
        language: What the artifact says of a language model; None for other models, and for its encoder.
        method: The method of the artifact that this is; None for `forward`, the only one.
        others: The artifact's other methods; empty where there is one.
        by_size: The methods are one model at several sizes.
        method_sequence: Several runs in a row, each a method's; None when not given. The first method has it.
        dynamic: Dimensions by input and axis, instead of `dynamic_shapes`.
    """

    module: torch.nn.Module | ExportedProgram
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    name: str
    description: str
    source_root: Path
    dynamic_shapes: Any = None
    example_sequence: tuple[Call, ...] | None = None
    calibration_data: Any = None
    evaluate: Callable[..., Any] | None = None
    model_card: Mapping[str, Any] = field(default_factory=dict)
    card_place: str = "model_card"
    processor_files: Mapping[str, Path] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    language: LanguageModel | None = None
    method: str | None = None
    others: tuple[ModelSource, ...] = ()
    by_size: bool = False
    method_sequence: tuple[tuple[str, Call], ...] | None = None
    dynamic: Mapping[tuple[str, int], Dim] = field(default_factory=dict)

    @property
    def whole(self) -> torch.nn.Module | ExportedProgram:
        """The modules of all methods, as one module: what they share is in it once."""
        modules = [self.module, *(other.module for other in self.others)]
        return torch.nn.ModuleList(modules) if self.others else self.module  # type: ignore[arg-type]

    @property
    def parameters(self) -> int:
        """How many numbers the model has learned."""
        return sum(parameter.numel() for parameter in self.whole.parameters())


def find_model(
    spec: str,
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    language: bool = False,
    several: bool = False,
) -> ModelSource:
    """Find a model and its example inputs.

    Args:
        spec: `file.py[:name]`, `package.module:name` or `file.pt2`.
        input_shapes: Shapes by input name. Where the file gives no example inputs, random ones are made; where it
            does, float inputs of another shape are drawn anew. All seeded.
        language: It is a language model: what it takes is known, and example inputs are not looked for.
        several: The file's `methods()` are looked for; without it, a file that has them must be given with a name.

    Raises:
        UsageError: There is no such file or name, the file does not run, or what it gives is not a model.
        CaptureError: The weights are not on the CPU.
    """
    shapes = dict(input_shapes or {})
    if spec.endswith(".pt2"):
        return _find_program(Path(spec), shapes)
    if match := _FILE.match(spec):
        path = Path(match["file"])
        namespace = load_file(path)
        root, label, stem = path.resolve().parent, path.name, path.stem
    elif match := _MODULE.match(spec):
        namespace, root = load_module(match["module"])
        label, stem = match["module"], match["name"]
    else:
        raise _not_a_model(spec)
    if callable(namespace.get(METHODS)) and match["name"] in (None, METHODS):
        _check_several(label, shapes, language=language, several=several)
        return _find_methods(namespace, stem, label, root)
    found = find_in_namespace(namespace, match["name"], label, root)
    if language and (found.examples is None or not _has_encoder(found.module)):
        found = replace(found, examples=((), {}), examples_name="made for --llm")
    return _make_source(found, namespace, shapes, match["name"] or stem, label, root)


def _has_encoder(module: Any) -> bool:
    """Whether a language model has one, whose inputs are then the example inputs of the file."""
    config = getattr(module, "config", None)
    return hasattr(module, ENCODE) or bool(getattr(config, "is_encoder_decoder", False))


def wrap_model(
    model: Any, args: Any = (), kwargs: Any = None, dynamic_shapes: Any = None, name: str | None = None
) -> ModelSource:
    """The source of a model that Python code hands over.

    Args:
        model: An `nn.Module` or an ExportedProgram.
        args: Example inputs, in the forms that `read_arguments` takes.
        kwargs: Example inputs by name.
        dynamic_shapes: As torch.export takes it.
        name: The artifact's NAME; None is the class name in lower case.

    Raises:
        UsageError: The model is neither, or the example inputs are in no such form.
    """
    call = read_arguments(args, kwargs)
    if isinstance(model, ExportedProgram):
        return ModelSource(model, (), {}, name or "model", "ExportedProgram", Path.cwd(), dynamic_shapes)
    check_is_module(model, "the model")
    kind = type(model)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    root = Path(file).resolve().parent if file else Path.cwd()
    notices = put_in_eval(model)
    return ModelSource(
        model,
        *call,
        name or kind.__name__.lower(),
        kind.__qualname__,
        root,
        dynamic_shapes,
        processor_files=find_processor_files(model, root),
        notices=notices,
    )


def wrap_methods(methods: Mapping[str, Any], name: str | None = None) -> ModelSource:
    """The source of several methods that Python code hands over.

    Args:
        methods: As `methods()` of a file returns them; see `edgex.export.source.methods`.
        name: The artifact's NAME; None is the class name of the first method's module in lower case.

    Raises:
        UsageError: They are not as they must be.
    """
    read = read_methods(methods, "methods")
    kind = type(read[0].owner)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    root = Path(file).resolve().parent if file else Path.cwd()
    return _join_methods(read, name or kind.__name__.lower(), kind.__qualname__, root)


def _check_several(label: str, shapes: Mapping[str, tuple[int, ...]], *, language: bool, several: bool) -> None:
    """What a file with `methods()` is not taken for.

    Raises:
        UsageError: It is.
    """
    name = f"name one model of it: {label}:NAME"
    if language:
        raise UsageError(f"--llm makes its own methods, and {label} defines methods()", fix=name)
    if not several:
        raise UsageError(f"{label} defines methods(), which `edgex export`, `why` and `bisect` take", fix=name)
    if shapes:
        raise UsageError("--input-shape does not go with methods()", label, "give the example inputs in methods()")


def _find_methods(namespace: Mapping[str, Any], name: str, label: str, root: Path) -> ModelSource:
    """The methods of a file, with what else it says."""
    place = f"{label}:{METHODS}()"
    read = read_methods(run_user_code(namespace[METHODS], place, root), place)
    source = _join_methods(read, name, f"{label}:{METHODS}", root)
    card, card_place = _read_card(namespace, label, root)
    samples = namespace.get("calibration_data")
    source = replace(
        source,
        calibration_data=_samples_of(samples, source.method),
        others=tuple(replace(one, calibration_data=_samples_of(samples, one.method)) for one in source.others),
    )
    sequence = read_method_sequence(_read(namespace, "example_sequence", root), read, f"{label}:example_sequence")
    return replace(source, model_card=card, card_place=card_place, method_sequence=sequence)


def _samples_of(samples: Any, method: str | None) -> Any:
    """A method's entry of `calibration_data`; None where the file gives none for it."""
    return samples.get(method) if isinstance(samples, Mapping) else None


def _join_methods(read: Sequence[MethodExample], name: str, description: str, root: Path) -> ModelSource:
    """The source of the first method, which has the others."""
    for method in read:
        check_is_module(method.owner, f"method {method.name!r}")
    notices = [f"model: {description}, methods: {', '.join(method.name for method in read)}"]
    # Where methods share a module, it is put in eval mode once, and said once.
    notices += [notice for method in read for notice in put_in_eval(method.owner)]
    files = {name: path for method in read for name, path in find_processor_files(method.owner, root).items()}
    first, *others = [
        ModelSource(
            method.module,
            *method.call,
            name=name,
            description=description,
            source_root=root,
            dynamic_shapes=method.dynamic_shapes,
            method=method.name,
        )
        for method in read
    ]
    return replace(first, others=tuple(others), notices=tuple(notices), processor_files=files)


def _make_source(
    found: Found,
    namespace: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    name: str,
    label: str,
    root: Path,
) -> ModelSource:
    """Put together what the file says."""
    description = f"{label}:{found.name}"
    check_is_module(found.module, description)
    notices = [f"model: {description}"]
    if found.examples is not None:
        call = read_call(found.examples, found.examples_name)
        notices[0] += f", example inputs: {found.examples_name}"
        if shapes:
            call, changed = apply_input_shapes(found.module, call, shapes)
            notices += changed
    else:
        call, made = make_inputs(found.module, shapes, description)
        notices += made
    notices += put_in_eval(found.module)
    sequence = _read(namespace, "example_sequence", root)
    if sequence is not None and not isinstance(sequence, (list, tuple)):
        raise UsageError(
            f"example_sequence is of type {type(sequence).__name__}",
            label,
            "make it a list of example inputs, one each run",
        )
    evaluate = namespace.get("evaluate")
    if evaluate is not None and not callable(evaluate):
        raise UsageError("evaluate is not a function", label, "define evaluate(run), which returns a score")
    card, card_place = _read_card(namespace, label, root)
    processor_files = find_processor_files(found.module, root)
    if processor_files:
        notices.append(f"carried in the artifact, for its inputs: {', '.join(processor_files)}")
    return ModelSource(
        module=found.module,
        args=call[0],
        kwargs=call[1],
        name=name,
        description=description,
        source_root=root,
        dynamic_shapes=_read(namespace, "dynamic_shapes", root),
        example_sequence=None
        if sequence is None
        else tuple(read_call(step, f"example_sequence[{at}]") for at, step in enumerate(sequence)),
        calibration_data=namespace.get("calibration_data"),
        evaluate=evaluate,
        model_card=card,
        card_place=card_place,
        processor_files=processor_files,
        notices=tuple(notices),
    )


def _read(namespace: Mapping[str, Any], name: str, root: Path) -> Any:
    """A value of the file, or what the function of that name returns."""
    value = namespace.get(name)
    return (
        run_user_code(value, f"{name}()", root) if callable(value) and not hasattr(value, "dynamic_shapes") else value
    )


def _read_card(namespace: Mapping[str, Any], label: str, root: Path) -> tuple[Mapping[str, Any], str]:
    """The file's `model_card`, checked, and where it is."""
    card, place = _read(namespace, "model_card", root) or {}, _find_card(namespace, label, root)
    if not isinstance(card, Mapping):
        raise UsageError(f"model_card is of type {type(card).__name__}", place, "make it a dict")
    check_card(card, place)
    return card, place


def _find_card(namespace: Mapping[str, Any], label: str, root: Path) -> str:
    """Where the file says `model_card`, as `net.py:12`; the file alone where it took it from another."""
    place = find_definition(namespace.get("__file__"), "model_card")
    return label if place is None else line_at(place.file, place.line, root).place


def check_is_module(model: Any, description: str) -> None:
    """Refuse what torch.export cannot capture.

    Raises:
        UsageError: It is no `nn.Module`, or a TorchScript module.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise UsageError(
            f"{description} is a TorchScript module, which torch.export cannot capture",
            fix="give the nn.Module from which it was scripted or traced",
        )
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"{description} is of type {type(model).__name__}, not a torch.nn.Module",
            fix="give a module, or a function that returns one or (module, example_inputs)",
        )


def _find_program(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> ModelSource:
    """A program that torch.export.save wrote."""
    if not path.is_file():
        raise UsageError(f"no such file: {path}", fix="give file.py[:name], package.module:name or file.pt2")
    if shapes:
        raise UsageError(
            "the input shapes of an exported program are fixed",
            path.name,
            "leave --input-shape out, or export from the model's Python file",
        )
    try:
        program = load_program(path)
    except (ArtifactError, RunError) as error:
        raise UsageError(
            f"{path.name} cannot be read as an exported program",
            str(path),
            "write it again with torch.export.save",
            why=f"{error.what}: {error.why}",
        ) from error
    return ModelSource(program, (), {}, path.stem, path.name, path.resolve().parent, notices=(f"model: {path.name}",))


def _not_a_model(spec: str) -> UsageError:
    """The error for a spec of none of the three forms."""
    path = Path(spec.partition(":")[0])
    forms = "give file.py[:name], package.module:name or file.pt2"
    name = spec.partition(":")[2]
    if path.is_file() and path.suffix == ".py" and name:
        return UsageError(f"{name} is no name that a Python file can define", path.name, forms)
    if path.is_file():
        return UsageError(f"{path.name} is neither a .py nor a .pt2 file", fix=forms)
    if path.is_dir():
        inside = sorted(file.name for file in path.glob("*.py"))
        return UsageError(f"{spec} is a folder", why=nearest_name("model.py", inside) if inside else None, fix=forms)
    if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", spec):
        return UsageError(f"{spec} names no model", fix=f"name it: {spec}:get_model, or give file.py")
    return UsageError(f"no such model: {spec}", fix=forms)
