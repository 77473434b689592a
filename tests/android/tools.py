"""What the Android checks are made with: packages from npm and PyPI, pinned by hash, and Debian's Android tools.

Nothing of it is kept in the repository or shipped: the jars are compiled against and run here, in `.android-check/`.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

KOTLIN = ("kotlin-compiler", "2.4.20", "c23dab400d7ce5ea8b6c909947c0ca5454189e4bb1108695b5f464500e5e950f")
API = ("@nativescript/types-android", "9.1.1", "16193ea9c70286d5b0d3e2dc559abb483ad61fb599219c59d1a4146fe370b25a")
# ExecuTorch's Java classes, of level 1.3, and libraries in their place in an APK: to compile and assemble, not to run.
EXECUTORCH = (
    "react-native-executorch", "0.9.3", "70a20a865b82f47ac46c82711d93c2038cf99eccbb9b287494219063f2217622",
)  # fmt: skip
# Only for bundletool, which holds the dexer too.
BUNDLETOOL = ("mobsf", "4.4.0", "74329efc7eee885ca6b9448726ca448c6f5c7ca80ec3dc9a98ee11fb7cd7c0d4")
# ONNX Runtime 1.17's Java classes and its native library for Linux, which a search engine's jar brings along.
ONNXRUNTIME = ("pyserini", "1.0.0", "5388fac0a7c15122b6c7351df9a7c9648397f03e0ec0f131b74d9650ce00e840")
ONNXRUNTIME_JAR = "pyserini-1.0.0/pyserini/resources/jars/anserini-1.0.0-fatjar.jar"
BUNDLETOOL_JAR = "mobsf/StaticAnalyzer/tools/bundletool-all-1.17.2.jar"

DEBIAN = {
    "java": "openjdk-17-jdk-headless", "javac": "openjdk-17-jdk-headless", "keytool": "openjdk-17-jre-headless",
    "jarsigner": "openjdk-17-jdk-headless", "npm": "npm", "aapt2": "aapt", "zipalign": "zipalign",
    "apksigner": "apksigner",
}  # fmt: skip
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
# Android's own org.json, written anew under a free licence.
JSON = Path("/usr/share/java/json-android.jar")
JUNIT = (Path("/usr/share/java/junit4.jar"), Path("/usr/share/java/hamcrest.jar"))


@dataclass(frozen=True)
class Tools:
    """Paths of everything."""

    kotlin: Path
    api: Path
    executorch: Path
    bundletool: Path
    onnxruntime: Path


def missing_packages():
    """Debian packages that are not installed."""
    missing = {package for tool, package in DEBIAN.items() if shutil.which(tool) is None}
    missing |= set() if FRAMEWORK.is_file() else {"android-framework-res"}
    missing |= set() if JSON.is_file() else {"libandroid-json-org-java"}
    return sorted(missing | (set() if all(path.is_file() for path in JUNIT) else {"junit4"}))


def fetch_tools(folder):
    """Download what is not there yet, about 430 MB once, and unpack it; refuses another hash."""
    folder.mkdir(parents=True, exist_ok=True)
    kotlin, api, executorch = (_npm(folder, *package) for package in (KOTLIN, API, EXECUTORCH))
    wheel = _pip(folder, *BUNDLETOOL, "py3-none-any.whl")
    jar = folder / Path(BUNDLETOOL_JAR).name
    if not jar.is_file():
        with zipfile.ZipFile(wheel) as archive:
            jar.write_bytes(archive.read(BUNDLETOOL_JAR))
    return Tools(kotlin / "lib", api / "lib" / "android", executorch, jar, _unpack_onnxruntime(folder))


def _unpack_onnxruntime(folder):
    """A folder of classes."""
    unpacked = folder / "onnxruntime-1.17"
    if not unpacked.is_dir():
        source = _pip(folder, *ONNXRUNTIME, "tar.gz")
        with tarfile.open(source) as packed, zipfile.ZipFile(packed.extractfile(ONNXRUNTIME_JAR)) as jar:
            part = unpacked.with_suffix(".part")
            names = [name for name in jar.namelist() if name.startswith("ai/onnxruntime/")]
            jar.extractall(part, [name for name in names if "/native/" not in name or "/linux-x64/" in name])
        part.rename(unpacked)
    return unpacked


def _pip(folder, name, version, digest, ending):
    """A wheel, or the source where the ending is that of one."""
    path = folder / f"{name}-{version}{'-' if ending.endswith('.whl') else '.'}{ending}"
    if not path.is_file():
        kind = "--only-binary" if ending.endswith(".whl") else "--no-binary"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python"]
        subprocess.run([*command, kind, name, "--dest", str(folder), f"{name}=={version}"], check=True)
    _check(path, digest)
    return path


def _npm(folder, name, version, digest):
    stem = name.strip("@").replace("/", "-") + f"-{version}"
    archive, unpacked = folder / f"{stem}.tgz", folder / stem
    if not archive.is_file():
        subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, check=True, stdout=sys.stderr)
    _check(archive, digest)
    if not unpacked.is_dir():
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked.with_suffix(".part"), filter="data")
        unpacked.with_suffix(".part").rename(unpacked)
    return unpacked / "package"


def _check(path, digest):
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != digest:
        sys.exit(f"{path} has the SHA-256 {found}, expected {digest}: nothing of it was used")
