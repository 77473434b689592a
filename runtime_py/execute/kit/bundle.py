"""`edgex bundle`: an artifact with all that runs it on a Linux machine, without Python, to be copied into a product.

```
NAME-linux-MACHINE/
  edgex-runner  libexecutorch*.so  [libdnnl.so.3 …]   runner and libraries
  model.pte                                           the model
  golden/inputs.tensors  golden/expected.tensors      inputs, and what eager PyTorch answered
  run.sh                                              self-test: exit code 0 where this machine computes the same
  generate.sh  processor/…                            language models: ids to ids; tokenizer and settings, as they are
  bundle.json                                         what it is: digests, versions, tolerances
```
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgex._version import __version__
from edgex.errors import ArtifactError, DeviceError, RunError, UsageError
from edgex.runtime.artifact.artifact import Artifact, hash_file
from edgex.runtime.artifact.golden import Case, golden_of_method
from edgex.runtime.artifact.manifest import PROCESSOR_FOLDER
from edgex.runtime.artifact.specs import TensorSpec
from edgex.runtime.execute.kit.generation import decoder_flags, is_language_model, sampling_flags
from edgex.runtime.execute.kit.kit import RUNNER, needed_libc, plugin_kit, runner_kit
from edgex.runtime.execute.linux.native import refuse_version_skew
from edgex.runtime.execute.tensors import describe_inputs, pack_tensors
from edgex.runtime.execute.verification import read_tolerances
from edgex.runtime.generation.settings import read_generation_settings
from edgex.runtime.session.numerics import Tolerance
from edgex.runtime.session.signature import Signature
from edgex.runtime.support.json.reading import read_json
from edgex.runtime.support.publish import disk_errors, publish_folder, staged_folder

FORMAT = "edgex.bundle/1"
RUNTIMES = {"linux-x86_64": "x86_64", "linux-aarch64": "aarch64"}
_NOTE = "bundle.json"


@dataclass(frozen=True)
class Bundle:
    """What was written.

    Attributes:
        path: Its folder.
        runtime: A key of `RUNTIMES`.
        bytes: Size of all files.
        cases: Golden cases that the self-test runs.
        generates: Whether it is a language model's, with a `generate.sh`.
        libc: The oldest glibc that it runs with.
        executorch: Version of the libraries.
    """

    path: Path
    runtime: str
    bytes: int
    cases: int
    generates: bool
    libc: str
    executorch: str


def write_bundle(artifact: Artifact, runtime: str, output: Path, wheel: Path | None = None, *, force: bool) -> Bundle:
    """Write a bundle; whole or not at all. The same artifact and versions give the same bytes.

    Args:
        artifact: Its engine is executorch.
        runtime: A key of `RUNTIMES`.
        output: The folder; it must not exist, or be a bundle with `force`.
        wheel: See `edgex.runtime.execute.kit.kit.runner_kit`.
        force: Replace a bundle.

    Raises:
        UsageError: The output exists.
        ArtifactError: The artifact is of another engine.
        DeviceError: The runner cannot be made for that machine.
    """
    check_output(output, force)
    if artifact.manifest.engine != "executorch":
        raise ArtifactError(
            f"a bundle holds the native runner, which runs .pte files; this artifact's engine is "
            f"{artifact.manifest.engine}",
            artifact.path.name,
            "export the model for xnnpack or onednn",
        )
    machine = RUNTIMES[runtime]
    kit = runner_kit(machine, wheel)
    refuse_version_skew(artifact, kit)
    plugins = plugin_kit(artifact.manifest.requirements.plugins, machine, kit.version)
    kits = [kit, *([plugins] if plugins else [])]
    generates = is_language_model(artifact)
    libc = ".".join(map(str, max(needed_libc(one) for one in kits)))
    failure = f"the bundle cannot be written to {output}"
    with disk_errors(ArtifactError, failure), staged_folder(output) as temporary:
        for name, path in {name: path for one in kits for name, path in one.files.items()}.items():
            shutil.copyfile(path, temporary / name)
            (temporary / name).chmod(0o755)
        entry = artifact.manifest.file(".pte")
        shutil.copyfile(artifact.file(".pte"), temporary / "model.pte")
        cases = _write_golden(artifact, temporary)
        libraries = list(plugins.files) if plugins else []
        _write_script(temporary / "run.sh", _self_test(artifact, entry.sha256, libraries, cases))
        if generates:
            _write_script(temporary / "generate.sh", _generation(artifact, entry.sha256, libraries))
            _copy_processor(artifact, temporary)
        note = _describe(artifact, runtime, kit.version, libc, temporary)
        (temporary / _NOTE).write_text(json.dumps(note, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        publish_folder(temporary, output, replace=force)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    return Bundle(output, runtime, size, len(cases), generates, libc, kit.version)


def check_output(output: Path, force: bool) -> None:
    """Refuse a folder that must not be written.

    Raises:
        UsageError: It exists, and is no bundle or is not to be replaced.
    """
    if not output.exists():
        return
    try:
        ours = read_json(output / _NOTE)["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise UsageError(f"{output} exists and is no bundle of edgex", fix="give another folder with -o")
    if not force:
        raise UsageError(f"{output} exists", fix="--force replaces it")


def _write_golden(artifact: Artifact, folder: Path) -> list[Case]:
    """Inputs and outputs of all cases, in a row; the memory order of inputs is no matter of files.

    The runner refuses by names, dtypes and sizes: it knows no vocabulary, and no context that may be full.
    """
    method = artifact.manifest.method
    signature = Signature(method.inputs)
    cases = [
        case
        for case in golden_of_method(artifact)
        if case.steps
        and not case.over_methods  # the runner has one method loaded
        and (case.kind == "compare" or (case.kind == "refuse" and not _fits(case, signature)))
    ]
    if not any(case.kind == "compare" for case in cases):
        raise DeviceError("the artifact holds no golden cases", artifact.path.name, "export the model again")
    inputs, expected = bytearray(), bytearray()
    for case in cases:
        for step in case.steps:
            inputs += pack_tensors(method.inputs, step.inputs)
            if case.kind == "compare":
                # Eager's answers are kept as float32 where NumPy has no bfloat16.
                specs = [TensorSpec(s.name, str(step.outputs[s.name].dtype), ()) for s in method.outputs]
                expected += pack_tensors(specs, step.outputs)
    (folder / "golden").mkdir()
    (folder / "golden" / "inputs.tensors").write_bytes(inputs)
    (folder / "golden" / "expected.tensors").write_bytes(expected)
    return cases


def _fits(case: Case, signature: Signature) -> bool:
    try:
        for step in case.steps:
            signature.prepare(**step.inputs)
    except RunError:
        return False
    return True


def _self_test(artifact: Artifact, sha256: str, plugins: list[str], cases: list[Case]) -> str:
    method = artifact.manifest.method
    ordinary, quantized = read_tolerances(artifact)
    flags = ["--model model.pte", f"--sha256 {shlex.quote(sha256)}", f"--method {shlex.quote(method.entry)}"]
    flags += [f"--plugin {shlex.quote(f'./{name}')}" for name in plugins]
    flags += [f"--input {shlex.quote(text)}" for text in describe_inputs(method.inputs)]
    flags += [f"--output {shlex.quote(spec.name)}" for spec in method.outputs]
    flags += [f"--state {shlex.quote(state.name)}" for state in method.state]
    flags += [*_tolerance_flags("--", ordinary), *(_tolerance_flags("--quantized-", quantized) if quantized else ())]
    flags += ["--inputs golden/inputs.tensors", "--expected golden/expected.tensors"]
    flags += [f"--case {shlex.quote(f'{_kind(case, quantized)}:{len(case.steps)}:{case.name}')}" for case in cases]
    joined = " \\\n  ".join(flags)
    return (
        "#!/bin/sh\n"
        f"# Self-test of {shlex.quote(artifact.manifest.name)}:\n"
        "# exit code 0 where this machine computes what PyTorch did, else 4.\n"
        "# More flags are passed on, for example: ./run.sh --runs 100 --threads 2\n"
        'cd "$(dirname "$0")" || exit 1\n'
        f'exec ./{RUNNER} {joined} "$@"\n'
    )


def _generation(artifact: Artifact, sha256: str, plugins: list[str]) -> str:
    """The settings of the model's makers are defaults, as in `edgex generate`: flags that come later count instead.

    Files that flags name lie where the caller is: so the script stays there.
    """
    own = sampling_flags(read_generation_settings(artifact).sampling)
    quoted = list(map(shlex.quote, [*decoder_flags(artifact), *own]))
    flags = ['--model "$here"/model.pte', f"--sha256 {shlex.quote(sha256)}"]
    flags += [f'--plugin "$here"/{shlex.quote(name)}' for name in plugins]
    flags += [f"{flag} {value}" for flag, value in zip(quoted[::2], quoted[1::2], strict=True)]
    joined = " \\\n  ".join(flags)
    return (
        "#!/bin/sh\n"
        f"# Generates with {shlex.quote(artifact.manifest.name)}, from ids to ids:\n"
        "# ./generate.sh --ids 1,2,3 --max-new 64\n"
        f"# New ids go to stdout as they come, figures to stderr; all flags: ./{RUNNER} generate --help\n"
        'here=$(dirname "$0")\n'
        f'exec "$here"/{RUNNER} generate {joined} "$@"\n'
    )


def _write_script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _copy_processor(artifact: Artifact, folder: Path) -> None:
    """The tokenizer's files, for the program that makes ids of text."""
    for entry in artifact.manifest.files:
        if entry.path.startswith(f"{PROCESSOR_FOLDER}/"):
            target = folder / entry.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(artifact.path / entry.path, target)


