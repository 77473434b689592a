"""The comparison of language models: llama-bench's answer is read right, and the page says what the figures say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def root_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """`benchmarks` is no part of the installed package."""
    monkeypatch.syspath_prepend(str(ROOT))


def make_test(prompt: int, new: int, rate: float, depth: int = 0) -> dict[str, Any]:
    return {"model_type": "llama ?B F16", "n_prompt": prompt, "n_gen": new, "n_depth": depth, "avg_ts": rate}


def test_the_rates_of_llama_bench_have_its_names() -> None:
    from benchmarks.llm.llama_cpp import read_rates

    answer = [make_test(512, 0, 400.5), make_test(0, 128, 90.0), make_test(0, 128, 70.0, 1024)]
    assert read_rates(json.dumps(answer)) == {"pp512": 400.5, "tg128": 90.0, "tg128@d1024": 70.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("error: failed to load model", "is not the JSON of its tests"),
        ('{"n_prompt": 512}', "is not the JSON of its tests"),
        ('[{"n_prompt": 512, "n_gen": 0}]', "is not the JSON of its tests"),
        (json.dumps([make_test(512, 128, 1.0)]), "has no one name"),
        (json.dumps([make_test(512, 0, 0.0)]), "has no rate"),
    ],
)
def test_what_is_no_answer_of_llama_bench_is_no_figure(text: str, said: str) -> None:
    from benchmarks.llm.llama_cpp import read_rates

    with pytest.raises(ValueError, match=said):
        read_rates(text)


def make_round(rate: float) -> dict[str, float]:
    return {"pp512": 4 * rate, "tg128": rate, "tg128@d1024": rate / 2}


def make_document(*, peer: bool) -> dict[str, Any]:
    beside = {"first_token_seconds": 1.25, "read_bytes": 8e7, "bandwidth_share": 0.5, "loop_seconds": 30e-6}
    ours = {"who": "onnx-cpu 8da4w", "bytes": 90e6, "rounds": [make_round(rate) | beside for rate in (60, 100, 150)]}
    theirs = {"who": "llama.cpp Q4_0", "bytes": 76e6, "rounds": [make_round(rate) for rate in (100, 50, 100)]}
    refused = {"who": "onednn fp32", "refused": "no kernel"}
    contenders = [ours, refused, *([theirs] if peer else [])]
    return {
        "machine": {"summary": "a machine"}, "origin": {"date": "2026-01-02", "commit": "0123456"},
        "threads": 2, "context": 1152, "chunk": 256,
        "models": [{"name": "smollm2_135m", "title": "SmolLM2-135M", "contenders": contenders}],
    }  # fmt: skip


def test_ratios_are_taken_round_by_round() -> None:
    from benchmarks.llm.page import render

    page = render(make_document(peer=True))
    # The rounds' ratios are 0.6, 2 and 1.5; the ratio of the medians would be 1.
    assert "| onnx-cpu 8da4w | 90 MB | 400 (240 to 600), 1.50x | 100 (60 to 150), 1.50x |" in page
    assert "- met: tg128 at least 0.95x Q4_0; measured 1.50x, onnx-cpu 8da4w" in page
    deep = "tg128@d1024 at least 0.9x tg128 on the fastest target, onnx-cpu 8da4w"
    assert f"- **not met**: {deep}; measured onnx-cpu 8da4w 0.50x" in page
    assert "- **not met**: the loop at most 20 µs a token on every target; measured 30.0 µs at most" in page
    assert "- onednn fp32: no kernel" in page and "- Qwen2.5-0.5B: it did not run." in page


def test_a_page_without_the_peer_says_so() -> None:
    from benchmarks.llm.page import render

    page = render(make_document(peer=False))
    assert "llama.cpp was not measured" in page and "1.50x" not in page and "x Q4_0" not in page


def test_other_runtimes_are_beside_q4_0_and_no_artifacts_of_ours() -> None:
    from benchmarks.llm.page import render
    from benchmarks.llm.peers import PEERS, PRECISION

    document = make_document(peer=True)
    assert all(f"- {peer.name}: not among the contenders." in render(document) for peer in PEERS)
    names = [f"{peer.name} {PRECISION}" for peer in PEERS]
    others = [{"who": who, "bytes": 84e6, "rounds": [make_round(rate) for rate in (200, 100, 200)]} for who in names]
    kept = {"who": "onednn 8da4w-kv8", "bytes": 90e6, "rounds": [make_round(150) | {"tg128@d1024": 140.0}] * 3}
    document["models"][0]["contenders"] += [*others, kept]
    page = render(document)
    for who in names:
        assert f"| {who} | 84 MB | 800 (400 to 800), 2.00x | 200 (100 to 200), 2.00x |" in page
    assert "not among the contenders" not in page
    assert "- met: tg128 at least 0.95x Q4_0; measured 1.50x, " in page  # none of theirs
    assert "on the fastest target, onednn 8da4w-kv8; measured onnx-cpu 8da4w 0.50x, onednn 8da4w-kv8 0.93x" in page


def test_a_python_that_is_none_is_refused_before_anything_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.llm.__main__ import main

    with pytest.raises(SystemExit):
        main(["--openvino-genai", str(tmp_path / "python"), "--keep", str(tmp_path / "kept")])
    assert "is no program" in capsys.readouterr().err and not (tmp_path / "kept").exists()


def test_what_a_converter_says_is_the_reason_that_a_runtime_is_missing(tmp_path: Path) -> None:
    from benchmarks.llm.__main__ import prepare
    from benchmarks.llm.peers import PEERS

    failing = tmp_path / "python"
    failing.write_text("#!/bin/sh\necho no such architecture >&2\nexit 3\n")
    failing.chmod(0o755)
    contenders, runs = prepare("smollm2_135m", tmp_path, None, {PEERS[0]: failing}, [])
    assert contenders == [{"who": "onnxruntime-genai int4", "refused": "no such architecture"}] and not runs


def test_a_folder_without_the_programs_is_refused_before_anything_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.llm.__main__ import main

    with pytest.raises(SystemExit):
        main(["--llama-bench", str(tmp_path), "--keep", str(tmp_path / "kept")])
    assert "has no llama-bench" in capsys.readouterr().err and not (tmp_path / "kept").exists()


def test_the_file_for_llama_cpp_has_the_shape_of_the_model(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="the peer's files need gguf, which is not installed")
    from benchmarks.llm.llama_cpp import write_gguf
    from benchmarks.llm.models import Shape

    write_gguf(Shape("tiny", 2, 64, 96, 4, 2, 128, biased=True), tmp_path / "tiny.gguf")
    tensors = {tensor.name: tensor.shape.tolist() for tensor in gguf.GGUFReader(tmp_path / "tiny.gguf").tensors}
    assert tensors["blk.1.attn_k.weight"] == [64, 32] and tensors["blk.1.attn_k.bias"] == [32]
    assert tensors["blk.0.ffn_down.weight"] == [96, 64] and tensors["token_embd.weight"] == [64, 128]
    assert "output.weight" not in tensors  # tied


def test_the_page_says_what_else_the_machine_did_and_what_was_counted() -> None:
    from benchmarks.llm.__main__ import note_round
    from benchmarks.llm.page import render
    from edgex.runtime.support.machine.activity import Activity

    document = make_document(peer=True)
    assert "all of the files" in render(document) and "Other programs" not in render(document)
    (model,) = document["models"]
    rounds = [Activity(10.0, 0.25, 0.0, 3, 0.1, 0.2), Activity(10.0, 1.5, 0.2, 3, 0.1, 0.2)]
    model |= {"activities": [note_round(one) for one in rounds], "reads": "weights"}
    page = render(document)
    assert "Other programs kept 0.2 to 1.5 cores busy, by the round. Warning, round 2: steal: " in page
    assert "of tables of embeddings one row" in page and "all of the files" not in page
