"""The models of the suite: names in a fixed order, and which of them a run takes."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

TARGETS = ("xnnpack", "onnx-cpu", "onednn")

# Libraries that edgex does not need itself; the extra `coverage` brings them.
LIBRARIES = {
    "huggingface": ("transformers",),
    "modern": ("transformers", "diffusers"),
    "torchvision": ("torchvision",),
    "timm": ("timm", "torchvision"),
    "large": ("transformers", "diffusers", "timm", "torchvision"),
}
# At published sizes: minutes and gigabytes each, so only a run that names it takes it.
LARGE = "large"


@dataclass(frozen=True)
class Example:
    """A module with one call.

    Attributes:
        module: In eval mode.
        args: Tensors by position.
        kwargs: Tensors by name.
    """

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One model of the suite.

    Attributes:
        name: `group/architecture`.
        make: Gives the module and a call; imports its library itself.
    """

    name: str
    make: Callable[[], Example]

    @property
    def group(self) -> str:
        """`hard`, `huggingface`, `modern`, `torchvision`, `timm` or `large`."""
        return self.name.split("/")[0]


def all_entries() -> list[Entry]:
    """Every model, hard cases first; no library is imported."""
    from benchmarks.coverage.models import hard_cases, huggingface, large, modern, timm_models, torchvision_models

    modules = (hard_cases, huggingface, modern, torchvision_models, timm_models, large)
    return [entry for module in modules for entry in module.entries()]


# Small, and between them the kinds of layers that targets treat apart.
QUICK = (
    "hard/*",
    "huggingface/BertForMaskedLM",
    "huggingface/DistillGPT2",
    "huggingface/T5Small",
    "huggingface/GoogleFnet",
    "modern/Qwen3",
    "modern/SegFormer",
    "torchvision/resnet18",
    "torchvision/mobilenet_v3_small",
    "torchvision/shufflenet_v2_x0_5",
    "torchvision/swin_t",
    "timm/levit_128s",
    "timm/convnext_atto",
)


def select(entries: Sequence[Entry], only: Sequence[str], quick: bool) -> list[Entry]:
    """The entries that a run takes, in their order.

    Args:
        entries: All of them.
        only: Patterns of names, `timm/*` for example; empty is all but `large/*`.
        quick: Those of `QUICK` alone.

    Raises:
        ValueError: A pattern matches nothing; it names the groups.
    """
    for pattern in only:
        if not any(fnmatch.fnmatchcase(entry.name, pattern) for entry in entries):
            groups = ", ".join(sorted({f"{entry.group}/*" for entry in entries}))
            raise ValueError(f"--only {pattern}: no model has such a name; groups: {groups}")

    def taken(entry: Entry, patterns: Sequence[str]) -> bool:
        return any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in patterns)

    chosen = [entry for entry in entries if (taken(entry, only) if only else entry.group != LARGE)]
    return [entry for entry in chosen if not quick or taken(entry, QUICK)]


def in_turns(entries: Sequence[Entry]) -> list[Entry]:
    """One of each group in turn: an interrupted run has seen something of everything."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.group, []).append(entry)
    longest = max(map(len, groups.values()), default=0)
    return [members[at] for at in range(longest) for members in groups.values() if at < len(members)]


def missing_libraries(entries: Sequence[Entry]) -> list[str]:
    """What the entries need and this environment lacks."""
    from importlib.util import find_spec

    wanted = {library for entry in entries for library in LIBRARIES.get(entry.group, ())}
    return sorted(library for library in wanted if find_spec(library) is None)
