"""The proof that an artifact carries: inputs, and what eager PyTorch answered. Format `edgex.golden/1`.

```
golden/index.json        {"format": "edgex.golden/1", "cases": [Case…]}
golden/<case>.safetensors  keys `<step>/input/<name>`, `<step>/output/<name>`, `<step>/ranked/<axis>/<output>`,
                           `<step>/least/<output>`, `<step>/most/<output>`
```

A case is a sequence of steps run after one reset (one step for models without state). Values are stored
contiguous; `layout` says in which memory order they are handed to the session.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.shapes import GOLDEN_INDEX, MAX_CASE_BYTES

FORMAT = "edgex.golden/1"
FOLDER = "golden"
INDEX_FILE = "index.json"

# What the names of stress cases begin with.
STRESS = "stress: "

Kind = Literal["compare", "refuse", "report", "skipped"]
Layout = Literal["contiguous", "transposed", "channels_last"]
Reference = Literal["eager", "quantized"]
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ranked:
    """The values of which an output holds indices, and the axis along which it chooses."""

    values: np.ndarray
    axis: int


@dataclass(frozen=True)
class Between:
    """The least and the largest value that each element of an output may have; both of one shape."""

    least: np.ndarray
    most: np.ndarray


@dataclass(frozen=True)
class Step:
    """One run: inputs by name and, unless the case must be refused, eager's outputs by name.

    `ranked` has, by output, what its indices choose from, where eager's choice is not the only right one; `between`
    what an output may be that is rounded from numbers. `method` runs it where that is another than the case's: a
    sequence over methods shows the state that they share.
    """

    inputs: Arrays
    outputs: Arrays
    ranked: Mapping[str, Ranked] = field(default_factory=dict)
    between: Mapping[str, Between] = field(default_factory=dict)
    method: str | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (*self.inputs.values(), *self.outputs.values(), *(found.values for found in self.ranked.values()))
        limits = (array for found in self.between.values() for array in (found.least, found.most))
        return sum(array.nbytes for array in (*arrays, *limits))


@dataclass(frozen=True)
class Case:
    """One thing to prove.

    Attributes:
        name: For people, for example `example`, `stress: zeros`, `batch=8 (max)`.
        kind: `compare` with eager; `refuse`: the session must reject the inputs; `report`: what differs from eager is
            told and not judged; `skipped`: see reason.
        steps: Run in a row after one reset.
        layout: Memory order in which inputs of rank 2 and more are handed over.
        reason: Why it was skipped, else None.
        seed: The seed that made the inputs, where one did.
        reference: Who gave the outputs: `eager`, the float32 model; or `quantized`, PyTorch running the quantized
            program, where float32 says nothing since values leave the range that was calibrated.
        min_sqnr_db: Replaces the tolerance's limits for floats where rounding is large: the quantized program is
            itself far from float32, or PyTorch's own kernels differ as much.
        method: What runs the steps; None is the artifact's first method.
    """

    name: str
    kind: Kind
    steps: tuple[Step, ...] = ()
    layout: Layout = "contiguous"
    reason: str | None = None
    seed: int | None = None
    reference: Reference = "eager"
    min_sqnr_db: float | None = None
    method: str | None = None

    @property
    def over_methods(self) -> bool:
        """Whether other methods than the case's own run some of its steps."""
        return len(self.own_steps) < len(self.steps)

    @property
    def own_steps(self) -> tuple[Step, ...]:
        """The steps that the case's own method runs."""
        return tuple(step for step in self.steps if step.method in (None, self.method))

    def skip(self, reason: str) -> Case:
        """What is left of it where it is not run: its name, and whose it is."""
        return Case(self.name, "skipped", reason=reason, method=self.method)


def write_golden(folder: Path, cases: Sequence[Case]) -> None:
    """Write cases into `folder/golden`."""
    from safetensors.numpy import save

    root = folder / FOLDER
    root.mkdir()
    index: list[dict[str, Any]] = []
    for number, case in enumerate(cases):
        entry: dict[str, Any] = {"name": case.name, "kind": case.kind, "steps": len(case.steps)}
        entry |= {"layout": case.layout, "reason": case.reason, "seed": case.seed, "file": None}
        entry |= {"reference": case.reference, "min_sqnr_db": case.min_sqnr_db}
        entry |= {} if case.method is None else {"method": case.method}
        if any(step.method is not None for step in case.steps):
            entry["step_methods"] = [step.method for step in case.steps]
        if case.steps:
            slug = re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-")
            entry["file"] = f"{number:02d}-{slug}.safetensors"
            # Not ascontiguousarray, here and elsewhere: it makes a scalar a tensor of one dimension.
            tensors: dict[str, np.ndarray] = {}
            for at, step in enumerate(case.steps):
                tensors |= {f"{at}/input/{name}": np.asarray(a, order="C") for name, a in step.inputs.items()}
                tensors |= {f"{at}/output/{name}": np.asarray(a, order="C") for name, a in step.outputs.items()}
                for name, found in step.ranked.items():
                    tensors[f"{at}/ranked/{found.axis}/{name}"] = np.asarray(found.values, order="C")
                for name, limits in step.between.items():
                    tensors[f"{at}/least/{name}"] = np.asarray(limits.least, order="C")
                    tensors[f"{at}/most/{name}"] = np.asarray(limits.most, order="C")
            # Written by Python: a full disk is then an OSError like everywhere else.
            (root / entry["file"]).write_bytes(save(tensors))
        index.append(entry)
    text = json.dumps({"format": FORMAT, "cases": index}, indent=1, ensure_ascii=False)
    (root / INDEX_FILE).write_text(text + "\n", encoding="utf-8")


