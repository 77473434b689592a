"""From an artifact to a Gradle project, or to a library alone, in one go: check, collect, write, rename.

Two generations from one artifact with the same options give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgex.export.android.delivery import BASE_BYTES, check_size
from edgex.export.android.description import describe_app
from edgex.export.android.engine.app_engine import AppEngine
from edgex.export.android.engine.choice import find_engine
from edgex.export.android.golden_files import select_golden
from edgex.export.android.options import (
    AppOptions,
    check_app_name,
    check_application_id,
    default_application_id,
)
from edgex.export.android.project import check_output, write_project
from edgex.export.android.refusals import check_methods, check_tensors
from edgex.export.android.screens import find_screens
from edgex.export.android.templates import Identity
from edgex.runtime.artifact.artifact import Artifact

# A model that leaves no room for an engine's library in what Google Play takes without packs.
_STORE_BYTES = BASE_BYTES - 15_000_000


@dataclass(frozen=True)
class AndroidApp:
    """A generated project.

    Attributes:
        path: Its folder.
        application_id: The app's identity on a device.
        name: What the launcher shows.
        engine: What runs the model, for example `executorch`.
        aar: Its Android library: `flavor:version` of ExecuTorch's, the version of others.
        model_source: `asset` or `push`.
        delivery: When Google Play brings the model's pack; None where there is none.
        model_bytes: Size of the model.
        model_sha256: Its SHA-256.
        model_place: Where on a device it must be pushed to; None where it is within the app.
        class_name: The class of the library that is written for the model.
        screen: `image`, `sound`, `text`, `prompt` or `tensors`: what the Run screen asks for.
        shows: `classes`, `boxes`, `picture`, `text` or `tensors`: what it shows of the outputs.
        golden_cases: How many cases the app replays.
        notices: What the user should know.
    """

    path: Path
    application_id: str
    name: str
    engine: str
    aar: str
    model_source: str
    delivery: str | None
    model_bytes: int
    model_sha256: str
    model_place: str | None
    class_name: str
    screen: str
    shows: str
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
        UsageError: The output exists, a choice does not fit the model, or no engine of an app's runs the artifact.
        LoweringError: The model has tensors or backends that an app cannot take.
        TargetUnavailable: The engine's Android library does not exist in the exporter's version.
        ArtifactError: The artifact lacks golden data, or the project cannot be written.
    """
    check_output(output, artifact, force)
    check_methods(artifact)
    engine = find_engine(artifact, options)
    check_tensors(artifact)
    if options.delivery is not None:
        check_size(artifact, engine.suffix, options.delivery)
    screens = find_screens(artifact, options)
    selection = select_golden(artifact)
    document = describe_app(artifact, engine, options, screens=screens, selection=selection)
    identity = _identify(artifact, options, engine)
    written = write_project(artifact, output, options, engine, identity, document, selection, screens.files)
    return AndroidApp(
        path=output,
        application_id=identity.application_id,
        name=identity.name,
        engine=engine.name,
        aar=f"{engine.flavor}:{engine.version}" if engine.name == "executorch" else engine.version,
        model_source=options.model_source,
        delivery=options.delivery,
        model_bytes=document["model"]["file_bytes"],
        model_sha256=document["model"]["sha256"],
        model_place=_find_place(identity, engine, document) if options.model_source == "push" else None,
        class_name=written.name,
        screen=screens.asks,
        shows=screens.kind,
        golden_cases=len(selection.cases),
        notices=(*screens.notices, *engine.notices, *_notice(document, options)),
    )


def _notice(document: dict[str, Any], options: AppOptions) -> tuple[str, ...]:
    size = document["model"]["file_bytes"]
    if options.model_source == "asset" and options.delivery is None and size > _STORE_BYTES:
        return (
            f"the model has {size / 1e6:.0f} MB: Google Play takes apps of up to 200 MB (as of 2025), so for the store "
            "it must come in a pack, --delivery install-time; --model-source push leaves it out for trying the app",
        )
    return ()


def _find_place(identity: Identity, engine: AppEngine, document: dict[str, Any]) -> str:
    """The app's own folder that adb may write to, which `--device adb` uses too."""
    return f"/sdcard/Android/data/{identity.application_id}/files/edgex/{document['model']['sha256']}{engine.suffix}"


def _identify(artifact: Artifact, options: AppOptions, engine: AppEngine) -> Identity:
    name = artifact.manifest.name
    given = options.application_id
    return Identity(
        application_id=check_application_id(given) if given else default_application_id(name),
        name=check_app_name(options.name) if options.name else name[:50],
        project="".join(c if c.isalnum() or c in "-_" else "-" for c in name) or "edgex-sample",
        version_name=f"1.0-{artifact.digest[:12]}",
        engine=engine.dependency,
    )
