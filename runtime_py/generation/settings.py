"""What a model's makers want generation to be: `generation_config.json`, as the transformers library writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.generation.sampling import GREEDY, Sampling
from edgex.runtime.generation.tokenizer import read_processor_json

FILE = "generation_config.json"

# Settings that would change the text and that edgex does not have, with the values that change nothing.
_UNKNOWN: Mapping[str, tuple[object, ...]] = {
    "num_beams": (None, 1),
    "min_p": (None, 0, 0.0),
    "typical_p": (None, 1, 1.0),
    "epsilon_cutoff": (None, 0, 0.0),
    "eta_cutoff": (None, 0, 0.0),
    "encoder_repetition_penalty": (None, 1, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "bad_words_ids": (None, []),
    "suppress_tokens": (None, []),
    "begin_suppress_tokens": (None, []),
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "penalty_alpha": (None, 0, 0.0),
    "guidance_scale": (None, 1, 1.0),
}


@dataclass(frozen=True)
class GenerationSettings:
    """What the file says.

    Attributes:
        sampling: How tokens are chosen where nobody says otherwise.
        eos: Ids that end a text.
        bos: The id that a text begins with.
        ignored: Settings that edgex has nothing for, as `name=value`.
    """

    sampling: Sampling = GREEDY
    eos: tuple[int, ...] = ()
    bos: int | None = None
    ignored: tuple[str, ...] = ()


def read_generation_settings(artifact: Artifact) -> GenerationSettings:
    """The settings that an artifact carries; the defaults where it carries none.

    Raises:
        ArtifactError: The file is no JSON, or a value is of another kind.
    """
    data = read_processor_json(artifact, FILE)
    where = f"{artifact.path.name}: {FILE}"

    def number(name: str, default: float) -> float:
        value = data.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ArtifactError(f"{name} is {value!r}, not a number", where)
        return float(value)

    eos = data.get("eos_token_id")
    ends = [] if eos is None else eos if isinstance(eos, list) else [eos]
    for value in [*ends, data.get("bos_token_id")]:
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise ArtifactError(f"a token id is {value!r}, not a whole number", where)
    sampling = Sampling(repetition_penalty=number("repetition_penalty", 1.0))
    if data.get("do_sample") is True:
        sampling = Sampling(
            number("temperature", 1.0),
            int(number("top_k", 50)) or None,  # what the library takes where the file does not say
            number("top_p", 1.0),
            sampling.repetition_penalty,
        )
    ignored = tuple(f"{name}={data[name]}" for name, same in _UNKNOWN.items() if data.get(name) not in same)
    return GenerationSettings(sampling, tuple(ends), data.get("bos_token_id"), ignored)