def _tolerance_flags(prefix: str, tolerance: Tolerance) -> list[str]:
    flags = [f"{prefix}min-sqnr {tolerance.min_sqnr_db:g}"]
    flags += [
        f"{prefix}{name} {value:g}" for name in ("atol", "rtol") if (value := getattr(tolerance, name)) is not None
    ]
    return flags if tolerance.min_equal == 1.0 else [*flags, f"{prefix}min-equal {tolerance.min_equal:g}"]


def _kind(case: Case, quantized: Tolerance | None) -> str:
    """How the runner is to judge a case."""
    if case.kind == "refuse":
        return "refuse"
    kind = "quantized" if case.reference == "quantized" and quantized is not None else "expect"
    return kind if case.min_sqnr_db is None else f"{kind}@{case.min_sqnr_db:g}"


def _describe(artifact: Artifact, runtime: str, version: str, libc: str, folder: Path) -> Mapping[str, Any]:
    manifest = artifact.manifest
    ordinary, quantized = read_tolerances(artifact)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        "format": FORMAT,
        "edgex": __version__,
        "runtime": runtime,
        "executorch": version,
        "minimum_glibc": libc,
        "artifact": {"name": manifest.name, "target": manifest.target, "digest": artifact.digest},
        "isa": list(manifest.requirements.isa),
        "method": manifest.method.to_json(),
        **({} if manifest.llm is None else {"llm": manifest.llm.to_json()}),
        "tolerance": ordinary.to_json(),
        "quantized_tolerance": None if quantized is None else quantized.to_json(),
        "files": [
            {"path": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size, "sha256": hash_file(path)}
            for path in files
        ],
    }
