"""From an artifact to a Gradle project, in one go: check, collect, write to a temporary sibling, rename.

Two generations from one artifact with the same options give the same bytes.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgex._version import __version__
from edgex.errors import ArtifactError, UsageError
from edgex.export.android.description import describe_app
from edgex.export.android.golden_files import GoldenSelection, select_golden, write_golden_files
from edgex.export.android.options import (
    AppOptions,
    check_app_name,
    check_application_id,
    default_application_id,
)
from edgex.export.android.refusals import check_backends, check_engine, check_labels, check_tensors
from edgex.export.android.templates import TEMPLATES, Identity, fill_template
from edgex.export.android.versions import find_aar
from edgex.runtime.artifact.artifact import Artifact, hash_file
from edgex.runtime.artifact.card import ImageInput, check_image, read_image_card
from edgex.runtime.engines.executorch.pte import read_pte
from edgex.runtime.support.publish import disk_errors, publish_folder, staged_folder

PROJECT = Path(__file__).parent.parent.parent / "samples" / "android"
ASSETS = "app/src/main/assets/edgex"
BUNDLE_FILE = "edgex-bundle.json"
BUNDLE_FORMAT = "edgex.android-bundle/1"

# What building leaves in a project, and what is nobody's source.
_NOT_SOURCE = frozenset({".gradle", ".idea", ".kotlin", "build", "local.properties", "keystore.properties", "assets"})

# A model that leaves no room for ExecuTorch's library in what Google Play takes without asset packs, 200 MB.
_STORE_BYTES = 185_000_000

# Files of the user in a project, or in its folder `app`, that replacing it keeps.
_USERS_OWN = ("keystore.properties", "local.properties", "*.jks", "*.keystore")


@dataclass(frozen=True)
class AndroidApp:
    """A generated project.

    Attributes:
        path: Its folder.
        application_id: The app's identity on a device.
        name: What the launcher shows.
        aar: ExecuTorch's Android library, `name:version`.
        model_source: `asset` or `push`.
        model_bytes: Size of the model.
        model_sha256: Its SHA-256.
        model_place: Where on a device it must be pushed to; None where it is within the app.
        screen: `image` or `tensors`: which kind of Run screen the model gets.
        golden_cases: How many cases the app replays.
        notices: What the user should know.
    """

    path: Path
    application_id: str
    name: str
    aar: str
    model_source: str
    model_bytes: int
    model_sha256: str
    model_place: str | None
    screen: str
    golden_cases: int
    notices: tuple[str, ...]


def generate_app(artifact: Artifact, output: Path, options: AppOptions, *, force: bool = False) -> AndroidApp:
    """Write the project.

    Args:
        artifact: An opened and checked artifact.
        output: The project's folder; its parents are made.
        options: What was chosen.
        force: Replace a project that `edgex android` generated.

    Raises:
        UsageError: The output exists, a choice does not fit the model, or ExecuTorch does not run the artifact.
        LoweringError: The model has tensors or backends that an app cannot take.
        TargetUnavailable: ExecuTorch's Android library does not exist in the exporter's version.
        ArtifactError: The artifact lacks golden data, or the project cannot be written.
    """
    check_output(output, artifact, force)
    where = artifact.path.name
    check_engine(artifact)
    program = read_pte(artifact.file(".pte"))
    check_backends(artifact, program, options)
    check_tensors(artifact)
    aar = find_aar(artifact.manifest.producer.get("executorch", "unknown"), where)
    card = artifact.manifest.model.get("card", {})
    image = options.image or read_image_card(card, where)
    if image is not None:
        fix = "leave the image input out, and the app shows a tensor card"
        check_image(image, artifact.manifest.method.inputs, "--image-input" if options.image else where, fix)
    labels, notices = _find_labels(artifact, options)
    selection = select_golden(artifact)
    document = describe_app(artifact, program, options, aar=aar, image=image, labels=labels, selection=selection)
    identity = _identify(artifact, options, aar)
    notices += _notice(artifact, options, image)
    _write(artifact, output, options, identity, document, selection)
    return AndroidApp(
        path=output,
        application_id=identity.application_id,
        name=identity.name,
        aar=f"{options.flavor}:{aar}",
        model_source=options.model_source,
        model_bytes=document["model"]["file_bytes"],
        model_sha256=document["model"]["sha256"],
        model_place=_find_place(identity, document) if options.model_source == "push" else None,
        screen="image" if image is not None and len(artifact.manifest.method.inputs) == 1 else "tensors",
        golden_cases=len(selection.cases),
        notices=notices,
    )


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


def _find_labels(artifact: Artifact, options: AppOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Labels with notices: given ones must fit, those of a model card that do not are left out, and that is said."""
    if options.labels is not None:
        check_labels(artifact.manifest, options.labels, "--labels")
        return options.labels, ()
    found = artifact.manifest.model.get("card", {}).get("labels")
    if found is None:
        return (), ()
    labels = tuple(str(label) for label in found) if isinstance(found, list) else ()
    try:
        check_labels(artifact.manifest, labels, artifact.path.name)
    except UsageError as error:
        return (), (f"the model card's labels are left out: {error.what}",)
    return labels, ()


