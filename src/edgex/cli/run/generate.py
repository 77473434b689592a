"""`edgex generate`: text, or ids, from the artifact of a language model, as it comes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import (
    Finite,
    artifact_argument,
    check_option,
    common_options,
    no_tuned_option,
    threads_option,
)
from edgex.cli.run.generation import ShownText, begin_text, describe_text, refuse_place, summarize_text
from edgex.cli.run.place import device_flags, read_place
from edgex.cli.run.source import read_source
from edgex.cli.supervisor import supervise
from edgex.errors import ArtifactError, TargetUnavailable, UsageError

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel
    from edgex.runtime.generation.limits import Limits
    from edgex.runtime.generation.prompts import PromptReader
    from edgex.runtime.generation.sampling import Sampling
    from edgex.runtime.generation.settings import GenerationSettings

_GROUP = "Generation"


@make_command("generate")
@artifact_argument
@option("--prompt", metavar="TEXT", group=_GROUP, help="What the text begins with; - reads it from stdin.")
@option("--ids", metavar="ID,ID", group=_GROUP, help="What it begins with, as ids: needs no tokenizer.")
@option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE",
    group=_GROUP,
    help="What the encoder reads, as edgex run takes it; the prompt is then what the text begins with.",
)
@option("--chat", is_flag=True, group=_GROUP, help="Put --prompt into the model's chat template, as a user's message.")
@option("--system", metavar="TEXT", group=_GROUP, help="With --chat: the message of the system before it.")
@option(
    "--max-new",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    metavar="N",
    group=_GROUP,
    help="The most tokens to generate.",
)
@option(
    "--temperature",
    type=Finite(min=0),
    metavar="T",
    group=_GROUP,
    help="0 takes the likeliest token, more draws one; default: the model's own setting, else 0.",
)
@option(
    "--top-k", type=click.IntRange(min=0), metavar="K", group=_GROUP, help="Draw from the K likeliest; 0: from all."
)
@option(
    "--top-p",
    type=Finite(min=0, max=1, min_open=True),
    metavar="P",
    group=_GROUP,
    help="Draw from the fewest that hold this share of the probability.",
)
@option("--seed", type=click.IntRange(min=0), metavar="N", group=_GROUP, help="Draw the same again.")
@option("--stop", multiple=True, metavar="TEXT", group=_GROUP, help="End before this text; repeatable.")
@option("--ignore-eos", is_flag=True, group=_GROUP, help="Go on behind ids that end a text.")
@option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="FILE",
    group=_GROUP,
    help="A tokenizer.json in place of the artifact's own.",
)
@threads_option("Threads of a run; default: what a sweep found, or the engine's own.")
@no_tuned_option
@check_option
@device_flags
@common_options()
def command(
    artifact: str,
    prompt: str | None,
    ids: str | None,
    inputs: tuple[str, ...],
    chat: bool,
    system: str | None,
    max_new: int,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    stop: tuple[str, ...],
    ignore_eos: bool,
    tokenizer: Path | None,
    threads: int | None,
    no_tuned: bool,
    check: CheckLevel,
    device: str | None,
    timeout: float | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Generate text with ARTIFACT, of a language model, and show it as it comes.

    Interrupted, it keeps the text so far.
    """
    given = _check_flags(prompt, ids, inputs, chat=chat, system=system, stop=stop)
    place = read_place(device, {})
    if place.address is not None and place.address.kind == "adb":
        refuse_place(place)

    def body() -> int:
        from edgex.runtime.artifact.artifact import open_artifact
        from edgex.runtime.execute.request import TextRequest
        from edgex.runtime.generation.limits import read_limits
        from edgex.runtime.generation.prompts import PromptReader
        from edgex.runtime.generation.settings import read_generation_settings
        from edgex.runtime.support.printable import escape_control

        # All that can be refused is refused before the engine loads the model.
        opened = open_artifact(artifact, check)
        limits, settings = read_limits(opened), read_generation_settings(opened)
        reader = PromptReader(opened, limits.vocabulary, tokenizer)
        found = None if given is None else _read_prompt(given, reader, chat=chat, system=system)
        source, begin = read_source(opened, limits, inputs, found)
        tokens = limits.check_ids(begin)
        if not tokens:
            raise UsageError("the prompt is empty", fix="give --prompt some text, or --ids at least one id")
        has_text = _can_write(reader, opened.path.name, needed=prompt is not None, stop=bool(stop))
        sampling = _choose_sampling(settings, temperature, top_k, top_p, seed).check()
        if not quiet:
            _print_notes(settings, limits, sampling, max_new, len(tokens), flags={"--top-k": top_k, "--top-p": top_p})
        request = TextRequest(tuple(tokens), max_new, sampling, ignore_eos, threads, source)
        with begin_text(place, opened, request, tuned=not no_tuned, quiet=quiet) as run:
            text = ShownText(run, tokens, stop, reader.need_tokenizer() if has_text else None)
            ended = False
            try:
                for piece in text.pieces():
                    if not as_json:
                        click.echo(escape_control(piece), nl=False)
                        sys.stdout.flush()
                ended = True
            finally:
                document = describe_text(opened, request, run, text, interrupted=not ended)
                if as_json and (ended or isinstance(sys.exc_info()[1], KeyboardInterrupt)):
                    print_json(document)
                elif not as_json and text.ids:
                    click.echo()
        if not quiet and not as_json:
            click.echo(summarize_text(document), err=True)
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def _check_flags(
    prompt: str | None,
    ids: str | None,
    inputs: tuple[str, ...],
    *,
    chat: bool,
    system: str | None,
    stop: tuple[str, ...],
) -> str | list[int] | None:
    """What the text begins with: `--prompt` as it is, or `--ids` as numbers; None leaves it to a model with an encoder.

    Raises:
        UsageError: Neither or both are given, or a flag goes without another.
    """
    if (prompt is None) == (ids is None) and not (inputs and prompt is None):
        what = "edgex generate needs --prompt or --ids" if prompt is None else "--prompt and --ids exclude each other"
        raise UsageError(what, fix='--prompt "Once upon a time", or --ids 1,2,3')
    if chat and prompt is None:
        raise UsageError("--chat puts a text into the template, and --ids gives none", fix="--chat --prompt TEXT")
    if system is not None and not chat:
        raise UsageError("--system is a message of a conversation", fix="add --chat")
    if not all(stop):
        raise UsageError("--stop: the text is empty", fix="leave it out")
    if ids is None:
        return prompt
    try:
        return [int(part) for part in ids.replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"--ids {ids}: ids are whole numbers", fix="--ids 1,2,3") from None


