"""The benchmarks' page says what the data says, and their models are worth measuring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
QUIET = {
    "seconds": 1.0,
    "other_cores": 0.0,
    "steal_share": 0.0,
    "involuntary_switches": 0,
    "load_average_before": 0.1,
    "load_average_after": 0.1,
}


@pytest.fixture(autouse=True)
def root_on_path(monkeypatch):
    """`benchmarks` is no part of the installed package."""
    monkeypatch.syspath_prepend(str(ROOT))


def make_entry(name: str, measured: float) -> dict:
    from benchmarks.outcome import Goal, Outcome
    from edgex.runtime.support.machine.activity import Activity

    goals = [Goal("at most 2 s", f"{measured} s", measured <= 2.0)]
    outcome = Outcome(
        name, f"About {name}", ("How.",), ("what", "time"), [["a", f"{measured} s"]], goals, {"s": measured}
    )
    return outcome.to_json(Activity.from_json(QUIET))


def test_what_the_benchmarks_import_is_where_they_look_for_it():
    from benchmarks.__main__ import BENCHMARKS
    from benchmarks.cost.scheduler import run_plan

    assert list(BENCHMARKS) == ["overhead", "startup", "export", "page", "why", "sweep"]
    assert run_plan(3) > 0.0


def test_a_goal_is_shown_as_the_data_has_it():
    from benchmarks.outcome import render_page

    page = render_page([make_entry("one", 1.0), make_entry("two", 3.0)])
    assert "- met: at most 2 s; measured 1.0 s" in page
    assert "- **not met**: at most 2 s; measured 3.0 s" in page
    assert "| what | time |\n| --- | ---: |\n| a | 1.0 s |" in page
    assert "Warning" not in page


def test_a_disturbed_run_says_so():
    from benchmarks.outcome import render_page

    entry = make_entry("one", 1.0)
    entry["activity"] = {**QUIET, "other_cores": 1.5}
    assert "Warning (other-load): other programs kept 1.5" in render_page([entry])


def test_benchmarks_that_did_not_run_keep_their_figures(tmp_path):
    from benchmarks.outcome import write_page

    for name, measured in (("b", 1.0), ("a", 1.5), ("b", 3.0)):
        write_page(tmp_path, make_entry(name, measured))
    entries = json.loads((tmp_path / "data" / "edgex.json").read_text())["benchmarks"]
    assert [(entry["name"], entry["data"]["s"]) for entry in entries] == [("a", 1.5), ("b", 3.0)]
    assert (tmp_path / "edgex.md").read_text().count("## About") == 2


def test_the_committed_pages_are_rendered_from_the_committed_figures():
    from benchmarks.publish import PAGES, format_data, read_data, renderers

    assert {path.stem for path in (PAGES / "data").glob("*.json")} == set(renderers())
    for name, render in renderers().items():
        document = read_data(name)
        page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
        assert page == render(document), f"{name}.md was edited by hand: python -m benchmarks.publish renders it"
        assert "Measured on 20" in page and " at commit " in page, f"{name}.md does not say when and on which commit"
        data = (PAGES / "data" / f"{name}.json").read_text(encoding="utf-8")
        assert data == format_data(document), f"{name}.json is not as benchmarks.publish writes it"


def test_figures_name_the_day_and_the_commit():
    from benchmarks.publish import read_origin

    origin = read_origin()
    assert len(origin["date"]) == 10 and origin["commit"] != ""


def test_processes_are_started_in_turns():
    from benchmarks.processes import interleave

    started = []
    interleave(["a", "b"], 3, started.append, "test")
    assert "".join(started) == "abbaab"


def test_a_process_that_fails_is_not_timed_as_if_it_had_worked():
    import sys

    from benchmarks.processes import run_process

    with pytest.raises(RuntimeError, match="ended with 3"):
        run_process([sys.executable, "-c", "raise SystemExit(3)"])


@pytest.mark.parametrize("name", ["tiny", "resnet_small", "bert_small"])
def test_models_give_outputs_far_from_zero(name):
    torch = pytest.importorskip("torch")
    from benchmarks import models

    module, args = getattr(models, name)()
    with torch.no_grad():
        outputs = module(*args)
    for output in outputs if isinstance(outputs, tuple) else (outputs,):
        rms = output.square().mean().sqrt().item()
        assert 0.05 < rms < 100, rms
        assert output.std() > 0.01


def test_the_large_models_have_the_sizes_of_their_names():
    torch = pytest.importorskip("torch")
    from benchmarks import models

    with torch.device("meta"):
        resnet = models.ResNet((3, 4, 6, 3))
        bert = models.Bert(12)
    assert sum(p.numel() for p in resnet.parameters()) == 25_557_032  # torchvision's resnet50
    assert sum(p.numel() for p in bert.parameters()) == 109_482_240 - 2 * 768  # BERT-base without its two token types
