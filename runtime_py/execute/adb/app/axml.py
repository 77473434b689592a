"""The `package` of a compiled AndroidManifest.xml: the one thing that must be known of an APK before it is installed.

```
u16 type  u16 header size  u32 size      every chunk; the file is one of type 0x0003
0x0001    string pool: counts, flags (bit 8: UTF-8), offsets, strings
0x0102    start of an element: namespace, name, attributes of 20 bytes: namespace, name, raw value, type, data
```
"""

from __future__ import annotations

import struct

_XML, _POOL, _START = 0x0003, 0x0001, 0x0102
_UTF8 = 1 << 8
_NOTHING = 0xFFFFFFFF


def read_package(data: bytes) -> str:
    """The application id.

    Raises:
        ValueError: The bytes are no compiled manifest.
    """
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"no compiled AndroidManifest.xml: {error}") from error


def _read(data: bytes) -> str:
    kind, at, end = struct.unpack_from("<HHI", data)
    if kind != _XML:
        raise ValueError("no compiled AndroidManifest.xml")
    strings: list[str] = []
    while at < min(end, len(data)):
        kind, header, size = struct.unpack_from("<HHI", data, at)
        if size < 8:
            raise ValueError("a chunk of the manifest has no size")
        if kind == _POOL:
            strings = _read_pool(data, at)
        elif kind == _START:
            return _find_package(data, at + header, strings)
        at += size
    raise ValueError("the manifest has no element")


def _find_package(data: bytes, at: int, strings: list[str]) -> str:
    first, width, count = struct.unpack_from("<HHH", data, at + 8)
    for number in range(count):
        name, raw = map(int, struct.unpack_from("<II", data, at + first + number * width + 4))
        if strings[name] == "package" and raw != _NOTHING:
            return strings[raw]
    raise ValueError("the manifest names no package")


def _read_pool(data: bytes, at: int) -> list[str]:
    header, count, flags, start = (
        struct.unpack_from("<H", data, at + 2)[0],
        *struct.unpack_from("<I4xII", data, at + 8),
    )
    offsets = struct.unpack_from(f"<{count}I", data, at + header)
    read = _read_utf8 if flags & _UTF8 else _read_utf16
    return [read(data, at + start + offset) for offset in offsets]


def _read_utf8(data: bytes, at: int) -> str:
    # Two lengths, of characters and of bytes; each takes a second byte where it is 128 or more.
    at += 2 if data[at] & 0x80 else 1
    length, at = (((data[at] & 0x7F) << 8 | data[at + 1]), at + 2) if data[at] & 0x80 else (data[at], at + 1)
    return data[at : at + length].decode()


def _read_utf16(data: bytes, at: int) -> str:
    (length,) = struct.unpack_from("<H", data, at)
    at += 2
    if length & 0x8000:
        length = (length & 0x7FFF) << 16 | struct.unpack_from("<H", data, at)[0]
        at += 2
    return data[at : at + 2 * length].decode("utf-16-le")
