"""The tokenizer of most decoders, byte-level byte pairs, as the library reads it: from `tokenizer.json`.

Expressions that cut a text into words are rewritten so that every engine of expressions reads them alike: what counts
as a space, and letters without regard to case, differ between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgex.export.android.library.text import Unlike, read_frame

VOCABULARY_FILE, MERGES_FILE = "vocabulary.txt", "merges.txt"

# The alphabet of bytes: a byte that can be printed is itself, the others are the letters from 256 on.
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_LETTERS = frozenset(map(chr, (*_PRINTABLE, *range(256, 512 - len(_PRINTABLE)))))

# How a byte-level pre-tokenizer cuts by itself (GPT-2).
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SPACES = r"\t-\r\x85\p{Z}"
_CASELESS = (
    ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?:'[sSſ]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"),
    ("(?i:[sdmt]|ll|ve|re)", "(?:[sSſdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])"),
)
# What stands behind a backslash and means the same to all.
_KNOWN = frozenset("pPrnt.*+?()[]{}|^$/\\-'\"")


def describe_byte_pairs(
    tokenizer: Mapping[str, Any],
) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...], list[int]]:
    """What the library needs of it.

    Returns:
        The manifest's entry; the tokens by their ids; merges, the first one first; ids that a text begins with.

    Raises:
        Unlike: The library does not have such a tokenizer; the message says in what it differs.
    """
    model = tokenizer["model"]
    if model.get("type") != "BPE":
        raise Unlike(f"the tokenizer is {model.get('type')}, and the app has byte-level BPE alone")
    begins, ends = _read_around(tokenizer.get("post_processor"))
    if ends:
        raise Unlike("the tokenizer puts ids behind a text")
    odd = [
        name
        for name in ("dropout", "byte_fallback", "continuing_subword_prefix", "end_of_word_suffix")
        if model.get(name)
    ]
    if odd:
        raise Unlike(f"the tokenizer has {odd[0]}, which the app does not have")
    vocabulary = {str(token): int(number) for token, number in model["vocab"].items()}
    splits, leading = _read_splits(tokenizer.get("pre_tokenizer"))
    if not vocabulary.keys() >= _LETTERS or _type_of(tokenizer.get("decoder")) != "ByteLevel":
        raise Unlike("the tokenizer is BPE of characters, and the app has that of bytes alone")
    normalizer = _type_of(tokenizer.get("normalizer"))
    if normalizer not in (None, "NFC"):
        raise Unlike(f"the tokenizer prepares text by {normalizer}")
    by_id = {number: token for token, number in vocabulary.items()}
    tokens = tuple(by_id.get(number, "") for number in range(max(by_id) + 1))
    merges = tuple(pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"])
    entry = {
        "vocabulary": VOCABULARY_FILE,
        "merges": MERGES_FILE,
        "splits": splits,
        "composes": normalizer == "NFC",
        "leading_space": leading,
        "whole_words": bool(model.get("ignore_merges")),
        "added": [_read_added(token) for token in tokenizer.get("added_tokens") or ()],
    }
    return entry, tokens, merges, begins


def _read_added(token: Mapping[str, Any]) -> dict[str, Any]:
    if any(token.get(name) for name in ("single_word", "lstrip", "rstrip")):
        raise Unlike(f"the tokenizer takes spaces around {token['content']!r}")
    return {"token": str(token["content"]), "id": int(token["id"]), "special": bool(token.get("special"))}


def _read_around(processor: Mapping[str, Any] | None) -> tuple[list[int], list[int]]:
    """Ids before and behind a text; the byte-level step is about places in the text alone."""
    if processor is None or processor["type"] == "ByteLevel":
        return [], []
    if processor["type"] == "Sequence":
        around = [_read_around(step) for step in processor["processors"]]
        return [i for begins, _ in around for i in begins], [i for _, ends in around for i in ends]
    return read_frame(processor)


def _read_splits(step: Mapping[str, Any] | None) -> tuple[list[str], bool]:
    """Expressions whose matches are words of their own, one after the other; whether a space is put before a text."""
    splits: list[str] = []
    leading = False
    for each in _steps(step):
        kind = each["type"]
        if kind == "ByteLevel":
            if each.get("add_prefix_space"):
                if splits:
                    raise Unlike("the tokenizer puts a space before each word")
                leading = True
            splits += [_translate(_GPT2)] if each.get("use_regex", True) else []
        elif kind == "Digits":
            splits.append(r"\p{N}" if each.get("individual_digits") else r"\p{N}+")
        elif (
            kind == "Split" and each["behavior"] == "Isolated" and not each.get("invert") and "Regex" in each["pattern"]
        ):
            splits.append(_translate(each["pattern"]["Regex"]))
        else:
            raise Unlike(f"the tokenizer cuts words by {kind} in a way that the app does not have")
    return splits, leading


def _steps(step: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if step is None:
        return
    if step["type"] == "Sequence":
        for each in step["pretokenizers"]:
            yield from _steps(each)
    else:
        yield step


def _type_of(step: Mapping[str, Any] | None) -> str | None:
    """The kind of a step; of a sequence of one, that one's."""
    if step is None:
        return None
    inner = next((step[name] for name in ("normalizers", "decoders") if name in step), None)
    if inner is not None:
        return _type_of(inner[0]) if len(inner) == 1 else None if not inner else "Sequence"
    kind: str = step["type"]
    return kind


def _translate(pattern: str) -> str:
    r"""The expression with spaces spelled out: `\s+` becomes `[\t-\r\x85\p{Z}]+`.

    Raises:
        Unlike: It holds something that expressions of Java and Rust read differently.
    """
    for caseless, spelled in _CASELESS:
        pattern = pattern.replace(caseless, spelled)
    made, at, depth = [], 0, 0
    while at < len(pattern):
        sign = pattern[at]
        at += 1
        if sign == "\\":
            letter = pattern[at]
            at += 1
            if letter == "s":
                made.append(_SPACES if depth else f"[{_SPACES}]")
            elif letter == "S" and not depth:
                made.append(f"[^{_SPACES}]")
            elif letter in _KNOWN:
                made.append(sign + letter)
            else:
                raise Unlike(f"the tokenizer's expression holds \\{letter}")
            continue
        depth += (sign == "[") - (sign == "]")
        made.append(sign)
    found = "".join(made)
    if depth or "(?i" in found or "&&" in found or "[[" in found:
        raise Unlike("the tokenizer's expression is none that the app reads as it is meant")
    return found