def _notice(artifact: Artifact, options: AppOptions, image: ImageInput | None) -> tuple[str, ...]:
    notices = []
    if image is not None and len(artifact.manifest.method.inputs) > 1:
        notices.append("the model has several inputs, so the app shows tensor cards instead of the image screen")
    size = artifact.manifest.file(".pte").bytes
    if options.model_source == "asset" and size > _STORE_BYTES:
        notices.append(
            f"the model has {size / 1e6:.0f} MB: Google Play takes apps of up to 200 MB, so for the store it must come "
            "as an asset pack; --model-source push leaves it out for trying the app"
        )
    return tuple(notices)


def _find_place(identity: Identity, document: dict[str, Any]) -> str:
    """The app's own folder that adb may write to, which `--device adb` uses too."""
    return f"/sdcard/Android/data/{identity.application_id}/files/edgex/{document['model']['sha256']}.pte"


def _identify(artifact: Artifact, options: AppOptions, aar: str) -> Identity:
    name = artifact.manifest.name
    given = options.application_id
    return Identity(
        application_id=check_application_id(given) if given else default_application_id(name),
        name=check_app_name(options.name) if options.name else name[:50],
        project="".join(c if c.isalnum() or c in "-_" else "-" for c in name) or "edgex-sample",
        version_name=f"1.0-{artifact.digest[:12]}",
        aar=aar,
        flavor=options.flavor,
    )


def _write(
    artifact: Artifact,
    output: Path,
    options: AppOptions,
    identity: Identity,
    document: dict[str, Any],
    selection: GoldenSelection,
) -> None:
    """Write everything beside the output, then put it in its place; whatever fails leaves nothing."""
    with disk_errors(ArtifactError, f"cannot write {output}"), staged_folder(output) as temporary:
        _copy_project(temporary, identity)
        assets = temporary / ASSETS
        assets.mkdir(parents=True)
        method = artifact.manifest.method
        document["golden"] = write_golden_files(assets, selection.cases, method.inputs, method.outputs)
        _write_json(assets / "manifest.json", document)
        if options.model_source == "asset":
            shutil.copyfile(artifact.file(".pte"), assets / "model.pte")
        _write_json(temporary / BUNDLE_FILE, _describe_bundle(temporary, artifact, identity, document))
        if output.exists():
            _take_over(output, temporary)
        publish_folder(temporary, output, replace=True)


def _take_over(old: Path, new: Path) -> None:
    """Copy what the user alone has: a lost signing key is an app that can never be updated again."""
    for pattern in _USERS_OWN:
        for source in (*old.glob(pattern), *(old / "app").glob(pattern)):
            shutil.copy2(source, new / source.relative_to(old))


def _copy_project(folder: Path, identity: Identity) -> None:
    for source in sorted(PROJECT.rglob("*")):
        path = source.relative_to(PROJECT)
        if not source.is_file() or not _NOT_SOURCE.isdisjoint(path.parts) or source.suffix == ".pyc":
            continue
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
    known = {f"{ASSETS}/model.pte": document["model"]["sha256"]}
    files = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        files.append({"path": name, "bytes": path.stat().st_size, "sha256": known.get(name) or hash_file(path)})
    return {
        "format": BUNDLE_FORMAT,
        "edgex": __version__,
        "artifact": {"name": artifact.path.name, "digest": artifact.digest, "target": artifact.manifest.target},
        "app": asdict(identity),
        "files": files,
    }


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