def _read_prompt(given: str | list[int], reader: PromptReader, *, chat: bool, system: str | None) -> list[int]:
    """The prompt as ids, not yet checked.

    Raises:
        UsageError: It is empty.
    """
    if isinstance(given, list):
        return given
    text = sys.stdin.read() if given == "-" else given
    if not text:
        raise UsageError("the prompt is empty", fix="give --prompt some text, or --ids at least one id")
    if not chat:
        return reader.encode(text)
    messages = [] if system is None else [{"role": "system", "content": system}]
    return reader.encode([*messages, {"role": "user", "content": text}])


def _can_write(reader: PromptReader, artifact: str, *, needed: bool, stop: bool) -> bool:
    """Whether ids can be shown as text.

    Args:
        reader: Has the tokenizer.
        artifact: Its name, for messages.
        needed: The prompt is a text.
        stop: A text ends the answer.

    Raises:
        EdgexError: They must be, and cannot.
    """
    if needed:
        reader.need_tokenizer()
    elif stop and reader.tokenizer is None:
        fix = "leave --stop out, or give the tokenizer's file (--tokenizer)"
        raise ArtifactError("--stop is a text, and the artifact carries no tokenizer.json", artifact, fix)
    try:
        return reader.tokenizer is not None
    except TargetUnavailable as error:
        click.echo(f"note: ids only: {error.what}; {error.fix}", err=True)
        return False


def _choose_sampling(
    settings: GenerationSettings, temperature: float | None, top_k: int | None, top_p: float | None, seed: int | None
) -> Sampling:
    """The model's own settings, but for what the flags say."""
    own = settings.sampling
    return replace(
        own,
        temperature=own.temperature if temperature is None else temperature,
        top_k=own.top_k if top_k is None else top_k,
        top_p=own.top_p if top_p is None else top_p,
        seed=seed,
    )


def _print_notes(
    settings: GenerationSettings,
    limits: Limits,
    sampling: Sampling,
    max_new: int,
    length: int,
    flags: dict[str, float | None],
) -> None:
    """What is otherwise than one may think, on stderr."""
    notes = []
    if settings.ignored:
        notes.append(f"the model's generation settings have what edgex has not: {', '.join(settings.ignored)}")
    idle = [flag for flag, value in flags.items() if value is not None]
    if idle and sampling.temperature == 0:
        notes.append(f"{' and '.join(idle)}: nothing is drawn at temperature 0")
    # The last token is never run, so that one more than the cache holds can be generated.
    room = max_new if limits.context is None else limits.context + 1 - length
    if not limits.eos:
        most = min(room, max_new)
        notes.append(
            f"nothing says which id ends a text: generation goes on for {most} token{'' if most == 1 else 's'}"
        )
    if room < max_new:
        notes.append(f"the context of {limits.context} has room for {room} more: generation ends there at the latest")
    for note in notes:
        click.echo(f"note: {note}", err=True)
