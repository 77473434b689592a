"""What the native runner's `generate` is told of a language model: as flags, it reads no manifest."""

from __future__ import annotations

from edgex.errors import DeviceError, RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import Method
from edgex.runtime.execute.tensors import describe_inputs
from edgex.runtime.generation.limits import read_limits
from edgex.runtime.generation.sampling import GREEDY, Sampling


def is_language_model(artifact: Artifact) -> bool:
    """Whether the runner can generate with it: it has one program loaded, and no encoder.

    Raises:
        ArtifactError: Its generation settings are damaged.
    """
    try:
        return read_limits(artifact).source is None
    except RunError:
        return False


def decoder_flags(artifact: Artifact) -> list[str]:
    """The model's inputs and limits.

    Raises:
        RunError: It is no language model.
        DeviceError: Its methods are programs of their own, and the runner loads one.
    """
    limits = read_limits(artifact)
    method = _shared_program(artifact)
    flags = ["--method", method.entry]
    flags += [part for text in describe_inputs(method.inputs) for part in ("--input", text)]
    flags += ["--vocabulary", str(limits.vocabulary)]
    if limits.context is not None:
        flags += ["--context", str(limits.context)]
    return [*flags, "--eos", ",".join(map(str, limits.eos))] if limits.eos else flags


def sampling_flags(sampling: Sampling) -> list[str]:
    """How tokens are chosen: what differs from taking the likeliest."""
    flags: list[str] = []
    for name in ("temperature", "top_k", "top_p", "repetition_penalty", "seed"):
        value = getattr(sampling, name)
        if value != getattr(GREEDY, name) and value is not None:
            flags += [f"--{name.replace('_', '-')}", repr(value)]
    return flags


def _shared_program(artifact: Artifact) -> Method:
    """The method that takes several tokens; one token is given to the same program."""
    manifest = artifact.manifest
    if manifest.llm is None:
        return manifest.method
    if manifest.llm.encode is not None:
        raise DeviceError(
            "the artifact's texts begin with an encoder, and the native runner loads one method",
            artifact.path.name,
            "generate on this machine: leave --device out",
        )
    prefill, decode = manifest.find_method(manifest.llm.prefill), manifest.find_method(manifest.llm.decode)
    if prefill.entry != decode.entry:
        raise DeviceError(
            "the artifact's prefill and decode are two programs, and the native runner loads one",
            artifact.path.name,
            "export the model again with --llm",
        )
    return prefill
