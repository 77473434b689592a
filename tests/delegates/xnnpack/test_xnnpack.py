from __future__ import annotations

import copy
import dataclasses
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pte_support import Call, captured
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import edgex
from edgex.delegates.base import CapturedProgram
from edgex.delegates.registry import get_delegate
from edgex.delegates.xnnpack.delegate import XnnpackDelegate, XnnpackOptions
from edgex.errors import LoweringError
from edgex.export.capture.program import capture
from edgex.runtime.support import entry_points as plugins

HERE = Path(__file__).parent
OPTIONS = XnnpackOptions()
delegate = XnnpackDelegate()


class Net(nn.Module):
    """Two regions with cumsum, which XNNPACK does not have, between them."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).mean((2, 3), keepdim=True).flatten(1)
        x = torch.cumsum(x, 1)
        return torch.softmax(self.head(x), -1)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return captured(Net(), torch.randn(1, 3, 8, 8))


@pytest.fixture(scope="module")
def lowered_net(net):
    return delegate.lower(net, OPTIONS)


def line_of(text: str, file: Path = Path(__file__)) -> int:
    """Number of the line in this file that holds `text` first."""
    return next(at for at, line in enumerate(file.read_text().splitlines(), 1) if text in line)


# What was taken


def test_the_plan_counts_operators_regions_and_work(lowered_net):
    plan = lowered_net.plan
    assert (plan.delegated_ops, plan.total_ops, plan.delegate_calls) == (7, 8, 2)
    convolution, linear = 2 * 8 * 6 * 6 * 3 * 3 * 3, 2 * 8 * 4
    assert plan.total_flops == plan.delegated_flops == convolution + linear
    assert plan.work_fraction == 1.0
    assert [fallback.op for fallback in plan.fallbacks] == ["aten.cumsum.default"]


def test_plan_predicts_what_lower_does(net, lowered_net):
    assert delegate.plan(net, OPTIONS) == lowered_net.plan


def test_the_graph_keeps_its_calls_into_the_backend_in_step_with_the_plan(lowered_net, tmp_path):
    from edgex.runtime.engines.executorch.pte import read_pte

    lowered_net.write(tmp_path)
    summary = read_pte(tmp_path / "model.pte")
    assert summary.backends == ("XnnpackBackend",) * lowered_net.plan.delegate_calls
    assert summary.operators == ("aten::cumsum.out",)


def test_weights_may_be_fake_for_a_plan(net):
    with FakeTensorMode(allow_non_fake_inputs=True):
        exported = torch.export.export(Net().eval(), (torch.randn(1, 3, 8, 8),))
    plan = delegate.plan(dataclasses.replace(net, exported=exported), OPTIONS)
    assert (plan.delegated_ops, plan.total_ops, plan.delegate_calls) == (7, 8, 2)


def test_a_model_that_xnnpack_does_not_touch_is_warned_of():
    lowered = delegate.lower(captured(Call(lambda self, x: torch.cumsum(x, 1)), torch.randn(2, 3)), OPTIONS)
    assert lowered.plan.delegated_ops == 0
    assert "portable kernels" in lowered.warnings[0]


def test_not_in_delegate(lowered_net):
    (found,) = lowered_net.plan.fallbacks
    assert (found.code, found.reason) == ("not_in_delegate", "XNNPACK has no operator aten.cumsum.default")
    assert found.source == f"delegates/xnnpack/test_xnnpack.py:{line_of('x = torch.cumsum(x, 1)')}"
    assert not found.fatal


# The program


def test_the_given_program_is_not_changed(net):
    def state(program: CapturedProgram):
        exported = program.exported
        tensors = {**exported.state_dict, **exported.constants}
        signature = str(exported.graph_signature)
        return str(exported.graph), signature, [*tensors], [(t.data_ptr(), t.sum().item()) for t in tensors.values()]

    counter = captured(counter_module(), torch.randn(2, 3))
    for program in (net, counter):
        before = state(program)
        delegate.plan(program, OPTIONS)
        delegate.lower(program, OPTIONS)
        assert state(program) == before


def counter_module():
    def forward(self, x):
        self.count.add_(1)
        return self.m[0](x) * self.count + self.count_limit

    return Call(forward, nn.Linear(3, 3), count=torch.tensor([5.0]), count_limit=torch.tensor([9.0]))


def test_the_same_program_gives_the_same_bytes(net, lowered_net, tmp_path):
    again = delegate.lower(net, OPTIONS)
    for name, lowered in (("a", lowered_net), ("b", again)):
        (tmp_path / name).mkdir()
        lowered.write(tmp_path / name)
    assert lowered_net.files == ("model.pte",)
    written = [(tmp_path / name / "model.pte").read_bytes() for name in "ab"]
    assert written[0] == written[1]
    assert str(HERE.parent).encode() not in written[0]
    assert json.dumps(again.debug) == json.dumps(lowered_net.debug)


def test_initial_values_are_kept_for_exactly_the_state():
    """`count` is state; `count_limit`, whose name contains it, is a constant."""
    from edgex.delegates.executorch import exir
    from edgex.delegates.xnnpack.delegate import _make_partitioner
    from edgex.runtime.support.dependency_messages import quiet_dependencies

    program = captured(counter_module(), torch.randn(2, 3))
    assert [state.name for state in program.state] == ["count"]
    with quiet_dependencies():
        edge = exir.lower_to_edge(program.exported, _make_partitioner(lambda edge, refuse: None))
        emitted = exir.emit(edge, plan_inputs=False)
    marked = [n.name for n in emitted.exported_program().graph.nodes if n.meta.get("et_init_buffer")]
    assert marked == ["b_count"]


def test_requirements_and_options_go_to_the_manifest(lowered_net):
    installed = plugins.installed_version("executorch")
    assert lowered_net.requirements.engine == "executorch"
    assert installed.startswith(lowered_net.requirements.minimum_version)
    assert lowered_net.options == {"plan_inputs": False}
    assert lowered_net.methods[0].name == "forward"


def test_inputs_are_planned_on_request(net, lowered_net, tmp_path):
    from edgex.runtime.engines.executorch.pte import read_pte

    lowered_net.write(tmp_path)
    shared = read_pte(tmp_path / "model.pte").planned_arena_bytes
    delegate.lower(net, XnnpackOptions(plan_inputs=True)).write(tmp_path)
    assert read_pte(tmp_path / "model.pte").planned_arena_bytes >= 3 * 8 * 8 * 4 > shared


# Where the operators come from


def test_the_source_map_leads_from_handles_to_modules_and_lines(lowered_net):
    debug = lowered_net.debug
    assert debug["format"] == "edgex.source_map/1"
    by_id = {op["id"]: op for op in debug["ops"]}
    assert len(by_id) == lowered_net.plan.total_ops
    conv = by_id["aten_convolution_default"]
    assert (conv["op"], conv["module"], conv["delegate"]) == ("aten.convolution.default", "conv", 0)
    assert conv["source"] == f"delegates/xnnpack/test_xnnpack.py:{line_of('torch.relu(self.norm(self.conv(x)))')}"
    assert by_id["aten_cumsum_default"]["delegate"] is None
    assert [region["backend"] for region in debug["delegates"]] == ["XnnpackBackend", "XnnpackBackend"]
    assert conv["handle"] in debug["delegates"][0]["handles"]
    instructions = {item["id"]: item["handles"] for item in debug["instructions"]}
    first, second = (region["instruction"] for region in debug["delegates"])
    assert conv["handle"] in instructions[first]
    assert by_id["aten_linear_default"]["handle"] in instructions[second]
    (cumsum,) = [item for item, handles in instructions.items() if by_id["aten_cumsum_default"]["handle"] in handles]
    assert first < cumsum < second
    assert str(HERE.parent) not in json.dumps(debug)


def test_the_handles_are_those_that_xnnpack_serializes(net, lowered_net, monkeypatch):
    """The profiler joins what XNNPACK reports of its own operators to source lines by them."""
    import executorch.backends.xnnpack.xnnpack_preprocess as preprocess

    serialized = []
    serialize = preprocess.serialize_xnnpack_binary

    def listen(graph, constants):
        serialized.append([node.debug_handle for node in graph.xnodes])
        return serialize(graph, constants)

    monkeypatch.setattr(preprocess, "serialize_xnnpack_binary", listen)
    delegate.lower(net, OPTIONS)
    inserted = 65535  # layout transposes, which come from no operator
    known = [set(region["handles"]) for region in lowered_net.debug["delegates"]]
    found = [set(handles) - {inserted} for handles in serialized]
    assert len(found) == len(known)
    assert all(inside and inside <= region for inside, region in zip(found, known, strict=True))


# Errors and the edges


def test_a_failure_inside_executorch_says_what_and_why(net, monkeypatch):
    import executorch.exir

    def fail(*args, **kwargs):
        raise RuntimeError(
            'first line\n  File "/home/someone/model.py", line 7, in forward\nlast line\nOriginal traceback:\nNone'
        )

    monkeypatch.setattr(executorch.exir, "to_edge_transform_and_lower", fail)
    with pytest.raises(LoweringError) as caught:
        delegate.lower(net, OPTIONS)
    assert caught.value.what == "ExecuTorch could not lower the program for xnnpack"
    assert caught.value.where == "model.py:7"
    assert caught.value.why.startswith("RuntimeError: first line")
    assert caught.value.why.endswith("last line")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_bf16_is_refused_with_the_reason_and_another_precision():
    assert "bf16" not in delegate.precisions
    refusal = delegate.precision_refusal("bf16")
    assert "bf16" in refusal and "fp16" in refusal


def test_availability_names_what_is_missing(monkeypatch):
    import edgex.delegates.xnnpack.delegate as module

    assert get_delegate("xnnpack").availability().available
    monkeypatch.setattr(module, "installed_version", lambda name: None if name == "torchao" else "1")
    missing = delegate.availability()
    assert not missing.available
    assert missing.reason == "torchao is not installed"
    assert missing.fix == "pip install 'edgex-toolchain[xnnpack]'"


def test_asking_what_is_available_imports_nothing_heavy():
    code = (
        "import sys; from edgex.delegates.registry import get_delegate;"
        "from edgex.runtime.engines.registry import get_engine;"
        "d = get_delegate('xnnpack'); d.availability(); d.precision_refusal('bf16');"
        "get_engine('executorch').availability();"
        "print([m for m in ('torch', 'executorch', 'numpy.testing') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_lowering_prints_nothing_and_leaves_the_loggers_as_they_were(net, capfd, recwarn):
    root, reasons = logging.getLogger(), logging.getLogger("executorch.backends.xnnpack.partition.config")
    before = (list(root.handlers), root.level, list(reasons.handlers), reasons.level, reasons.propagate)
    delegate.lower(net, OPTIONS)
    assert (list(root.handlers), root.level, list(reasons.handlers), reasons.level, reasons.propagate) == before
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""
    assert [str(w.message) for w in recwarn if issubclass(w.category, (FutureWarning, UserWarning))] == []


def test_what_the_adapter_uses_of_the_exporter_is_still_there(net):
    """Private parts of executorch, by name: an upgrade that moves one fails here first."""
    from executorch.backends.xnnpack.partition.config.xnnpack_config import logger
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.backend.utils import WhyNoPartition
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    from edgex.delegates.xnnpack.partitioner import REASON_LOGGER

    assert logger.name.startswith(REASON_LOGGER)
    assert {"node", "reason"} <= vars(WhyNoPartition(logger)).keys()
    assert "add.Tensor" in vars(XnnpackPartitioner())["target_partitioner_configs"]
    assert InitializedMutableBufferPass(["a"]).patterns == ["a"]
    assert EdgeCompileConfig(_check_ir_validity=False)._check_ir_validity is False


def test_every_logged_reason_of_the_installed_xnnpack_has_a_rule_or_is_about_quantization():
    """Reads the texts out of the installed package, so that an upgrade with new ones is noticed."""
    import executorch.backends.xnnpack.partition.config as config

    from edgex.delegates.xnnpack.reasons import RULES

    quantized = re.compile("quant|precision type|source partition|getitem|choose_qparam|scale/zp|single output|groups")
    texts = []
    for path in Path(next(iter(config.__path__))).glob("*.py"):
        for match in re.finditer(r"why\(\s*(?:node|bn),\s*(?:reason=)?\(?\s*((?:f?\"[^\"]*\"\s*)+)", path.read_text()):
            texts.append("".join(re.findall(r"\"([^\"]*)\"", match[1])))
    assert len(texts) > 25
    unknown = [
        text
        for text in texts
        if text != "invalid dtype" and not quantized.search(text) and not any(re.search(r.pattern, text) for r in RULES)
    ]
    assert unknown == []


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_capture_of_a_nested_signature_lowers(precision):
    """The signature is flat by now: containers and torch's named results are not in the program."""
    module = Call(lambda self, x: {"max": x["a"].max(1), "sum": x["a"] + x["b"]})
    dtype = torch.float16 if precision == "fp16" else torch.float32
    inputs = {"a": torch.randn(2, 3, dtype=dtype), "b": torch.randn(2, 3, dtype=dtype)}
    program = capture(module, (copy.copy(inputs),), source_root=HERE).program
    assert len(delegate.lower(program, OPTIONS).methods[0].outputs) == 3


class SoftmaxOfAnImage(nn.Module):
    """Talking heads: convolutions around a softmax over the last dimension, where the channels lie innermost."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inside = self.before(x).softmax(-1)
        return inside, self.after(inside)


def test_softmax_behind_a_convolution_is_over_the_last_dimension(tmp_path: Path) -> None:
    """ExecuTorch 1.5 leaves the image channels-last there; when this passes without `layout_pass`, that can go."""
    torch.manual_seed(0)
    artifact = edgex.export_model(
        SoftmaxOfAnImage().eval(), (torch.randn(1, 4, 7, 9),), target="xnnpack", output=tmp_path, name="heads"
    )
    plan = artifact.manifest.delegation
    assert plan["delegated_ops"] == plan["total_ops"]
