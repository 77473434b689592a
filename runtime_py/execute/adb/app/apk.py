"""An APK on this machine: which app it is, for which processors, with which ExecuTorch."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from edgex.errors import DeviceError
from edgex.runtime.artifact.artifact import hash_file
from edgex.runtime.execute.adb.app.axml import read_package

_MANIFEST = re.compile(r"assets/edgex/[^/]+/manifest\.json")
FORMAT = "edgex.android-model/1"
_LIBRARY = "libexecutorch.so"
_BUILD = "./gradlew assembleRelease"


@dataclass(frozen=True)
class Apk:
    """An app that `edgex android` wrote, built.

    Attributes:
        path: The file.
        application_id: Its identity.
        abis: What its native library is built for.
        executorch: Version of ExecuTorch in it.
    """

    path: Path
    application_id: str
    abis: tuple[str, ...]
    executorch: str

    @property
    def sha256(self) -> str:
        """SHA-256 of the file."""
        return hash_file(self.path)


def find_apk(path: Path) -> Path:
    """The APK that a path means: itself, or that of a project which `edgex android` wrote; release before debug.

    Raises:
        DeviceError: There is none.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise DeviceError(f"no app at {path}", fix="edgex android ARTIFACT -o app writes one")
    for variant in ("release", "debug"):
        built = sorted((path / "app" / "build" / "outputs" / "apk" / variant).glob("*.apk"))
        if built:
            return built[0]
    raise DeviceError(f"the app in {path} is not built yet", fix=f"cd {path} && {_BUILD}")


def read_apk(path: Path) -> Apk:
    """Read what an APK says of itself.

    Raises:
        DeviceError: It is no APK, or not one of `edgex android`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            manifests = sorted(name for name in names if _MANIFEST.fullmatch(name))
            if not manifests:
                raise DeviceError(
                    f"{path.name} is not an app that edgex wrote", why="it lacks assets/edgex/NAME/manifest.json",
                    fix="edgex android ARTIFACT -o app",
                )  # fmt: skip
            application_id = read_package(archive.read("AndroidManifest.xml"))
            manifest = json.loads(archive.read(manifests[0]))
            if manifest.get("format") != FORMAT:
                raise ValueError(f"format {manifest.get('format')!r} instead of {FORMAT!r}")
            executorch = str(manifest["versions"]["aar"])
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, AttributeError, ValueError) as error:
        raise DeviceError(
            f"{path.name} cannot be read as an app", fix=f"build it again: {_BUILD}", why=str(error)
        ) from error
    libraries = [name.split("/") for name in names if name.startswith("lib/")]
    abis = tuple(sorted({parts[1] for parts in libraries if parts[-1] == _LIBRARY}))
    if not abis:
        raise DeviceError(f"{path.name} holds no {_LIBRARY}", fix=f"build it with its dependencies: {_BUILD}")
    return Apk(path, application_id, abis, executorch)
