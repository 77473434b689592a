"""Commands that are printed for the user: flags that ask about the same model again, and what an artifact is for."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from edgex.runtime.artifact.manifest import PROCESSOR_FOLDER
from edgex.runtime.generation.limits import read_limits

if TYPE_CHECKING:
    from edgex.errors import EdgexError
    from edgex.export.language_model.request import LanguageRequest
    from edgex.export.settings import ExportSettings
    from edgex.runtime.artifact.artifact import Artifact

# What delegates advise to run, which do not know how the user named the model.
_UNNAMED = re.compile(r"(?P<verb>edgex (?:why|bisect|export)) MODEL(?P<target> -t [\w.,-]+)?")


# Ids to begin with where nothing says what begins a text.
_SOME_IDS = "1,2,3"


def commands_for(artifact: Artifact) -> tuple[str, ...]:
    """What to do with an artifact that was written: run it, or write text with it; and measure it.

    Args:
        artifact: As it was published.
    """
    manifest, path = artifact.manifest, shlex.quote(str(artifact.path))
    flag = " --allow-fallback" if manifest.status == "assembled" else ""
    # A simulator's times are not shown, so a profile would be refused.
    second = "verify" if manifest.status == "simulated" else "profile"
    if manifest.llm is None:
        return (f"edgex run {path}{flag}", f"edgex {second} {path}{flag}")
    limits = read_limits(artifact)
    tokenizer = f"{PROCESSOR_FOLDER}/tokenizer.json"
    if limits.source is not None and not limits.reads_text:
        begin = f"--input {limits.source[0].name}=file.npy"
    elif any(entry.path == tokenizer for entry in manifest.files):
        begin = '--prompt "Once upon a time"'
    else:
        begin = f"--ids {_SOME_IDS if limits.bos is None and limits.vocabulary > 3 else limits.bos or 0}"
    return (f"edgex generate {path} {begin}", f"edgex profile {path} --llm")


def repeat_flags(settings: ExportSettings, *, rewrite: bool = True) -> str:
    """The flags that a command needs to ask for the same again, each with a blank before it.

    Args:
        settings: Of the export.
        rewrite: Leave `--no-rewrite` out even where it was given.
    """
    given = {
        "--precision": settings.precision if settings.precision != "fp32" else None,
        "--quantize": settings.quantize,
        "--group-size": settings.group_size,
        "--calibration": settings.calibration if isinstance(settings.calibration, str) else None,
    }
    flags = "".join(f" {flag} {value}" for flag, value in given.items() if value is not None)
    flags += "".join(f" --option {key}={value}" for key, value in settings.options.items())
    flags = f"{language_flags(settings.language)}{flags}"
    return flags if rewrite or settings.rewrite else f"{flags} --no-rewrite"


def language_flags(asked: LanguageRequest | None, *, quantized: bool = True) -> str:
    """`--llm` and what goes with it, each with a blank before it; empty for a model that is none.

    Args:
        asked: Of the export.
        quantized: With the flags that mean something beside `--quantize` only.
    """
    if asked is None:
        return ""
    given = {
        "--context": asked.context,
        "--chunk": asked.chunk,
        "--source": asked.source,
        "--kv": asked.kv if asked.kv != "fp32" else None,
        "--head": {"int8": "int8", "float": "none"}.get(asked.head) if quantized else None,
        "--embedding": asked.embedding if quantized and asked.embedding != "float" else None,
    }
    return " --llm" + "".join(f" {flag} {value}" for flag, value in given.items() if value is not None)


def name_model(error: EdgexError, model: str, asked: LanguageRequest | None = None) -> None:
    """Put the user's own words in place of `MODEL` in the commands that an error names, so that they can be run.

    Args:
        error: It is changed, with the others that it has.
        model: As it was given on the command line.
        asked: Of a language model, which no command takes without its flags.
    """
    flags = language_flags(asked, quantized=False)

    def named(match: re.Match[str]) -> str:
        return f"{match['verb']} {shlex.quote(model)}{match['target'] or ''}{flags}"

    for one in (error, *error.others):
        one.fix = None if one.fix is None else _UNNAMED.sub(named, one.fix)
