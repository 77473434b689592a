"""The benchmark app on the device: one that is installed already, or an APK that the user gives.

Any app that `edgex android` wrote will do, whatever model is in it: the model that is to run is sent.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgex.errors import DeviceError
from edgex.runtime.execute.adb.app.apk import Apk, find_apk, read_apk
from edgex.runtime.execute.adb.description import Description
from edgex.runtime.execute.adb.failure import explain
from edgex.runtime.execute.adb.transport.client import AdbClient

INSTRUMENTATION = "dev.edgex.sample.BenchInstrumentation"

_HOW = "edgex android ARTIFACT -o app && (cd app && ./gradlew assembleRelease), then --app app"
_ID = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+")

# What `pm install` calls a failure -> (what happened, what to do).
_REFUSALS = {
    "INSUFFICIENT_STORAGE": ("the device has no room left for the app", "free some space on the device"),
    "NO_MATCHING_ABIS": ("the app's ABI is wrong for this device", "build it for the device's processor"),
    "OLDER_SDK": ("this Android is too old for the app", "it needs Android 8 (API 26) or later"),
    "UPDATE_INCOMPATIBLE": (
        "an app of this name, signed with another key, is installed already",
        "adb uninstall {app} removes it with its data, or give another --application-id",
    ),
    "VERSION_DOWNGRADE": ("a newer version of the app is installed", "adb uninstall {app} removes it with its data"),
    "USER_RESTRICTED": ("the device asks before it installs, or forbids it", "allow it on the device: Install via USB"),
    "NO_CERTIFICATES": ("the app is not signed", "./gradlew assembleRelease signs it"),
}


@dataclass(frozen=True)
class InstalledApp:
    """An app that is on the device.

    Attributes:
        application_id: Its identity.
        is_new: Whether this run installed it, and it was not there before in any version.
    """

    application_id: str
    is_new: bool

    @property
    def component(self) -> str:
        """What `am instrument` starts."""
        return f"{self.application_id}/{INSTRUMENTATION}"


def check_app_choice(text: str) -> Apk | str:
    """What `--app` means: an APK or a project's folder on this machine, or the id of an installed app.

    Raises:
        DeviceError: It is neither.
    """
    path = Path(text)
    if path.exists() or "/" in text or text.endswith(".apk"):
        return read_apk(find_apk(path))
    if _ID.fullmatch(text) is None:
        raise DeviceError(f"--app {text}: no such file, and no application id", fix=f"--app app.apk; {_HOW}")
    return text


def ensure_app(
    client: AdbClient, description: Description, choice: Apk | str | None, progress: Callable[[str, str], None]
) -> InstalledApp:
    """The app to work with, installed where that is needed.

    Args:
        client: For the device.
        description: What the device is.
        choice: From `check_app_choice`; None takes the one that is installed.
        progress: Told of an installation.

    Raises:
        DeviceError: There is none, there are several, or it cannot be installed.
    """
    installed = _list_apps(client)
    if isinstance(choice, Apk):
        return _install(client, description, choice, installed, progress)
    if choice is not None:
        if choice not in installed:
            known = ", ".join(installed) or "none"
            raise DeviceError(
                f"the app {choice} is not installed", f"adb:{client.serial}", _HOW, why=f"edgex apps there: {known}"
            )
        return InstalledApp(choice, False)
    if not installed:
        raise DeviceError("the benchmark app is not installed on the device", f"adb:{client.serial}", _HOW)
    if len(installed) > 1:
        raise DeviceError(
            f"{len(installed)} apps that edgex wrote are installed", f"adb:{client.serial}",
            f"--app {installed[0]}", why="\n".join(installed),
        )  # fmt: skip
    return InstalledApp(installed[0], False)


def remove_app(client: AdbClient, app: InstalledApp) -> None:
    """Take back an app that this run installed."""
    client.run("uninstall", app.application_id)


def _list_apps(client: AdbClient) -> list[str]:
    done = client.shell("pm list instrumentation")
    if done.returncode != 0:
        raise explain(client, "list the apps on the device", done)
    line = rf"^instrumentation:([\w.]+)/{re.escape(INSTRUMENTATION)}\s"
    return sorted(set(re.findall(line, done.text, re.MULTILINE)))


def _install(
    client: AdbClient,
    description: Description,
    apk: Apk,
    installed: list[str],
    progress: Callable[[str, str], None],
) -> InstalledApp:
    where = f"adb:{client.serial}"
    if not set(apk.abis) & set(description.abis):
        raise DeviceError(
            f"the app's ABI is wrong for this device: {apk.path.name} is built for {', '.join(apk.abis)}", where,
            "build it for the device's processor", why=f"the device runs {', '.join(description.abis)}",
        )  # fmt: skip
    there = apk.application_id in installed
    if there and _is_same(client, apk):
        return InstalledApp(apk.application_id, False)
    progress("install", apk.path.name)
    done = client.run("install", *(("-r",) if there else ()), str(apk.path), timeout_seconds=None)
    if done.returncode != 0 or "Success" not in done.text:
        said = done.stderr + done.text
        for name, (what, fix) in _REFUSALS.items():
            if name in said:
                raise DeviceError(what, where, fix.format(app=apk.application_id), why=done.words)
        raise explain(client, "install the app", done)
    return InstalledApp(apk.application_id, not there)


def _is_same(client: AdbClient, apk: Apk) -> bool:
    """Whether the installed app is this very file."""
    name = shlex.quote(apk.application_id)
    done = client.shell(f'p=$(pm path {name} | head -n 1) && sha256sum "${{p#package:}}"')
    return done.returncode == 0 and done.text.split(" ", 1)[0] == apk.sha256
