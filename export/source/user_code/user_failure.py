"""What the user's code raised, in words: the cause behind it, a package that is missing, a device that is not here."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires

# Import names of packages that edgex itself asks for, whose distribution is called otherwise.
_DISTRIBUTIONS = {"PIL": "pillow", "sklearn": "scikit-learn"}

# How torch says that an accelerator is not here: built without it, no driver, or a checkpoint saved on one.
_NO_DEVICE = re.compile(
    r"not compiled with (CUDA|XPU|MPS)|Found no NVIDIA driver|No (CUDA|HIP) GPUs? (is|are) available"
    r"|Attempting to deserialize object on|CUDA error: no CUDA-capable device|Cannot initialize CUDA without",
    re.IGNORECASE,
)


def describe_cause(error: BaseException) -> str:
    """The exception, and in lines of their own those that it was raised from.

    Args:
        error: For example transformers' ModuleNotFoundError, which hides what its module failed on.
    """
    lines = [f"{type(error).__name__}: {error}"]
    for cause in _causes(error):
        line = f"caused by {_first_line(cause)}"
        if line not in lines:
            lines.append(line)
    return "\n".join(lines)


def missing_module(error: BaseException) -> str | None:
    """The top-level module that is not installed, where that is what an exception, or a cause of it, says."""
    for found in (error, *_causes(error)):
        if isinstance(found, ModuleNotFoundError) and found.name and not _exists(found.name):
            return found.name.partition(".")[0]
    return None


def install_advice(module: str) -> str:
    """What to do about a missing module; a name to install is given only where edgex's own requirements have it.

    Import names and distributions differ, and anybody may register a name that looks right.

    Args:
        module: The import name.
    """
    distribution = _DISTRIBUTIONS.get(module, module)
    if distribution in _known_distributions():
        return f"pip install {distribution}"
    return f"install the package that provides {module} into this environment; its own page has the name to install"


def device_advice(error: BaseException) -> str | None:
    """What to do where the code wants an accelerator that is not here; None for any other exception.

    Artifacts are made and proved on the CPU, so that no GPU is needed to export.
    """
    if not any(_NO_DEVICE.search(str(found)) for found in (error, *_causes(error))):
        return None
    if "deserialize" in str(error):
        return "torch.load(..., map_location='cpu')"
    return "leave .cuda() and .to('cuda') out, and load checkpoints with torch.load(..., map_location='cpu')"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What it was raised from, step by step."""
    seen = {id(error)}
    while (cause := error.__cause__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        error = cause


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _known_distributions() -> set[str]:
    """Names in edgex's own requirements, extras included."""
    try:
        listed = requires("edgex-toolchain") or []
    except PackageNotFoundError:
        return set()
    return {re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in listed}
