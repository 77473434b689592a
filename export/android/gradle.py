"""`--build`: run Gradle in a generated project, when what it needs is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgex.errors import RunError, TargetUnavailable
from edgex.runtime.support.process.programs import run_program, start_program

_JAVA = 17
_SDK_VARIABLES = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
_SDK_PLACES = ("Android/Sdk", "Library/Android/sdk")
_LAST_LINES = 30


@dataclass(frozen=True)
class Build:
    """What Gradle is to make.

    Attributes:
        task: Gradle's name for it.
        output: Where it then lies in the project.
    """

    task: str
    output: str


DEBUG_APK = Build("assembleDebug", "app/build/outputs/apk/debug/app-debug.apk")
STORE_BUNDLE = Build("bundleRelease", "app/build/outputs/bundle/release/app-release.aab")


def find_missing(environment: Mapping[str, str], home: Path) -> list[tuple[str, str]]:
    """What a build lacks here, each with what to do about it; empty when it can start.

    Args:
        environment: Environment variables.
        home: The user's home folder, where Android Studio puts the SDK.
    """
    missing = []
    java = _java_version(environment)
    if java is None or java < _JAVA:
        found = "there is none" if java is None else f"this is {java}"
        missing.append((f"a JDK of version {_JAVA} or later ({found})", "install one, or set JAVA_HOME"))
    if find_sdk(environment, home) is None:
        named = [f"{name}={environment[name]} holds none" for name in _SDK_VARIABLES if environment.get(name)]
        what = f"the Android SDK ({', '.join(named)})" if named else "the Android SDK"
        missing.append((what, "install Android Studio or its command-line tools, and set ANDROID_HOME"))
    return missing


def find_sdk(environment: Mapping[str, str], home: Path) -> Path | None:
    """The Android SDK's folder, as Gradle looks for it, or where Android Studio puts it."""
    named = [Path(environment[name]) for name in _SDK_VARIABLES if environment.get(name)]
    # A folder that was named on purpose is not passed over for another.
    places = named or [home / place for place in _SDK_PLACES]
    return next((place for place in places if (place / "platforms").is_dir() or (place / "licenses").is_dir()), None)


def build_app(project: Path, environment: Mapping[str, str], home: Path, build: Build = DEBUG_APK) -> Path:
    """Build the app; Gradle's output goes to stderr as it comes.

    Returns:
        The APK or the bundle.

    Raises:
        TargetUnavailable: JDK or SDK are missing. The project is complete all the same.
        RunError: Gradle failed.
    """
    missing = find_missing(environment, home)
    if missing:
        raise TargetUnavailable(
            f"{project} is written, but cannot be built here: {' and '.join(what for what, _ in missing)} is missing",
            fix="; ".join(fix for _, fix in missing) + f"; then: cd {project} && ./gradlew {build.task}",
        )
    sdk = find_sdk(environment, home)
    command = ["sh", "./gradlew", build.task, "--console=plain"]
    process = start_program(
        command, cwd=project, env={**environment, "ANDROID_HOME": str(sdk)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    lines: list[str] = []
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            lines.append(line.rstrip())
            os.write(2, line.encode())
    if process.returncode != 0:
        why = "\n".join(lines[-_LAST_LINES:])
        raise RunError(f"Gradle failed, exit code {process.returncode}", str(project), why=why)
    made = project / build.output
    if not made.is_file():
        raise RunError(f"Gradle ended well, but there is no {build.output}", str(project))
    return made


def _java_version(environment: Mapping[str, str]) -> int | None:
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    if java is None:
        return None
    try:
        done = run_program([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else None
