"""The models of the quantization table, with data to calibrate on and what they are judged by.

```
python -m benchmarks.quantization
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.models import EncoderLayer, resnet50
from edgex.runtime.session.numerics import measure_sqnr_db
from edgex.samples import decoder, digits, sentence_encoder

Run = Callable[..., Sequence[np.ndarray]]

# Written for this table: eight pairs of which the second says what the first does, in other words.
SENTENCES = (
    "The cat sleeps on the warm windowsill.", "A cat is napping by the sunny window.",
    "Our flight to Oslo was delayed by snow.", "Snow made the plane to Oslo leave late.",
    "She repaired the old bicycle herself.", "The woman fixed her bike on her own.",
    "The invoice must be paid by Friday.", "Payment of the bill is due at the end of the week.",
    "He poured hot tea into two small cups.", "Two little cups were filled with tea.",
    "The river flooded the lower fields.", "High water covered the meadows near the stream.",
    "Children were building a castle of sand.", "Some kids made a sandcastle at the beach.",
    "The museum is closed on Mondays.", "You cannot visit the gallery on a Monday.",
)  # fmt: skip
CALIBRATION_SENTENCES = (
    "Please keep the door shut.", "The orchestra tuned its instruments before the concert.",
    "Interest rates rose again this spring.", "I left my umbrella on the bus.",
    "A new bridge connects the two islands.", "The recipe asks for three eggs and a pinch of salt.",
    "Nobody answered the phone last night.", "The engine makes a strange noise when it is cold.",
    "They planted apple trees along the road.", "The lecture begins at nine in the large hall.",
    "My grandfather collects old maps and coins.", "The team lost the final by a single point.",
    "Lightning struck the tower twice.", "The shop sells bread, milk and newspapers.",
    "Her novel was translated into ten languages.", "Wolves have returned to these forests.",
    "The printer is out of paper again.", "We watched the stars from the roof.",
    "The committee will vote tomorrow.", "Fresh paint makes the room look larger.",
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """A model of the table.

    Attributes:
        module: In eval mode.
        args: Example inputs, on which it is timed.
        calibration: Gives the samples.
        recipes: What it is quantized to.
        judge: Takes a runner of an artifact and gives the cell of the table.
        dynamic_shapes: As torch.export takes it.
    """

    module: nn.Module
    args: tuple[torch.Tensor, ...]
    calibration: Callable[[], Iterator[Any]]
    recipes: tuple[str, ...]
    judge: Callable[[Run], str]
    dynamic_shapes: Any = None


def make_digits() -> Judged:
    """The digits sample: real scans, real accuracy."""
    module, args = digits.get_model(), digits.get_args()
    return Judged(
        module,
        args,
        digits.calibration_data,
        ("int8", "int8-dynamic"),
        lambda run: f"{digits.evaluate(run):.2%} right",
        digits.dynamic_shapes,
    )


def make_sentence_encoder() -> Judged:
    """The sentence encoder sample; with MiniLM's weights the vectors mean something."""
    module = sentence_encoder.get_model()

    def calibration() -> Iterator[Any]:
        for ids in _tokenize(CALIBRATION_SENTENCES):
            yield sentence_encoder.pad_tokens(ids, 24)

    inputs = [sentence_encoder.pad_tokens(ids, 24) for ids in _tokenize(SENTENCES)]
    with torch.no_grad():
        wanted = np.concatenate([module(*one).numpy() for one in inputs])

    def judge(run: Run) -> str:
        found = np.concatenate([np.asarray(run(*(t.numpy() for t in one))[0]) for one in inputs])
        cosine = float((found * wanted).sum(1).min() / np.linalg.norm(found, axis=1).max())
        agree = np.mean([_ranks(found, at) == _ranks(wanted, at) for at in range(len(found))])
        return f"cosine ≥ {cosine:.4f}, same nearest 3: {agree:.0%}"

    recipes = ("int8", "int8-dynamic", "8da8w", "8da4w", "int4-weight")
    return Judged(module, inputs[0], calibration, recipes, judge, sentence_encoder.dynamic_shapes)


