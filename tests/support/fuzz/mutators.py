"""Changes to documents and bytes, as an attacker or a bad disk makes them; all drawn from one `random.Random`."""

from __future__ import annotations

import copy
import json
import random
import tempfile
from pathlib import Path
from typing import Any

# A file of this name appears where any of the texts below was evaluated.
MARKER = Path(tempfile.gettempdir(), "edgex-fuzz-marker")
CODE = f"__import__('pathlib').Path({str(MARKER)!r}).touch()"

TEXTS = (
    *("", " ", ".", "..", "/", "../x", "/etc/passwd", "C:\\x", "a\\b", "a/../../b", "-rf", "~", "nul", "x" * 3000),
    *(
        "\n",
        "a\nb",
        "\x00",
        "a\x00b",
        "\x1b[31m",
        "\x1b]0;x\x07",
        "\x7f",
        "\x9b31m",
        "\ud800",
        "\u202e",
        "\ufeff",
        "\u2028",
    ),
    *("NaN", "Infinity", "-1", "1e999", "0x10", "None", "true", "\u0661", "\U0001f600", "%s%n", "{0}", "$(id)", "`id`"),
    *(
        CODE,
        f"x={CODE}",
        f"Max(Integer(1), {CODE})",
        f"L['x'][{CODE}] == 1",
        f'a" + str({CODE}) + "',
        "torch.os.system",
    ),
    *("torch", "onnxruntime", "executorch", "reference", "float16", "complex64", "golden/index.json", "manifest.json"),
    *("9**9**9", "s0//0", "(" * 300, "lambda: 0", "torch.ops.aten.from_file.default", "__class__", "forward"),
)
NUMBERS = (
    *(0, 1, -1, 2, 7, 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**63 - 1, 2**63, 2**64, 10**18, -(2**63), 10**40),
    *(0.0, -0.0, 0.5, -1.5, 1e-320, 1e300, -1e300, 1e308, 1e12),
)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"": None}, [None], {"name": "x"}, [0] * 50)
# What no JSON writer writes, put into the text of a document.
RAW = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "01",
    "'x'",
    '"\\ud800"',
    '"\\u0000"',
    "[" * 2000,
    '{"a":' * 500,
    "1" * 5000,
)
RAW_BYTES = (b"\xff", b"\x00", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"{", b"]", b'"', b"," * 9)


def mutate_json(rng: random.Random, document: Any) -> bytes:
    """A document with one to three changes, as bytes."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = _change_somewhere(rng, document)
    text = json.dumps(document, ensure_ascii=rng.random() < 0.8)
    content = text.encode("utf-8", "surrogatepass")
    kind = rng.random()
    if kind < 0.04:
        places = [at for at, letter in enumerate(text) if letter in ":,["]
        at = rng.choice(places) + 1 if places else 0
        content = (text[:at] + rng.choice(RAW) + text[at:]).encode("utf-8", "surrogatepass")
    elif kind < 0.07:
        content = mutate_bytes(rng, content)
    elif kind < 0.08 and isinstance(document, dict) and document:
        key = rng.choice(list(document))
        content = content[:-1] + f", {json.dumps(key)}: 1}}".encode()
    return content


def _change_somewhere(rng: random.Random, document: Any) -> Any:
    places = list(_places(document))
    if not places:
        return _value(rng)
    holder, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.62:
        holder[key] = _near(rng, holder[key]) if rng.random() < 0.4 else _value(rng)
    elif kind < 0.74:
        del holder[key]
    elif kind < 0.82:
        other, name = rng.choice(places)
        try:
            holder[key] = copy.deepcopy(other[name])
        except (KeyError, IndexError):
            holder[key] = None
    elif kind < 0.9 and isinstance(holder, dict):
        holder[rng.choice(TEXTS)] = holder.pop(key)
    elif isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
    else:
        holder[rng.choice(TEXTS)] = _value(rng)
    return document


def _places(value: Any) -> Any:
    """All (holder, key) of a document, keys of objects and indices of lists."""
    stack = [value]
    while stack:
        holder = stack.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            yield holder, key
            stack.append(holder[key])


def _value(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(rng.choice((TEXTS, NUMBERS, OTHERS))))


def _near(rng: random.Random, value: Any) -> Any:
    """A value of the same type, or the same thing as another type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, -value, value * 2**32, float(value), str(value)))
    if isinstance(value, float):
        return rng.choice((-value, value * 1e300, 0.0, int(value), str(value)))
    if isinstance(value, str):
        return rng.choice((value + rng.choice(TEXTS), value[::-1], value.upper(), [value], value[:1]))
    if isinstance(value, list):
        return rng.choice((value[::-1], value * 2, value[:-1], dict.fromkeys(map(str, range(len(value))))))
    return [value]


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """Bytes with one to eight changes: bits, words, pieces left out, doubled or put elsewhere."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        if not data:
            return bytes(data)
        at, kind = rng.randrange(len(data)), rng.random()
        length = min(len(data) - at, rng.choice((1, 4, 8, 64)))
        if kind < 0.3:
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 0.5:
            data[at : at + 4] = rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)).to_bytes(4, "little")
        elif kind < 0.6:
            data[at : at + 8] = rng.choice((0, 2**62, 2**63, 2**64 - 1)).to_bytes(8, "little")
        elif kind < 0.7:
            del data[at : at + length]
        elif kind < 0.8:
            data[at:at] = data[at : at + length]
        elif kind < 0.9:
            data[at:at] = rng.choice(RAW_BYTES)
        else:
            del data[at:]
    return bytes(data)
