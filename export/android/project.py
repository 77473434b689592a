"""The files of a project, or of the library alone: copied, filled in, listed, and put in their place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgex._version import __version__
from edgex.errors import ArtifactError, UsageError
from edgex.export.android.delivery import add_pack
from edgex.export.android.edits import Edits, edit_text, join_edits
from edgex.export.android.engine.app_engine import AppEngine
from edgex.export.android.golden_files import GoldenSelection, write_golden_files, write_state_files
from edgex.export.android.library.features import feature_edits
from edgex.export.android.library.kotlin_class import ModelClass
from edgex.export.android.library.kotlin_names import make_folder_name
from edgex.export.android.library.operators import FILE as OPERATORS
from edgex.export.android.library.readme import write_readme
from edgex.export.android.options import AppOptions
from edgex.export.android.templates import TEMPLATES, Identity, fill_template
from edgex.runtime.artifact.artifact import Artifact, hash_file
from edgex.runtime.support.publish import disk_errors, publish_folder, staged_folder

PROJECT = Path(__file__).parent.parent.parent / "samples" / "android"
LIBRARY = "model"
# What only some projects have.
VARIANTS = "variants"
# In a variant of an engine: what the README says of it.
ENGINE_SECTION = "ENGINE.md"
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
    engine: AppEngine,
    identity: Identity,
    document: dict[str, Any],
    selection: GoldenSelection,
    files: Sequence[tuple[str, Sequence[str]]] = (),
) -> ModelClass:
    """Write everything beside the output, then put it in its place; whatever fails leaves nothing.

    Returns:
        What was written about the model.
    """
    folder = make_folder_name(document["model"]["name"])
    written = ModelClass(document, folder)
    with disk_errors(ArtifactError, f"cannot write {output}"), staged_folder(output) as temporary:
        library = temporary if options.library_only else temporary / LIBRARY
        edits = join_edits(engine.edits, feature_edits(document))
        _copy_sources(temporary, library, options, engine, identity, edits)
        assets = library / ASSETS / folder
        assets.mkdir(parents=True)
        method = artifact.manifest.method
        document["golden"] = write_golden_files(assets, selection.cases, method.inputs, method.outputs)
        document["state"] = write_state_files(assets, artifact)
        _write_json(assets / "manifest.json", document)
        for name, lines in files:
            (assets / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        held = assets
        if options.delivery is not None:
            held = add_pack(temporary, PROJECT / VARIANTS, options.delivery) / folder
            held.mkdir(parents=True)
        if options.model_source == "asset":
            shutil.copyfile(artifact.file(engine.suffix), held / engine.model_file)
        (library / CLASSES / f"{written.name}.kt").write_text(written.write(), encoding="utf-8")
        if engine.selected_operators is not None:
            (library / OPERATORS).write_text(engine.selected_operators, encoding="utf-8")
        module = output.name if options.library_only else LIBRARY
        readme = write_readme(written, module, engine)
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


def _copy_sources(
    folder: Path, library: Path, options: AppOptions, engine: AppEngine, identity: Identity, edits: Edits
) -> None:
    """The sample's files, those of the engine in their place, edited and filled in."""
    sources = {path: source for path, source in _list_sources(PROJECT).items() if path.parts[0] != VARIANTS}
    for variant in engine.variants:
        sources |= _list_sources(PROJECT / VARIANTS / variant)
    said = sources.pop(Path(ENGINE_SECTION), None)
    section = None if said is None else said.read_text(encoding="utf-8")
    for path, source in sorted(sources.items()):
        name = path.as_posix()
        if name in engine.left_out:
            continue
        if path.parts[0] == LIBRARY:
            target = library / path.relative_to(LIBRARY)
        elif options.library_only and path.name != "LICENSE-THIRD-PARTY.md":
            continue
        else:
            target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        content = edit_text(name, source.read_bytes().decode(), edits.get(name, ()))
        if name == "README.md" and section is not None:
            content = _replace_last_section(content, section)
        if name in TEMPLATES:
            content = fill_template(name, content, identity)
        target.write_bytes(content.encode())
        # A wheel keeps no executable bits.
        target.chmod(0o755 if content.startswith("#!") else 0o644)


def _replace_last_section(readme: str, section: str) -> str:
    """The README's last section is the engine's."""
    head, mark, _ = readme.partition("## ExecuTorch\n")
    if not mark:
        raise ValueError("README.md has no section of ExecuTorch any more")
    return head + section


def _list_sources(root: Path) -> dict[Path, Path]:
    """Sources below a folder by their path in it, without what building leaves there."""
    found = {source.relative_to(root): source for source in root.rglob("*") if source.is_file()}
    return {p: s for p, s in found.items() if _NOT_SOURCE.isdisjoint(p.parts) and s.suffix != ".pyc"}


def _describe_bundle(folder: Path, artifact: Artifact, identity: Identity, document: dict[str, Any]) -> dict[str, Any]:
    """`edgex-bundle.json`: where the project comes from, and what it was when it was written."""
    files = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        digest = document["model"]["sha256"] if path.name == document["model"]["file"] else hash_file(path)
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
