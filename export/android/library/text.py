"""How text becomes the inputs of a model: WordPiece, the tokenizer of BERT and its kin, by `tokenizer.json`.

The library has this one tokenizer, in 120 lines of Kotlin. Text for others is made into ids by the app around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import TensorSpec
from edgex.runtime.generation.tokenizer import FILE, has_file, read_processor_json

# Beside the manifest: a token a line, the first with the id 0.
VOCABULARY_FILE = "vocabulary.txt"
# What libraries call the inputs of such models.
_NAMES = ("input_ids", "attention_mask", "token_type_ids")


class Unlike(Exception):
    """The tokenizer or the model is not of the kind that the library knows; the message says in what."""


def find_text(artifact: Artifact) -> tuple[dict[str, Any] | None, tuple[str, ...], tuple[str, ...]]:
    """The `text` entry of the app's manifest.

    Returns:
        The entry, the tokens by their ids, and a notice where there is a tokenizer that the app cannot have.

    Raises:
        ArtifactError: `tokenizer.json` cannot be read.
    """
    if not has_file(artifact, FILE):
        return None, (), ()
    tokenizer = read_processor_json(artifact, FILE)
    try:
        tokens = _read_vocabulary(tokenizer)
        entry = {**_find_places(artifact.manifest.method.inputs), **_describe(tokenizer)}
    except Unlike as unlike:
        return None, (), (f"the app takes ids, not text: {unlike}",)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(f"{FILE} is no tokenizer", artifact.path.name, why=repr(error)) from error
    return entry, tokens, ()


def _read_vocabulary(tokenizer: Mapping[str, Any]) -> tuple[str, ...]:
    model = tokenizer["model"]
    if model.get("type") != "WordPiece":
        raise Unlike(f"the tokenizer is {model.get('type')}, and the app has WordPiece alone")
    by_id = {int(number): str(token) for token, number in model["vocab"].items()}
    if sorted(by_id) != list(range(len(by_id))) or any(len(token.splitlines()) != 1 for token in by_id.values()):
        raise Unlike("the vocabulary has gaps, or tokens of several lines")
    return tuple(by_id[number] for number in range(len(by_id)))


def _describe(tokenizer: Mapping[str, Any]) -> dict[str, Any]:
    model, normalizer = tokenizer["model"], tokenizer.get("normalizer") or {}
    kinds = (normalizer.get("type"), (tokenizer.get("pre_tokenizer") or {}).get("type"))
    if kinds != ("BertNormalizer", "BertPreTokenizer"):
        raise Unlike(f"the tokenizer prepares text by {kinds[0]} and {kinds[1]}, and the app as BERT does alone")
    lowercase, accents = bool(normalizer["lowercase"]), normalizer.get("strip_accents")
    opens, closes = read_frame(tokenizer.get("post_processor"))
    padding = tokenizer.get("padding") or {}
    return {
        "vocabulary": VOCABULARY_FILE,
        "unknown": model["unk_token"],
        "prefix": model["continuing_subword_prefix"],
        "longest_word": model["max_input_chars_per_word"],
        "cleans": bool(normalizer["clean_text"]),
        "separates_chinese": bool(normalizer["handle_chinese_chars"]),
        "strips_accents": lowercase if accents is None else bool(accents),
        "lowercases": lowercase,
        "opens": opens,
        "closes": closes,
        "padding": int(padding.get("pad_id", model["vocab"].get("[PAD]", 0))),
    }


def read_frame(processor: Mapping[str, Any] | None) -> tuple[list[int], list[int]]:
    """Ids before and behind one text, as `post_processor` of `tokenizer.json` says.

    Raises:
        Unlike: By a step that is not known.
    """
    if processor is None:
        return [], []
    if processor["type"] == "BertProcessing":
        return [int(processor["cls"][1])], [int(processor["sep"][1])]
    if processor["type"] != "TemplateProcessing":
        raise Unlike(f"the tokenizer puts ids around a text by {processor['type']}")
    around: tuple[list[int], list[int]] = ([], [])
    behind = 0
    for piece in processor["single"]:
        if "Sequence" in piece:
            behind = 1
        else:
            around[behind].extend(map(int, processor["special_tokens"][piece["SpecialToken"]["id"]]["ids"]))
    return around


def _find_places(inputs: Sequence[TensorSpec]) -> dict[str, int | None]:
    """Places of ids, mask and types among the inputs."""
    places: dict[str, int | None] = dict.fromkeys(_NAMES)
    for at, spec in enumerate(inputs):
        if spec.name not in places or not spec.dtype.startswith("int") or len(spec.shape) != 2:
            raise Unlike(f"{spec} is none of {', '.join(_NAMES)}, whole numbers of two dimensions")
        places[spec.name] = at
    if places["input_ids"] is None or len({spec.shape for spec in inputs}) != 1:
        raise Unlike("the inputs are not input_ids and others of its shape")
    first = inputs[0].shape[0]
    if (first if isinstance(first, int) else first.min) != 1:
        raise Unlike("the model takes several texts at once")
    ids, mask, types = (places[name] for name in _NAMES)
    return {"ids": ids, "mask": mask, "types": types}
