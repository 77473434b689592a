"""What the encoder of a language model reads: `--input`, or the prompt where it reads text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgex.cli.run.inputs import read_inputs
from edgex.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.generation.limits import Limits


def read_source(
    artifact: Artifact, limits: Limits, inputs: Sequence[str], prompt: Sequence[int] | None
) -> tuple[Mapping[str, np.ndarray] | None, Sequence[int]]:
    """The encoder's inputs, checked, and what the text begins with.

    Args:
        artifact: Of a language model.
        limits: What it takes.
        inputs: What `--input` was given.
        prompt: Ids of the prompt; None where there is none.

    Returns:
        The inputs by name, None for a model without an encoder; ids.

    Raises:
        UsageError: Inputs are missing, or there is no encoder to take them.
        RunError: They are not what it takes.
    """
    from edgex.runtime.session.signature import Signature

    llm = artifact.manifest.llm
    if limits.source is None or llm is None:
        if inputs:
            raise UsageError(
                "--input is for a model with an encoder, and this one has none",
                artifact.path.name,
                "leave it out: --prompt or --ids is all that it takes",
            )
        return None, prompt or ()
    encode = artifact.select(llm.encode)
    takes = ", ".join(map(str, limits.source))
    if inputs:
        source, begin = read_inputs(inputs, encode), limits.start if prompt is None else prompt
    elif limits.reads_text:
        source, begin = limits.check_source(prompt or ()), limits.start
    else:
        raise UsageError(
            "the encoder has not been given its input",
            artifact.path.name,
            f"--input {limits.source[0].name}=file.npy; --prompt and --ids are what the text begins with",
            why=f"it takes {takes}",
        )
    if not begin:
        raise UsageError(
            "nothing says what a text begins with",
            artifact.path.name,
            "give --input and --ids; or export with model_card = {'decoder_start_token_id': N} in the model's file",
        )
    return Signature.of(encode.manifest).prepare_named(**source), begin
