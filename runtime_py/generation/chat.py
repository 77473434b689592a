"""Chat templates: messages to the text that a model was trained on, rendered offline in Jinja's sandbox.

A template is a program of whoever made the model. The sandbox keeps it from everything but the values below, which
are those of the transformers library; `--timeout` ends one that does not end by itself.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from edgex.errors import ArtifactError, RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import PROCESSOR_FOLDER
from edgex.runtime.generation.tokenizer import has_file, read_processor_json
from edgex.runtime.support.json.reading import read_regular

TEMPLATE_FILE, CONFIG_FILE, SPECIAL_FILE = "chat_template.jinja", "tokenizer_config.json", "special_tokens_map.json"
_MAX_BYTES = 1 << 20

Message = Mapping[str, str]


def read_template(artifact: Artifact) -> str:
    """The chat template that an artifact carries, in a file of its own or in `tokenizer_config.json`.

    Raises:
        ArtifactError: It carries none, or it cannot be read.
    """
    where = artifact.path.name
    if has_file(artifact, TEMPLATE_FILE):
        try:
            return read_regular(artifact.path / PROCESSOR_FOLDER / TEMPLATE_FILE, _MAX_BYTES).decode()
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{TEMPLATE_FILE} cannot be read", where, why=str(error)) from error
    found = read_processor_json(artifact, CONFIG_FILE).get("chat_template")
    if isinstance(found, list):  # several, by name
        named = {item.get("name"): item.get("template") for item in found if isinstance(item, dict)}
        found = named.get("default")
    if not isinstance(found, str):
        raise ArtifactError(
            "the artifact carries no chat template",
            where,
            f"generate without --chat, or export the model again with {TEMPLATE_FILE} beside it",
        )
    return found


def render_chat(artifact: Artifact, messages: Sequence[Message]) -> str:
    """The text of a conversation, up to where the model is to answer.

    Args:
        artifact: Carries the template.
        messages: `{"role": "system" | "user" | "assistant", "content": text}`, the oldest first.

    Returns:
        Text with the model's special tokens in it: encode it without adding others.

    Raises:
        ArtifactError: There is no template, or it is none.
        RunError: The template refuses the messages.
    """
    from jinja2 import TemplateError, TemplateSyntaxError

    template = read_template(artifact)
    where = f"{artifact.path.name}: chat template"
    try:
        compiled = _environment().from_string(template)
    except TemplateSyntaxError as error:
        raise ArtifactError("the chat template is no Jinja template", where, why=str(error)) from error
    values: dict[str, Any] = {"messages": [dict(message) for message in messages], "add_generation_prompt": True}
    try:
        text: str = compiled.render(**values, **_special_tokens(artifact))
    except (TemplateError, TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
        raise RunError("the chat template refuses these messages", where, why=str(error)) from error
    return text


def _environment() -> Any:
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        """`{% generation %}` marks what the model said, for training; here it is only its content."""

        tags = {"generation"}  # noqa: RUF012 - Jinja's own way

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body).set_lineno(line)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, sort_keys: bool = False) -> str:
    """As the transformers library does: Jinja's own filter escapes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _special_tokens(artifact: Artifact) -> dict[str, str]:
    """`bos_token` and the like, as texts: of the config first, of the older map else."""
    found = {}
    for file in (SPECIAL_FILE, CONFIG_FILE):
        for name, value in read_processor_json(artifact, file).items():
            text = value.get("content") if isinstance(value, dict) else value
            if name.endswith("_token") and isinstance(text, str):
                found[name] = text
    return found