def replace_golden(folder: Path, written: Sequence[Case], wanted: Sequence[Case]) -> None:
    """Write other cases over those in `folder/golden`, unless they are the same."""
    if any(old is not new for old, new in zip(written, wanted, strict=True)):
        shutil.rmtree(folder / FOLDER)
        write_golden(folder, wanted)


def read_golden(artifact: Artifact) -> list[Case]:
    """Read all cases of an artifact whose files were checked.

    Raises:
        ArtifactError: There are none, or they are not what the index says.
    """
    from safetensors import SafetensorError

    index = artifact.read_json(f"{FOLDER}/{INDEX_FILE}")
    listed = {entry.path: entry.bytes for entry in artifact.manifest.files}
    try:
        GOLDEN_INDEX.check(index, INDEX_FILE)
        if index["format"] != FORMAT:
            raise ValueError(f"format {index['format']!r} instead of {FORMAT!r}")
        cases = []
        for entry in index["cases"]:
            size = listed.get(f"{FOLDER}/{entry['file']}", 0 if entry["file"] is None else None)
            if size is None:
                raise ValueError(f"{entry['file']} is not in the manifest")
            if size > MAX_CASE_BYTES:
                raise ValueError(f"{entry['file']} has {size:,} bytes; at most {MAX_CASE_BYTES:,} are read")
            cases.append(_read_case(artifact, entry))
        return cases
    # What safetensors makes of a damaged header, and of types that NumPy does not know, it does not document.
    except (OSError, KeyError, TypeError, ValueError, AttributeError, SafetensorError, MemoryError) as error:
        raise ArtifactError(
            "the artifact's golden data cannot be read",
            artifact.path.name,
            "export the model again",
            why=f"{type(error).__name__}: {error}",
        ) from error


def golden_of_method(artifact: Artifact) -> list[Case]:
    """The cases of the method that is meant; see `read_golden`."""
    first, wanted = artifact.manifest.methods[0].name, artifact.manifest.method.name
    return [case for case in read_golden(artifact) if (case.method or first) == wanted]


def read_example(artifact: Artifact) -> dict[str, np.ndarray]:
    """The example inputs by name: the method's first step of the first case that is compared."""
    for case in golden_of_method(artifact):
        if case.kind == "compare" and (own := case.own_steps):
            return dict(own[0].inputs)
    raise ArtifactError("the artifact holds no example inputs", artifact.path.name, "give inputs with -i")


def _read_case(artifact: Artifact, entry: Mapping[str, Any]) -> Case:
    from safetensors.numpy import load_file

    steps: list[Step] = []
    if entry["file"] is not None:
        tensors = load_file(artifact.path / FOLDER / entry["file"])
        methods = entry.get("step_methods") or ()
        for at in range(entry["steps"]):
            inputs, outputs = f"{at}/input/", f"{at}/output/"
            step = Step(
                {k.removeprefix(inputs): v for k, v in tensors.items() if k.startswith(inputs)},
                {k.removeprefix(outputs): v for k, v in tensors.items() if k.startswith(outputs)},
                _read_ranked(tensors, f"{at}/ranked/"),
                _read_between(tensors, at),
                methods[at] if at < len(methods) else None,
            )
            _check_step(artifact, entry, step)
            steps.append(step)
    elif entry["kind"] == "compare":
        raise ValueError(f"case {entry['name']!r} has no file")
    return Case(
        entry["name"],
        entry["kind"],
        tuple(steps),
        entry["layout"],
        entry["reason"],
        entry["seed"],
        entry.get("reference", "eager"),
        entry.get("min_sqnr_db"),
        entry.get("method"),
    )


def _read_ranked(tensors: Arrays, prefix: str) -> dict[str, Ranked]:
    found: dict[str, Ranked] = {}
    for key, values in tensors.items():
        if key.startswith(prefix):
            axis, _, name = key.removeprefix(prefix).partition("/")
            if not axis.isdecimal() or int(axis) >= values.ndim:
                raise ValueError(f"{key!r} names no axis of its values")
            found[name] = Ranked(values, int(axis))
    return found


def _read_between(tensors: Arrays, at: int) -> dict[str, Between]:
    least, most = f"{at}/least/", f"{at}/most/"
    found: dict[str, Between] = {}
    for key, values in tensors.items():
        if key.startswith(least):
            name = key.removeprefix(least)
            other = tensors.get(most + name)
            if other is None or other.shape != values.shape:
                raise ValueError(f"{key!r} has no largest values of its shape")
            found[name] = Between(values, other)
    return found


def _check_step(artifact: Artifact, entry: Mapping[str, Any], step: Step) -> None:
    """A step holds what its method takes and, where it is to be compared, gives."""
    named = step.method or entry.get("method")
    method = artifact.manifest.methods[0] if named is None else artifact.manifest.find_method(named)
    kinds = [("input", step.inputs, method.inputs)]
    if entry["kind"] == "compare":
        kinds.append(("output", step.outputs, method.outputs))
    for kind, arrays, specs in kinds:
        for spec in specs:
            if spec.name not in arrays:
                raise ValueError(f"case {entry['name']!r} has no {kind} {spec.name!r}")
            # Eager may answer in another dtype than a model of lower precision, never with another rank.
            if kind == "output" and arrays[spec.name].ndim != len(spec.shape):
                raise ValueError(
                    f"case {entry['name']!r}: {kind} {spec.name!r} has {arrays[spec.name].ndim} dimensions"
                )
