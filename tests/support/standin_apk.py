"""An APK as far as edgex reads it: its compiled manifest and the names in it."""

import json
import struct
import zipfile

from standin_app import APP

MANIFEST = "assets/edgex/net/manifest.json"


def compiled_manifest(package, *, utf8=True, attributes=("versionCode", "package")):
    """A compiled AndroidManifest.xml as aapt2 lays it out: strings, then one element with attributes."""
    strings = ["manifest", *attributes, package]
    if utf8:
        data = [struct.pack("BB", len(s), len(s)) + s.encode() + b"\0" for s in strings]
    else:
        data = [struct.pack("<H", len(s)) + s.encode("utf-16-le") + b"\0\0" for s in strings]
    offsets = [sum(map(len, data[:at])) for at in range(len(data))]
    content = b"".join(data)
    content += b"\0" * (-len(content) % 4)
    start = 28 + 4 * len(strings)
    pool = struct.pack("<HHI5I", 1, 28, start + len(content), len(strings), 0, 256 if utf8 else 0, start, 0)
    pool += struct.pack(f"<{len(strings)}I", *offsets) + content
    rows = [struct.pack("<IIIHBBI", 0xFFFFFFFF, 1 + at, len(strings) - 1, 8, 0, 3, 0) for at in range(len(attributes))]
    body = struct.pack("<II6H", 0xFFFFFFFF, 0, 20, 20, len(rows), 0, 0, 0) + b"".join(rows)
    element = struct.pack("<HHIII", 0x0102, 16, 16 + len(body), 1, 0xFFFFFFFF) + body
    return struct.pack("<HHI", 3, 8, 8 + len(pool) + len(element)) + pool + element


def write_apk(path, *, abis=("arm64-v8a",), executorch="1.5.1", package=APP, leave_out=()):
    path.parent.mkdir(parents=True, exist_ok=True)
    manifest = {"format": "edgex.android-model/1", "versions": {"aar": executorch}}
    content = {"AndroidManifest.xml": compiled_manifest(package), MANIFEST: json.dumps(manifest)}
    content |= {f"lib/{abi}/libexecutorch.so": b"\x7fELF" for abi in abis}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            if name not in leave_out:
                archive.writestr(name, data)
    return path
