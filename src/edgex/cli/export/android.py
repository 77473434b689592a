"""`edgex android`: a sample app around an artifact, as a Gradle project; with --build, built where the SDK is."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import artifact_argument, check_option, common_options, output_option
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.export.android.delivery import Delivery
    from edgex.export.android.options import AppOptions, Flavor, ModelSource
    from edgex.runtime.artifact.artifact import Artifact, CheckLevel

_IMAGE_HELP = (
    "This input is a picture, scaled to 0..1, then (x - MEAN) / STD; default: the model card's. "
    "For example x:0.485/0.456/0.406,0.229/0.224/0.225. Behind it, where needed: ,NCHW or ,NHWC (default: as the shape "
    "tells), ,BGR (default: RGB)."
)


@make_command("android")
@artifact_argument
@output_option("The project's folder; default: NAME-android.")
@option(
    "--application-id",
    metavar="ID",
    group="App",
    help="The app's identity, for example com.yourcompany.digits; default: one of edgex's choice.",
)
@option("--name", metavar="TEXT", group="App", help="What the launcher shows; default: the artifact's name.")
@option(
    "--labels",
    type=click.Path(path_type=Path),
    metavar="FILE",
    group="App",
    help="Class names, one a line; default: the model card's.",
)
@option("--image-input", metavar="NAME:MEAN,STD", group="App", help=_IMAGE_HELP)
@option(
    "--microphone",
    metavar="NAME:RATE",
    group="App",
    help="This input is sound, which the app may record: RATE values a second; default: the model card's, else never.",
)
@option(
    "--flavor",
    type=click.Choice(["xnnpack", "vulkan"]),
    default="xnnpack",
    show_default=True,
    group="App",
    help="Which of ExecuTorch's libraries the app brings; vulkan holds both.",
)
@option(
    "--model-source",
    type=click.Choice(["asset", "push"]),
    default="asset",
    show_default=True,
    group="App",
    help="Put the model in the app, or send it with adb, to a name that is its SHA-256.",
)
@option(
    "--delivery",
    type=click.Choice(["install-time", "fast-follow", "on-demand"]),
    group="App",
    help="Put the model into an AI pack of Google Play's, which brings it with the app, after it, or when asked.",
)
@option(
    "--library-only",
    is_flag=True,
    group="App",
    help="Write the library module alone, to be put into an existing app.",
)
@option(
    "--aab",
    is_flag=True,
    group="App",
    help="Say what a store asks for, and how to sign the bundle; with --build, make it.",
)
@option("--build", is_flag=True, group="App", help="Build the debug APK with Gradle and the Android SDK.")
@check_option
@common_options(force=True)
def command(
    artifact: str,
    output: Path | None,
    application_id: str | None,
    name: str | None,
    labels: Path | None,
    image_input: str | None,
    microphone: str | None,
    flavor: str,
    model_source: str,
    delivery: str | None,
    library_only: bool,
    aab: bool,
    build: bool,
    check: CheckLevel,
    timeout: float | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Make an Android app around ARTIFACT: runs it, proves it on the device, measures it."""

    def body() -> int:
        from edgex.errors import UsageError
        from edgex.export.android.generate import generate_app
        from edgex.runtime.artifact.artifact import open_artifact

        if library_only and (build or aab):
            raise UsageError(
                "--library-only writes no app, which --build and --aab need",
                fix="build the project that takes it",
            )
        if delivery is not None and (library_only or model_source == "push"):
            raise UsageError(
                "--delivery puts the model beside the app, for Google Play",
                fix="leave --library-only and --model-source push out",
            )
        options = _read_options(application_id, name, labels, image_input, microphone, flavor, model_source)
        options = replace(options, delivery=cast("Delivery | None", delivery), library_only=library_only)
        opened = open_artifact(artifact, check)
        app = generate_app(opened, output or Path(f"{opened.manifest.name}-android"), options, force=force)
        built: dict[str, str | None] = {"apk": None, "aab": None}
        if build:
            from edgex.export.android.gradle import DEBUG_APK, STORE_BUNDLE, build_app

            made = build_app(app.path, os.environ, Path.home(), STORE_BUNDLE if aab else DEBUG_APK)
            built["aab" if aab else "apk"] = str(made)
        document = {"schema": "edgex.android/1", **asdict(app), "path": str(app.path)}
        document |= {"notices": list(app.notices), "library_only": library_only, **built}
        document["store"] = _describe_store(app.path, document, application_id) if aab else []
        print_json(document) if as_json else _print_app(document, opened, quiet=quiet)
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def _read_options(
    application_id: str | None,
    name: str | None,
    labels: Path | None,
    image_input: str | None,
    microphone: str | None,
    flavor: str,
    model_source: str,
) -> AppOptions:
    """All flags are checked before the artifact is opened."""
    from edgex.export.android.options import (
        AppOptions,
        check_app_name,
        check_application_id,
        read_labels,
    )
    from edgex.runtime.artifact.card import parse_image_input
    from edgex.runtime.artifact.card_microphone import parse_microphone

    return AppOptions(
        application_id=None if application_id is None else check_application_id(application_id),
        name=None if name is None else check_app_name(name),
        labels=None if labels is None else read_labels(labels),
        image=None if image_input is None else parse_image_input(image_input, "--image-input"),
        microphone=None if microphone is None else parse_microphone(microphone),
        flavor=cast("Flavor", flavor),
        model_source=cast("ModelSource", model_source),
    )