def make_resnet50() -> Judged:
    """ResNet-50 with random weights, on noise of the kind that it is calibrated on."""
    module, args = resnet50()
    return Judged(module, args, _noise(args, 16), ("int8",), _by_sqnr(module, args))


class Encoder(nn.Module):
    """Four layers of BERT-base, as the study of quantized runtimes took them: 28 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(768, 12) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[1, 128, 768]` to the same."""
        mask = torch.zeros(1, 1, 1, 128)
        for layer in self.layers:
            x = layer(x, mask)
        return x


def make_bert() -> Judged:
    """Four encoder layers with random weights, 128 tokens."""
    torch.manual_seed(0)
    module, args = Encoder().eval(), (torch.randn(1, 128, 768),)
    recipes = ("int8", "int8-dynamic", "8da8w", "8da4w", "int4-weight")
    return Judged(module, args, _noise(args, 16), recipes, _by_sqnr(module, args))


def make_decoder() -> Judged:
    """The decoder sample, whose cache is state: judged on a text, of which every token sees those before it."""
    text = decoder.encode("".join(SENTENCES[:4]))
    eager = decoder.get_model()
    with torch.no_grad():
        wanted = np.concatenate([eager(token).numpy() for token in text])

    def calibration() -> Iterator[Any]:
        for token in decoder.encode("".join(CALIBRATION_SENTENCES[:4])):
            yield (token,)

    def judge(run: Run) -> str:
        found = np.concatenate([np.asarray(run(token.numpy())[0]) for token in text])
        same = float((found.argmax(1) == wanted.argmax(1)).mean())
        return f"{measure_sqnr_db(wanted, found):.1f} dB, same next token: {same:.0%}"

    recipes = ("int8", "int8-dynamic", "8da8w", "8da4w", "int4-weight")
    return Judged(decoder.get_model(), decoder.get_args(), calibration, recipes, judge)


MODELS: dict[str, Callable[[], Judged]] = {
    "digits": make_digits,
    "sentence_encoder": make_sentence_encoder,
    "resnet50": make_resnet50,
    "bert_4_layers": make_bert,
    "decoder": make_decoder,
}


def _noise(args: tuple[torch.Tensor, ...], count: int) -> Callable[[], Iterator[Any]]:
    def samples() -> Iterator[Any]:
        generator = torch.Generator().manual_seed(7)
        for _ in range(count):
            yield tuple(torch.randn(arg.shape, generator=generator) for arg in args)

    return samples


def _by_sqnr(module: nn.Module, args: tuple[torch.Tensor, ...]) -> Callable[[Run], str]:
    with torch.no_grad():
        outputs = module(*args)
    wanted = (outputs[0] if isinstance(outputs, tuple) else outputs).numpy()
    return lambda run: f"{measure_sqnr_db(wanted, np.asarray(run(*(arg.numpy() for arg in args))[0])):.1f} dB"


def _ranks(vectors: np.ndarray, at: int) -> list[int]:
    """The three nearest others, nearest first."""
    return [int(other) for other in np.argsort(-(vectors @ vectors[at])) if other != at][:3]


def _tokenize(sentences: Sequence[str]) -> list[list[int]]:
    """Word pieces of MiniLM's own vocabulary; without the package, numbers made of the letters."""
    weights = sentence_encoder.find_weights()
    if weights is None:
        return [[101, *(1000 + ord(letter) for letter in text[:20]), 102] for text in sentences]
    from tokenizers import Tokenizer  # type: ignore[import-not-found,import-untyped,unused-ignore]

    tokenizer = Tokenizer.from_file(str(Path(weights).with_name("tokenizer.json")))
    tokenizer.no_padding()
    return [tokenizer.encode(text).ids for text in sentences]
