"""The pipeline's stage of packaging: the artifact's files under its temporary name, before and after the proof."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.export.packaging.debug_files import DEBUG_FOLDER, write_debug
from edgex.export.packaging.manifest import make_manifest
from edgex.export.packaging.package import list_files, write_manifest
from edgex.export.proof.held_out import leave_held_out
from edgex.export.proof.verification import carried_cases
from edgex.runtime.artifact.golden import Case, replace_golden, write_golden
from edgex.runtime.artifact.manifest import PROCESSOR_FOLDER, Manifest

if TYPE_CHECKING:
    from edgex.delegates.base import LoweredModule
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import TargetModel


@dataclass(frozen=True)
class Package:
    """An artifact under its temporary name.

    Attributes:
        folder: Where it is.
        model: What it was made of.
        lowered: What its delegate made.
        manifest: As it stands in the folder.
    """

    folder: Path
    model: TargetModel
    lowered: LoweredModule
    manifest: Manifest

    def seal(self, cases: Sequence[Case]) -> None:
        """Write cases with other limits in place of those that are there."""
        replace_golden(self.folder, self.model.all_cases, cases)
        write_manifest(self.folder, replace(self.manifest, files=list_files(self.folder, hashed=False)))


def write_native(
    folder: Path,
    model: TargetModel,
    lowered: LoweredModule,
    settings: ExportSettings,
    quantization: Mapping[str, Any] | None,
) -> Manifest:
    """What can be loaded and run, without a proof: the native files and a manifest.

    Args:
        folder: Made if it is not there.
        model: What was lowered.
        lowered: What its delegate made.
        settings: Tolerance, and whether inconclusive outputs are accepted.
        quantization: The manifest's entry.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lowered.write(folder)
    manifest = make_manifest(
        model,
        lowered,
        settings.tolerance_for(model.job.delegate, model.computed_precision(settings.precision)),
        quantization,
        allow_inconclusive=settings.allow_inconclusive,
        exclude=settings.exclude,
        rewrite=settings.rewrite,
        language=settings.language,
    )
    write_manifest(folder, replace(manifest, files=list_files(folder, hashed=False)))
    return manifest


def write_package(
    folder: Path,
    model: TargetModel,
    lowered: LoweredModule,
    settings: ExportSettings,
    quantization: Mapping[str, Any] | None,
    compression: Mapping[str, Any] | None,
) -> Package:
    """All that the proof needs: native files, manifest, golden data, and the way from operators to lines."""
    manifest = write_native(folder, model, lowered, settings, quantization)
    if model.source.method is None:
        write_debug(folder / DEBUG_FOLDER, lowered.debug, model.program, compression)
    for own in model.methods if lowered.method_debug else ():
        name = str(own.source.method)
        write_debug(folder / DEBUG_FOLDER / name, lowered.method_debug[name], own.program)
    write_golden(folder, model.all_cases)
    _copy_processor(folder, model.source.processor_files)
    write_manifest(folder, replace(manifest, files=list_files(folder, hashed=False)))
    return Package(folder, model, lowered, manifest)


def _copy_processor(folder: Path, files: Mapping[str, Path]) -> None:
    """What turns text or pictures into the model's inputs, as it lies beside the model."""
    if files:
        (folder / PROCESSOR_FOLDER).mkdir()
    for name, path in files.items():
        shutil.copyfile(path, folder / PROCESSOR_FOLDER / name)


def _stable(verification: Mapping[str, Any]) -> Mapping[str, Any]:
    """The verdict without what depends on how busy this machine was: how many cases there was time to run once more.

    A way of repeating in which something differed stays: that is a finding.
    """
    found = [repeat for repeat in verification.get("repeats") or () if repeat["differences"]]
    return {**verification, "repeats": found} if "repeats" in verification else verification


def asked_of_proof(manifest: Manifest) -> Mapping[str, Any]:
    """What of a manifest's verification the proof was told beforehand, and does not answer with."""
    told = ("allow_inconclusive", "constant_outputs")
    return {key: value for key, value in (manifest.verification or {}).items() if key in told}


def warn_of_constants(manifest: Manifest) -> tuple[str, ...]:
    """What to say of outputs that depend on no input: a model that should vary them is wrong in eager already."""
    names = (manifest.verification or {}).get("constant_outputs", ())
    return (f"no input changes {', '.join(names)}: proved by agreeing with eager in every case",) if names else ()


def finish_package(
    package: Package, cases: Sequence[Case], verification: Mapping[str, Any], hashes: Mapping[str, str]
) -> Manifest:
    """Write the verdict into a proved artifact; what is too large of its cases does not travel along.

    Returns:
        The manifest as it is published.
    """
    model_bytes = replace(package.manifest, files=list_files(package.folder, hashed=False)).model_bytes
    replace_golden(package.folder, cases, leave_held_out(carried_cases(cases, model_bytes)))
    status, reason = _judge_status(package.lowered.assembled_reason, verification.get("simulator"))
    manifest = replace(
        package.manifest,
        verification=_stable(verification),
        status=status,
        status_reason=reason,
        files=list_files(package.folder, hashes),
    )
    write_manifest(package.folder, manifest)
    return manifest


def _judge_status(assembled_reason: str | None, simulator: str | None) -> tuple[str, str | None]:
    """What the proof was worth, and what stands in the way of more."""
    if assembled_reason is not None:
        return "assembled", assembled_reason
    if simulator is not None:
        return "simulated", f"executed in the {simulator}; no such device has run it"
    return "verified", None
