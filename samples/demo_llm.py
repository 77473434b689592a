"""`make demo-llm`: train a small language model, export it in 32 and 4 bits, and let each artifact speak.

The perplexity on text that it was not trained on says what an engine or 4 bits cost: of eager PyTorch, and of each
artifact, token by token through its cache.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

import edgex
from edgex.samples import small_language_model as sample

OUTPUT = Path("demo-output")
PROMPT = "The with statement is used to"
NEW = 48

# (target, recipe); None is float32.
MADE: Sequence[tuple[str, str | None]] = (("xnnpack", None), ("onnx-cpu", None), ("xnnpack", "8da4w"))


def main() -> int:
    """Run the demo and return its exit code: 1 if a float artifact foretells the text less well than eager does."""
    started = time.perf_counter()
    known = (sample.trained_folder() / "model.safetensors").is_file()
    model = sample.get_model()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    how = "weights kept from an earlier run" if known else f"trained in {time.perf_counter() - started:.0f} s"
    print(f"1. A decoder of {parameters:,} parameters, on the text of Python's help(): {how}")
    expected = sample.measure_perplexity(*_reader_of(model))
    print(f"   perplexity on held-out text, eager: {expected:.2f}\n\n2. Exported, proved, and measured", flush=True)
    worst = 0.0
    for target, recipe in MADE:
        name = f"help-{recipe or 'fp32'}"
        artifact = edgex.export_model(
            model, target=target, quantize=recipe, output=OUTPUT, name=name, context=sample.CONTEXT, force=True
        )
        found, text, rate = _speak(artifact.path)
        worst = worst if recipe else max(worst, abs(found / expected - 1))
        size = artifact.manifest.model_bytes / 1e6
        print(f"\n   {artifact.path}: {size:.1f} MB, perplexity {found:.2f}, {rate:,.0f} tokens/s")
        print(f"   {PROMPT}{text}", flush=True)
    print(f"\nNext:\n  edgex generate {OUTPUT}/help-fp32.xnnpack.edgex --prompt 'A class definition'")
    print(f"  edgex profile {OUTPUT}/help-8da4w.xnnpack.edgex --llm -p 128 -n 64 -d 0,128")
    return 0 if worst < 1e-3 else 1


def _speak(path: Path) -> tuple[float, str, float]:
    """An artifact's perplexity, what it says, and how many tokens a second it says."""
    with edgex.load(path) as session:
        generator = session.generator()
        found = sample.measure_perplexity(generator.reset, lambda token: generator.prefill([token]))
        generator.reset()
        text = "".join(generator.stream_text(PROMPT, max_new=NEW))
        spent = generator.spent
    return found, text, spent.decoded / spent.decode_seconds if spent.decoded else 0.0


def _reader_of(model: torch.nn.Module) -> tuple[Callable[[], object], Callable[[int], np.ndarray]]:
    """What `measure_perplexity` takes, of eager PyTorch."""
    text: list[int] = []

    def read(token: int) -> np.ndarray:
        text.append(token)
        with torch.no_grad():
            scores: np.ndarray = model(torch.tensor([[token]]), torch.tensor([len(text) - 1]))[0, -1].numpy()
        return scores

    return text.clear, read


if __name__ == "__main__":
    sys.exit(main())
