"""`--llm` and what goes with it, for the commands that take language models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from edgex.cli.options.command import option

_llm_option = option(
    "--llm",
    is_flag=True,
    group="Language models",
    help="MODEL is a decoder, with or without an encoder: export its prefill and decode, with one cache.",
)
_context_option = option(
    "--context",
    type=int,
    metavar="N",
    group="Language models",
    help="How many tokens a text may have, the prompt included.",
)
_chunk_option = option(
    "--chunk",
    type=int,
    metavar="N",
    group="Language models",
    help="How many tokens one call of prefill takes at most; default: 256.",
)
_source_option = option(
    "--source",
    type=int,
    metavar="N",
    group="Language models",
    help="Of a model with an encoder of text: how many tokens it reads at most; default: --context.",
)
_head_option = option(
    "--head",
    type=click.Choice(["int8", "none"]),
    group="Language models",
    help="Weights of the layer that gives the scores, with --quantize; default: as the recipe's.",
)
_embedding_option = option(
    "--embedding",
    type=click.Choice(["int8", "none"]),
    group="Language models",
    help="The tables of embeddings, with --quantize; default: none.",
)
_kv_option = option(
    "--kv",
    type=click.Choice(["fp32", "int8"]),
    group="Language models",
    help="What the cache of a transformers model is kept in; default: fp32.",
)


def language_options(*, quantized: bool = True) -> Callable[[Any], Any]:
    """`--llm`, `--context`, `--chunk`, `--source` and `--kv`.

    Args:
        quantized: `--head` and `--embedding` too, for commands with `--quantize`.
    """
    alone = (_head_option, _embedding_option) if quantized else ()

    def declare(command: Any) -> Any:
        for declared in reversed((_llm_option, _context_option, _chunk_option, _source_option, *alone, _kv_option)):
            command = declared(command)
        return command

    return declare


model_method_option = option(
    "--method",
    metavar="NAME",
    group="Model",
    help="Which method of a model with several is meant, prefill or decode of a language model; default: all of them.",
)
