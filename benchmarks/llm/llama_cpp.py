"""llama.cpp beside edgex: a GGUF file of a model's shape, and what llama-bench says of it.

edgex ships no program of llama.cpp and looks for none: the folder of `llama-bench` and `llama-quantize` is given.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.llm.models import Shape
from benchmarks.processes import run_process

PRECISIONS = ("F16", "Q4_0")
PROGRAMS = ("llama-bench", "llama-quantize")


def make_files(shape: Shape, folder: Path, programs: Path) -> dict[str, Path]:
    """The model in F16 and, by llama-quantize, in Q4_0; what an earlier run left is not made again."""
    files = {precision: folder / f"{precision.lower()}.gguf" for precision in PRECISIONS}
    if not files["F16"].exists():
        half = folder / "half-written.gguf"
        write_gguf(shape, half)
        half.rename(files["F16"])
    if not files["Q4_0"].exists():
        half = folder / "half-quantized.gguf"
        run_process([str(programs / "llama-quantize"), "--pure", str(files["F16"]), str(half), "q4_0"])
        half.rename(files["Q4_0"])
    return files


def write_gguf(shape: Shape, file: Path) -> None:
    """Random weights of a shape, matrices in F16 and the rest in float32; the head is the table of embeddings."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(file, "qwen2" if shape.biased else "llama")
    writer.add_block_count(shape.layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_rope_dimension_count(shape.head_size)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    random, keys = np.random.default_rng(0), shape.key_heads * shape.head_size

    def add_matrix(name: str, outputs: int, inputs: int) -> None:
        values = random.standard_normal((outputs, inputs), dtype=np.float32) * np.float32(inputs**-0.5)
        writer.add_tensor(f"{name}.weight", values.astype(np.float16))

    def add_norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(shape.width, np.float32))

    add_matrix("token_embd", shape.vocabulary, shape.width)
    add_norm("output_norm")
    for layer in range(shape.layers):
        at = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm"):
            add_norm(f"{at}.{norm}")
        for name, outputs in (("attn_q", shape.width), ("attn_k", keys), ("attn_v", keys)):
            add_matrix(f"{at}.{name}", outputs, shape.width)
            if shape.biased:
                writer.add_tensor(f"{at}.{name}.bias", np.zeros(outputs, np.float32))
        add_matrix(f"{at}.attn_output", shape.width, shape.width)
        for name in ("ffn_gate", "ffn_up"):
            add_matrix(f"{at}.{name}", shape.feed_forward, shape.width)
        add_matrix(f"{at}.ffn_down", shape.width, shape.feed_forward)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run_llama_bench(programs: Path, file: Path, threads: int) -> dict[str, float]:
    """Tokens a second of a file, one run of each test after a warm-up."""
    command = [str(programs / "llama-bench"), "-m", str(file), "-t", str(threads), "-r", "1", "-o", "json"]
    shallow = run_process([*command, "-p", "512", "-n", "128"])
    return read_rates(shallow) | read_rates(run_process([*command, "-p", "0", "-n", "128", "-d", "1024"]))


def read_rates(text: str) -> dict[str, float]:
    """Tokens a second by test, as `pp512` or `tg128@d1024`, from llama-bench's JSON.

    Raises:
        ValueError: It is no such document, or a test has no rate.
    """
    try:
        entries: list[dict[str, Any]] = json.loads(text)
        rates = {}
        for entry in entries:
            prompt, new, depth = int(entry["n_prompt"]), int(entry["n_gen"]), int(entry.get("n_depth", 0))
            if (prompt > 0) == (new > 0):
                raise ValueError(f"a test of {prompt} tokens of prompt and {new} of text has no one name")
            name = (f"pp{prompt}" if prompt else f"tg{new}") + (f"@d{depth}" if depth else "")
            rates[name] = float(entry["avg_ts"])
            if not rates[name] > 0:
                raise ValueError(f"{name} has no rate")
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"llama-bench's answer is not the JSON of its tests: {text[:200]!r}") from error
    return rates
