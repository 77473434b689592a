"""Load a user's Python file or module, and pick the model in it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from edgex.errors import EdgexError, UsageError, nearest_name
from edgex.export.source.user_code.user_failure import describe_cause, device_advice, install_advice, missing_module
from edgex.export.source.user_code.user_line import line_at, line_of_error
from edgex.runtime.support.native_stderr import prints_on_stderr

# Pairs of names that make a model, in the order in which they are looked for.
_PAIRS = (("get_model", "get_args"), ("model", "example_inputs"), ("get_eager_model", "get_example_inputs"))

_EXAMPLE = """add to the file, for instance
       def get_model():
           return MyModel()
       def get_args():
           return (torch.randn(1, 3, 224, 224),)"""


@dataclass(frozen=True)
class Found:
    """A model in a file.

    Attributes:
        name: The name that gave it.
        module: What it gave.
        examples: Its example inputs as the file gives them, or None.
        examples_name: The name that gave these, for notices.
    """

    name: str
    module: Any
    examples: Any = None
    examples_name: str = ""


def load_file(path: Path) -> Mapping[str, Any]:
    """Run a Python file; its folder is on sys.path then, and stays there for imports inside functions.

    Raises:
        UsageError: There is no such file, it is no Python, or it fails; with the user's line.
    """
    if not path.is_file():
        near = sorted(file.name for file in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise UsageError(
            f"no such file: {path}", why=nearest_name(path.name, near) if near else None, fix="check the path"
        )
    path = path.resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    # A name of its own, so that the file can be called like an installed package; always the same, since it
    # reaches the artifact as part of class names.
    name = "edgex_model_" + re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # only unknown suffixes have none
    loader, module = spec.loader, importlib.util.module_from_spec(spec)
    assert loader is not None
    sys.modules[name] = module
    try:
        run_user_code(lambda: loader.exec_module(module), path.name, path.parent)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return vars(module)


def load_module(name: str) -> tuple[Mapping[str, Any], Path]:
    """Import a module by its dotted name, also from the current folder.

    Returns:
        Its names, and its folder.

    Raises:
        UsageError: It cannot be imported.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module: ModuleType = run_user_code(lambda: importlib.import_module(name), name, Path.cwd())
    file = getattr(module, "__file__", None)
    return vars(module), Path(file).resolve().parent if file else Path.cwd()


def run_user_code(call: Callable[[], Any], what: str, source_root: Path) -> Any:
    """Call something of the user's, prints going to stderr, and turn what it raises into an error with its line.

    Args:
        call: Takes no arguments.
        what: The file or function, for the message.
        source_root: Folder of the user's file.

    Raises:
        UsageError: It raised, or called sys.exit.
    """
    try:
        with prints_on_stderr():
            return call()
    except EdgexError:
        raise
    except SyntaxError as error:
        line = line_at(error.filename or what, error.lineno or 0, source_root)
        raise UsageError(f"{what} has a syntax error: {error.msg}", str(line)) from error
    except (Exception, SystemExit) as error:
        line_found = line_of_error(error, source_root)
        where = None if line_found is None else str(line_found)
        missing = missing_module(error)
        if missing is not None:
            # Where a library stands between, what it says of itself is no news.
            says = None if isinstance(error, ModuleNotFoundError) and error.name else describe_cause(error)
            text = f"{what} imports {missing}, which is not installed"
            raise UsageError(text, where, install_advice(missing), why=says) from error
        if isinstance(error, SystemExit):
            fix = 'put the script\'s own work under `if __name__ == "__main__":`'
            raise UsageError(f"{what} calls sys.exit", where, fix) from error
        verb = "cannot be imported" if isinstance(error, ImportError) else "fails"
        raise UsageError(f"{what} {verb}", where, device_advice(error), why=describe_cause(error)) from error


def find_in_namespace(namespace: Mapping[str, Any], name: str | None, label: str, source_root: Path) -> Found:
    """Pick the model: the given name, else the first of the known ways.

    Raises:
        UsageError: There is none, there are several, or making it fails.
    """
    if name is not None:
        if name not in namespace:
            names = [key for key, value in namespace.items() if _could_be_model(value)]
            raise UsageError(f"{label} has no {name!r}", why=nearest_name(name, names))
        return _make(namespace, name, ("get_args", "example_inputs", "get_example_inputs"), label, source_root)
    for model_name, inputs_name in _PAIRS:
        if model_name in namespace:
            rest = [inputs for _, inputs in _PAIRS if inputs != inputs_name]
            return _make(namespace, model_name, (inputs_name, *rest), label, source_root)
    candidates = _candidates(namespace)
    if len(candidates) > 1:
        spelled = "\n       ".join(f"{label}:{candidate}" for candidate in candidates)
        raise UsageError(
            f"{label} holds {len(candidates)} models: {', '.join(candidates)}", fix=f"say which:\n       {spelled}"
        )
    if not candidates:
        raise UsageError(f"no model found in {label}", why=_why_none(namespace), fix=_EXAMPLE)
    return _make(namespace, candidates[0], ("get_args", "example_inputs", "get_example_inputs"), label, source_root)


def _make(
    namespace: Mapping[str, Any], name: str, inputs_names: tuple[str, ...], label: str, source_root: Path
) -> Found:
    """Call what must be called, and take the example inputs that come along or stand beside it."""
    value = namespace[name]
    if not isinstance(value, torch.nn.Module) and callable(value):
        needed = _required_arguments(value)
        if needed:
            raise UsageError(
                f"{label}:{name} needs arguments: {', '.join(needed)}",
                fix=f"write a function that returns the model:\n       def get_model():\n           return {name}(…)",
            )
        value = run_user_code(namespace[name], f"{label}:{name}()", source_root)
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], torch.nn.Module):
            return Found(name, value[0], value[1], f"{name}()")
    for inputs_name in inputs_names:
        examples = namespace.get(inputs_name)
        if examples is not None:
            if callable(examples):
                examples = run_user_code(examples, f"{label}:{inputs_name}()", source_root)
                inputs_name += "()"
            return Found(name, value, examples, inputs_name)
    return Found(name, value)


def _candidates(namespace: Mapping[str, Any]) -> list[str]:
    """Names of module instances, and of module classes of this file that need no arguments and have no instance."""
    instances: dict[int, str] = {}
    for name, value in namespace.items():
        if isinstance(value, torch.nn.Module):
            instances.setdefault(id(value), name)
    made = {type(value) for value in namespace.values() if isinstance(value, torch.nn.Module)}
    classes = [
        name
        for name, value in namespace.items()
        if _is_own_class(namespace, value) and value not in made and not _required_arguments(value)
    ]
    return [*instances.values(), *classes]


def _is_own_class(namespace: Mapping[str, Any], value: Any) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, torch.nn.Module)
        and value.__module__ == namespace.get("__name__")
        and not inspect.isabstract(value)
    )


def _why_none(namespace: Mapping[str, Any]) -> str | None:
    needing = {name: _required_arguments(value) for name, value in namespace.items() if _is_own_class(namespace, value)}
    return "; ".join(f"{name} needs arguments: {', '.join(args)}" for name, args in needing.items() if args) or None


def _required_arguments(function: Callable[..., Any]) -> list[str]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [n for n, p in signature.parameters.items() if p.default is p.empty and p.kind not in variadic]


def _could_be_model(value: Any) -> bool:
    return isinstance(value, torch.nn.Module) or (callable(value) and not isinstance(value, ModuleType))
