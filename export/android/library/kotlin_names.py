"""Names of Kotlin for tensors and models: `batch.mask` -> `batchMask`, `output_0` -> `output0`, `in` -> `` `in` ``."""

from __future__ import annotations

import re
from collections.abc import Collection

# Words that cannot be names without backticks.
_HARD_KEYWORDS = frozenset(
    (
        *("as", "break", "class", "continue", "do", "else", "false", "for", "fun", "if", "in", "interface", "is"),
        *("null", "object", "package", "return", "super", "this", "throw", "true", "try", "typealias", "typeof"),
        *("val", "var", "when", "while"),
    )
)

# Classes of the library that a model's class must not be called like.
_TAKEN_CLASSES = frozenset({"EdgeModel"})


def make_class_name(name: str) -> str:
    """The class of a model: `keyword_spotter` -> `KeywordSpotterModel`."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    stem = "".join(word[:1].upper() + word[1:] for word in words)
    if not stem or not stem[0].isalpha():
        stem = f"Net{stem}"
    made = stem if stem.endswith("Model") and stem != "Model" else f"{stem}Model"
    return f"Own{made}" if made in _TAKEN_CLASSES else made


def make_folder_name(name: str) -> str:
    """The folder of a model in the assets: lower-case letters, digits and `_`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "model"


def make_names(names: Collection[str], taken: Collection[str] = ()) -> list[str]:
    """A name in Kotlin for each, all different, and none of those that are taken."""
    made: list[str] = []
    for name in names:
        words = [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]
        plain = "".join([*words[:1], *(word[:1].upper() + word[1:] for word in words[1:])])
        plain = plain[:1].lower() + plain[1:] if plain[:1].isalpha() else f"tensor{plain}"
        unique, number = plain, 2
        while unique in made or unique in taken:
            unique, number = f"{plain}{number}", number + 1
        made.append(unique)
    return [f"`{name}`" if name in _HARD_KEYWORDS else name for name in made]
