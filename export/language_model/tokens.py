"""Which tokens begin and end a text, and whether the tokenizer that travels along is this model's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgex.errors import UsageError

_GENERATION_CONFIG, _TOKENIZER = "generation_config.json", "tokenizer.json"


@dataclass(frozen=True)
class Ends:
    """The tokens around a text.

    Attributes:
        bos: Begins one; None where it is not known.
        eos: End one; empty where they are not known.
        start: What a decoder behind an encoder begins with; empty where it is not known.
    """

    bos: int | None
    eos: tuple[int, ...]
    start: tuple[int, ...] = ()

    def check(self, vocabulary: int, where: str) -> None:
        """Refuse tokens that the model does not know.

        Raises:
            UsageError: One is outside the vocabulary.
        """
        for word, token in (
            *(("eos_token_id", token) for token in self.eos),
            *(("decoder_start_token_id", token) for token in self.start),
            ("bos_token_id", self.bos),
        ):
            if token is not None and not 0 <= token < vocabulary:
                raise UsageError(f"{word} is {token}, outside the vocabulary of {vocabulary}", where)


def read_ends(module: Any, card: Mapping[str, Any], files: Mapping[str, Path], where: str) -> Ends:
    """What the model says of itself: its card, then its generation config, then its config.

    Args:
        module: A model of transformers has both configs.
        card: `model_card` of the user's file: `bos_token_id`, `eos_token_id`, `decoder_start_token_id`.
        files: Those of the tokenizer.
        where: The model, for messages.

    Raises:
        UsageError: One is no token.
    """
    places = [card, _read_json(files, _GENERATION_CONFIG)]
    for name in ("generation_config", "config"):
        config: Any = getattr(module, name, None)
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        places += [vars(part) for part in (config, text) if hasattr(part, "__dict__")]

    def first(name: str) -> tuple[int, ...]:
        for place in places:
            value = place.get(name)
            if value is not None:
                tokens = tuple(value) if isinstance(value, (list, tuple)) else (value,)
                if not all(isinstance(token, int) and not isinstance(token, bool) for token in tokens):
                    raise UsageError(f"{name} is {value!r}", where, "make it a token's id, or a list of them")
                return tokens
        return ()

    return Ends(
        next(iter(first("bos_token_id")), None),
        tuple(dict.fromkeys(first("eos_token_id"))),
        first("decoder_start_token_id"),
    )


def check_tokenizer(files: Mapping[str, Path], vocabulary: int) -> None:
    """Refuse a tokenizer that gives ids which the model does not know.

    A model may know more: vocabularies are padded to a round number.

    Raises:
        UsageError: It is another model's.
    """
    found = _read_json(files, _TOKENIZER)
    model = found.get("model")
    words = model.get("vocab") if isinstance(model, Mapping) else None
    ids = [token for token in words.values() if isinstance(token, int)] if isinstance(words, Mapping) else []
    ids += [len(words) - 1] if isinstance(words, list) and words else []
    ids += _added(found.get("added_tokens"))
    largest = max(ids, default=0)
    if largest >= vocabulary:
        raise UsageError(
            f"the tokenizer does not fit the model: it gives ids up to {largest}, the vocabulary has {vocabulary}",
            str(files[_TOKENIZER].name),
            "put the model's own tokenizer beside it, or take this one away",
        )


def _added(tokens: Any) -> Iterable[int]:
    entries = tokens if isinstance(tokens, list) else []
    return [entry["id"] for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get("id"), int)]


def _read_json(files: Mapping[str, Path], name: str) -> Mapping[str, Any]:
    """A file's content; empty where there is none.

    Raises:
        UsageError: It cannot be read.
    """
    if name not in files:
        return {}
    try:
        found = json.loads(files[name].read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read", str(files[name]), why=str(error)) from error
    return found if isinstance(found, Mapping) else {}
