"""What commands print fits the screen: 80 and 120 columns, in a pipe, where nobody colours."""

from __future__ import annotations

import re

import pytest
from report_support import make_report

from edgex.cli import layout
from edgex.cli.render import describe_fallbacks, print_verification

MODEL = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first_layer_with_a_long_name = torch.nn.Linear(8, 4)
    def forward(self, x):
        return torch.cumsum(torch.cumprod(self.first_layer_with_a_long_name(x), 1), 1)
def get_model():
    return Net()
def get_args():
    return (torch.randn(2, 8),)
"""


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        ("targets",),
        ("doctor",),
        ("explain", "0x14"),
        ("explain", "--list"),
        ("compare", "a.json", "b.json"),
        ("why", "net.py", "-t", "xnnpack,onnx-cpu", "-q"),
        ("export", "net.py", "-t", "nowhere"),
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_lines_fit(arguments, width, edgex, tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(MODEL)
    for name, seed in (("a", 0), ("b", 1)):
        (tmp_path / f"{name}.json").write_text(make_report(40, seed=seed).dumps())
    monkeypatch.setenv("COLUMNS", str(width))
    done = edgex(*arguments)
    assert done.returncode in (0, 2), done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    lines = (done.stdout + done.stderr).splitlines()
    # A word that is longer than the room for it, such as an address, stays whole: it is to be copied.
    wide = [line for line in lines if len(line) > width and " " in re.sub(r"^ *\S*  +", "", line)]
    assert lines and not wide, "\n".join(wide)


def test_a_pipe_has_eighty_columns(monkeypatch, capfd):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert layout.screen_width() == 80


def test_a_list_says_how_many_more_there_are():
    assert layout.list_some(["a", "b"], 2) == "a, b"
    assert layout.list_some([f"op{n}" for n in range(9)], 2) == "op0, op1 +7 more"


def test_a_table_wraps_its_widest_column_and_keeps_every_word(monkeypatch, capfd):
    monkeypatch.setenv("COLUMNS", "40")
    layout.print_table([("name", "what"), ("short", "a sentence that is far too long for one line")])
    lines = capfd.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40 and len(lines) > 2
    assert " ".join(" ".join(lines[1:]).split()) == "short a sentence that is far too long for one line"


def test_long_paths_break_behind_their_marks(monkeypatch, capfd):
    monkeypatch.setenv("COLUMNS", "30")
    path = "encoder.layers.0.self_attention.output_projection"
    layout.print_table([("module", "n"), (path, "1")])
    lines = capfd.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 30
    assert "".join(line.split()[0] for line in lines[1:]) == path


def test_cases_that_were_left_out_for_one_reason_stand_together(capsys):
    case = {"output": None, "max_abs_error": None, "sqnr_db": None, "reference_max": None, "reference": "eager"}
    names = ["stress: tiny", "stress: zero", "stress: huge"]
    left = [{**case, "name": name, "verdict": "skipped", "reason": "not carried along"} for name in names]
    done = {**case, "name": "example", "output": "y", "verdict": "pass", "reason": None}
    print_verification({"cases": [done, *left], "executed_on": "here", "repeats": {}, "passed": False, "reason": "-"})
    printed = " ".join(capsys.readouterr().out.split())
    assert f"{'; '.join(names)}: not carried along" in printed and printed.count("not carried along") == 1


def test_reading_a_size_is_on_no_line_of_the_users():
    left = {"count": 2, "source": "net.py:14", "code": "attribute", "reason": "it is so"}
    size = {**left, "op": "aten.sym_size.int", "source": "runtime_assert.py:24"}
    mean, shown = describe_fallbacks([size, {**left, "op": "aten.mean.dim"}])
    assert "at net.py:14 [attribute] it is so" in mean
    assert "2 x aten.sym_size.int" in shown and "runtime_assert" not in shown


def test_what_was_left_out_for_one_reason_is_one_line():
    left = {"count": 1, "code": "not_in_delegate", "reason": "no kernel"}
    sums = [{**left, "op": "aten.cumsum.default", "source": f"net.py:{line}"} for line in (3, 5, 8, 9, 3)]
    sort = {**left, "op": "aten.sort.stable", "source": "net.py:20"}
    assert describe_fallbacks([*sums, sort, {**sort, "op": "aten.topk.default"}]) == [
        "left out: 5 x aten.cumsum.default at net.py:3, net.py:5, net.py:8 +1 more [not_in_delegate] no kernel",
        "left out: 1 x aten.sort.stable, 1 x aten.topk.default at net.py:20 [not_in_delegate] no kernel",
    ]


def test_where_much_was_left_out_operators_are_counted_by_reason():
    left = {"count": 2, "reason": "it is so"}
    found = [
        {**left, "op": f"aten.op{n}.default", "code": "dtype" if n % 3 else "not_in_delegate", "source": f"net.py:{n}"}
        for n in range(9)
    ]
    found.append({**left, "op": "aten.sym_size.int", "code": "attribute", "source": None})
    assert describe_fallbacks(found, in_full=False, path="net.xnnpack.edgex") == [
        "left out: 12 operators [dtype]: 2 x aten.op1.default, 2 x aten.op2.default, 2 x aten.op4.default +3 more",
        "left out: 6 operators [not_in_delegate]: 2 x aten.op0.default, 2 x aten.op3.default, 2 x aten.op6.default",
        "edgex why net.xnnpack.edgex tells each with its line and reason",
    ]
    assert len(describe_fallbacks(found)) == 10 and len(describe_fallbacks(found[:7], in_full=False)) == 7
