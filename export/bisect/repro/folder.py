"""`--repro DIR`: the operators at fault as a model file and an artifact, both tried again: they fail by themselves.

```
DIR/repro.py             get_model(), get_args(): what `edgex export DIR/repro.py -t TARGET --no-rewrite` refuses
DIR/repro.safetensors    its weights, and eager's inputs
DIR/repro.TARGET.edgex   the artifact of it, with eager's answers: `edgex verify` ends with exit code 4
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from edgex.errors import EdgexError
from edgex.export.bisect.parts.cutting import Part, cut
from edgex.export.bisect.parts.judging import as_model
from edgex.export.bisect.parts.recording import Recording
from edgex.export.bisect.report import Fault
from edgex.export.bisect.repro.python_code import NotPython, input_keys, write_python
from edgex.export.packaging.package import list_files, write_manifest
from edgex.export.packaging.stage import write_package
from edgex.export.proof.verification import to_array, verify_in_fresh_process
from edgex.export.source.source import find_model
from edgex.runtime.artifact.golden import Case, Step
from edgex.runtime.execute.here.fresh_process import FreshProcess
from edgex.runtime.session.numerics import compare_output
from edgex.runtime.support.dependency_messages import quiet_dependencies

if TYPE_CHECKING:
    from edgex.export.bisect.search import Born
    from edgex.export.bisect.stage import Search

_NAME = "repro"
_REASON = "a repro of edgex bisect: its outputs are not eager's"


def write_repro(folder: Path, search: Search, born: Born, fault: Fault) -> tuple[str, ...]:
    """Write the first fault as a model of its own, and try it again.

    Args:
        folder: Made if it is not there.
        search: What it was found in.
        born: The fault.
        fault: The same in words.

    Returns:
        What came of trying it again, a sentence each.
    """
    subject = search.subject
    recordings = sorted(search.recordings, key=lambda found: found.feed.name != fault.case)
    part = cut(search.whole, born.steps, recordings[0].forms)
    folder.mkdir(parents=True, exist_ok=True)
    said = [_write_python(folder, part, recordings, fault, subject.model.target)]
    program = replace(part.program, source_root=folder.resolve())
    cases = [_case(part, recording) for recording in recordings]
    model = as_model(subject.model, program)
    source = replace(
        model.source, name=_NAME, description=f"{_NAME}.py:get_model", source_root=folder.resolve(), processor_files={}
    )
    model = replace(model, source=source, cases=cases)
    settings = replace(subject.settings, tolerance=subject.tolerance, allow_inconclusive=True)
    with quiet_dependencies():
        lowered = model.job.delegate.lower(program, model.job.options)
    artifact = folder / f"{_NAME}.{subject.model.target}.edgex"
    package = write_package(_emptied(artifact), model, lowered, settings, subject.model.quantization, None)
    try:
        with FreshProcess() as process:
            verdict = dict(verify_in_fresh_process(artifact, process))
    except EdgexError as error:
        said.append(f"{artifact.name} fails by itself: {error.what}")
        return tuple(said)
    manifest = replace(
        package.manifest, verification={**verdict, "allow_inconclusive": True}, status_reason=_REASON,
        files=list_files(artifact),
    )  # fmt: skip
    write_manifest(artifact, manifest)
    if verdict["passed"]:
        said.append(f"{artifact.name} does not fail by itself in a new process: the fault comes and goes")
    else:
        said.append(f"{artifact.name} fails by itself: {verdict['reason']}")
    return tuple(said)


def _write_python(folder: Path, part: Part, recordings: Sequence[Recording], fault: Fault, target: str) -> str:
    lines = [f"{fault.place.op} at {fault.place.source or 'no line'}, on {target}: {fault.reason}",
             f"edgex export {_NAME}.py -t {target} --no-rewrite"]  # fmt: skip
    try:
        text, data = write_python(part.program, "Fails by itself.", lines)
    except NotPython as error:
        return f"no {_NAME}.py was written: it would need {error}"
    from safetensors.torch import save

    values = recordings[0].values({*part.reads, *part.gives})
    inputs = {key: values[name].contiguous() for key, name in zip(input_keys(part.program), part.reads, strict=True)}
    (folder / f"{_NAME}.safetensors").write_bytes(save({**data, **inputs}))
    path = folder / f"{_NAME}.py"
    path.write_text(text, encoding="utf-8")
    return _try_python(path, [to_array(values[name]) for name in part.gives])


def _try_python(path: Path, expected: Sequence[np.ndarray]) -> str:
    """Run the file in eager: it must give what the model's own operators gave."""
    from edgex.delegates.recipes.tolerances import DEFAULT_TOLERANCES

    source = find_model(str(path))
    assert isinstance(source.module, torch.nn.Module)
    with torch.no_grad():
        outputs = source.module(*source.args)
    for reference, tensor in zip(expected, outputs, strict=True):
        compared = compare_output(reference, to_array(tensor), DEFAULT_TOLERANCES["fp32"])
        if compared.verdict == "fail":
            return f"{path.name} gives other numbers in eager than the model: {compared.reason}"
    return f"{path.name} gives the model's own numbers in eager"


def _case(part: Part, recording: Recording) -> Case:
    values = {name: to_array(tensor) for name, tensor in recording.values({*part.reads, *part.gives}).items()}
    inputs = {spec.name: values[name] for spec, name in zip(part.program.inputs, part.reads, strict=True)}
    outputs = {spec.name: values[name] for spec, name in zip(part.program.outputs, part.gives, strict=True)}
    return Case(recording.feed.name, "compare", (Step(inputs, outputs),))


def _emptied(path: Path) -> Path:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    return path
