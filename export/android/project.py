"""The files of a project, or of the library alone: copied, filled in, listed, and put in their place."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgex._version import __version__
from edgex.errors import ArtifactError, UsageError
from edgex.export.android.delivery import add_pack
from edgex.export.android.golden_files import GoldenSelection, write_golden_files
from edgex.export.android.library.kotlin_class import ModelClass
from edgex.export.android.library.kotlin_names import make_folder_name
from edgex.export.android.library.operators import FILE as OPERATORS
from edgex.export.android.library.operators import write_operators
from edgex.export.android.library.readme import write_readme
from edgex.export.android.options import AppOptions
from edgex.export.android.templates import TEMPLATES, Identity, fill_template
from edgex.runtime.artifact.artifact import Artifact, hash_file
from edgex.runtime.engines.executorch.pte import read_pte
from edgex.runtime.support.publish import disk_errors, publish_folder, staged_folder

PROJECT = Path(__file__).parent.parent.parent / "samples" / "android"
LIBRARY = "model"
# What only some projects have.
VARIANTS = "variants"
# Within the library.
ASSETS = "src/main/assets/edgex"
CLASSES = "src/main/kotlin/dev/edgex/model"
BUNDLE_FILE = "edgex-bundle.json"
BUNDLE_FORMAT = "edgex.android-bundle/1"

# What building leaves in a project, and what is nobody's source.
_NOT_SOURCE = frozenset({".gradle", ".idea", ".kotlin", "build", "local.properties", "keystore.properties", "assets"})

# Files of the user in a project, or in its folder `app`, that replacing it keeps.
_USERS_OWN = ("keystore.properties", "local.properties", "*.jks", "*.keystore")


def check_output(output: Path, artifact: Artifact, force: bool) -> None:
    """Refuse a folder that must not be written. Only what `edgex android` wrote is ever replaced.

    Raises:
        UsageError: It exists, or it lies within the artifact.
    """
    if output.resolve().is_relative_to(artifact.path.resolve()):
        raise UsageError(f"-o {output} lies within the artifact", fix="give a folder beside it")
    if not output.exists() and not output.is_symlink():
        return
    if not (output / BUNDLE_FILE).is_file():
        if output.is_dir() and not any(output.iterdir()):
            return
        raise UsageError(f"{output} exists and is not an app that edgex wrote", fix="give another folder with -o")
    if not force:
        raise UsageError(f"{output} exists", fix="--force replaces it with all that you changed there; keystores stay")


def write_project(
    artifact: Artifact,
    output: Path,
    options: AppOptions,
    identity: Identity,
    document: dict[str, Any],
    selection: GoldenSelection,
) -> ModelClass:
    """Write everything beside the output, then put it in its place; whatever fails leaves nothing.

    Returns:
        What was written about the model.
    """
    folder = make_folder_name(document["model"]["name"])
    written = ModelClass(document, folder)
    with disk_errors(ArtifactError, f"cannot write {output}"), staged_folder(output) as temporary:
        library = temporary if options.library_only else temporary / LIBRARY
        _copy_sources(temporary, library, options, identity)
        assets = library / ASSETS / folder
        assets.mkdir(parents=True)
        method = artifact.manifest.method
        document["golden"] = write_golden_files(assets, selection.cases, method.inputs, method.outputs)
        _write_json(assets / "manifest.json", document)
        held = assets
        if options.delivery is not None:
            held = add_pack(temporary, PROJECT / VARIANTS, options.delivery) / folder
            held.mkdir(parents=True)
        if options.model_source == "asset":
            shutil.copyfile(artifact.file(".pte"), held / "model.pte")
        (library / CLASSES / f"{written.name}.kt").write_text(written.write(), encoding="utf-8")
        operators = write_operators(read_pte(artifact.file(".pte")), "model.pte")
        (library / OPERATORS).write_text(operators, encoding="utf-8")
        module = output.name if options.library_only else LIBRARY
        readme = write_readme(written, module, "ExecuTorch", "pte")
        (library / "README.md").write_text(readme, encoding="utf-8")
        _write_json(temporary / BUNDLE_FILE, _describe_bundle(temporary, artifact, identity, document))
        if output.exists():
            _take_over(output, temporary)
        publish_folder(temporary, output, replace=True)
    return written


def _take_over(old: Path, new: Path) -> None:
    """Copy what the user alone has: a lost signing key is an app that can never be updated again."""
    for pattern in _USERS_OWN:
        for source in (*old.glob(pattern), *(old / "app").glob(pattern)):
            shutil.copy2(source, new / source.relative_to(old))


def _copy_sources(folder: Path, library: Path, options: AppOptions, identity: Identity) -> None:
    for source in sorted(PROJECT.rglob("*")):
        path = source.relative_to(PROJECT)
        if not source.is_file() or not _NOT_SOURCE.isdisjoint(path.parts) or source.suffix == ".pyc":
            continue
        if path.parts[0] == LIBRARY:
            target = library / path.relative_to(LIBRARY)
        elif path.parts[0] == VARIANTS or (options.library_only and path.name != "LICENSE-THIRD-PARTY.md"):
            continue
        else:
            target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        content = source.read_bytes()
        if path.as_posix() in TEMPLATES:
            content = fill_template(path.as_posix(), content.decode(), identity).encode()
        target.write_bytes(content)
        # A wheel keeps no executable bits.
        target.chmod(0o755 if content.startswith(b"#!") else 0o644)


def _describe_bundle(folder: Path, artifact: Artifact, identity: Identity, document: dict[str, Any]) -> dict[str, Any]:
    """`edgex-bundle.json`: where the project comes from, and what it was when it was written."""
    files = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        digest = document["model"]["sha256"] if path.name == "model.pte" else hash_file(path)
        files.append({"path": name, "bytes": path.stat().st_size, "sha256": digest})
    return {
        "format": BUNDLE_FORMAT,
        "edgex": __version__,
        "artifact": {"name": artifact.path.name, "digest": artifact.digest, "target": artifact.manifest.target},
        "app": asdict(identity),
        "files": files,
    }


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