def _describe_store(path: Path, document: dict[str, Any], application_id: str | None) -> list[str]:
    """What stands between the project and a store, a sentence each."""
    from edgex.export.android.gradle import STORE_BUNDLE

    notes = []
    if document["model_source"] == "push":
        notes.append("the app holds no model, and users of a store have no adb: leave --model-source push out")
    if application_id is None:
        notes.append(
            f"{document['application_id']} is edgex's choice: give --application-id, it cannot change once published"
        )
    if not (path / "keystore.properties").is_file():
        notes.append(
            "no keystore.properties, without which bundleRelease fails: a store refuses the debug key; make a key with "
            "keytool -genkeypair -keyalg RSA -validity 10000 -keystore upload.jks -alias upload, and name it there: "
            "storeFile, storePassword, keyAlias, keyPassword"
        )
    if document["aab"] is None:
        notes.append(f"cd {shlex.quote(str(path))} && ./gradlew bundleRelease writes {STORE_BUNDLE.output}")
    notes.append("raise versionCode in app/build.gradle.kts with each upload")
    return notes


_SCREENS = {
    "image": "a picture",
    "text": "a text",
    "prompt": "the beginning of a text",
    "sound": "sound from the microphone, when asked",
    "picture": "a picture",
    "classes": "the likeliest classes",
    "boxes": "boxes in the picture",
    "tensors": "a card for each tensor",
}


def _print_app(document: dict[str, Any], artifact: Artifact, *, quiet: bool) -> None:
    from edgex.cli.render import bold
    from edgex.runtime.report.figures import format_bytes

    click.echo(f"{bold(document['name'])}  {document['application_id']}  {document['path']}")
    where = "in the app" if document["model_source"] == "asset" else "to be pushed with adb"
    where = where if document["delivery"] is None else f"in an AI pack, {document['delivery']}"
    click.echo(f"  model       {format_bytes(document['model_bytes'])}, {where}")
    click.echo(f"  class       dev.edgex.model.{document['class_name']}")
    if not document["library_only"]:
        click.echo(f"  screen      {_SCREENS[document['screen']]} in, {_SCREENS[document['shows']]} out")
    click.echo(f"  proof       replays {document['golden_cases']} golden cases on the device")
    click.echo(f"  {document['engine']:<11} {document['aar']}")
    for note in document["store"]:
        click.echo(f"  store       {note}")
    for notice in () if quiet else document["notices"]:
        click.echo(click.style("  notice      ", fg="yellow") + notice)
    if built := document["apk"] or document["aab"]:
        click.echo(f"  built       {built}")
    elif document["library_only"]:
        click.echo(f"  next        {shlex.quote(document['path'])}/README.md: ten lines for an existing app")
    else:
        folder = shlex.quote(document["path"])
        click.echo(f"  next        cd {folder} && ./gradlew installDebug   (for a store: bundleRelease)")
    if (place := document["model_place"]) is not None:
        model = artifact.file(Path(place).suffix)
        click.echo(f"  then        adb push {shlex.quote(str(model))} {place}")
        if (weights := model.with_name(f"{model.name}.data")).is_file():
            click.echo(f"              adb push {shlex.quote(str(weights))} {Path(place).with_name(weights.name)}")
