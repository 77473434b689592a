"""`why` as a library: no values needed, the plan of an export, every blocker, the cost of what was left out."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from report_support import make_report
from torch import nn

import edgex
from edgex.delegates.base import Availability
from edgex.delegates.graph.torch_internals import FakeTensor
from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate
from edgex.delegates.plan import Fallback, PartitionPlan, group_fallbacks
from edgex.delegates.registry import get_delegate
from edgex.errors import ArtifactError, CaptureError, TargetUnavailable, UsageError
from edgex.export.capture.diagnosis.blockers import find_blockers
from edgex.export.capture.program import capture, capture_unrun
from edgex.export.result import Failure, StageClock
from edgex.export.rewrites import apply_rewrites
from edgex.export.source.source import wrap_model
from edgex.export.why import of_artifact
from edgex.export.why.analysis import answer_model, memory_notices
from edgex.export.why.of_artifact import answer_artifact
from edgex.export.why.question import Question, check_question
from edgex.export.why.report import list_left_out
from edgex.export.why.unweighted import drop_values, give_values
from edgex.export.why.weightless import attempt_on_meta
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.report import views


class Net(nn.Module):
    """Tied weights, a batch norm, state, a tensor that is no buffer, and two outputs."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("count", torch.zeros(1))
        self.scale = torch.full((8,), 2.0)

    def forward(self, ids):
        self.count.add_(1)
        x = self.norm(self.table(ids) * self.scale)
        return {"logits": self.head(x), "count": self.count + 0}


def ids():
    return torch.arange(6) % 3


def test_dropped_values_leave_dtypes_shapes_and_ties():
    model = Net().eval()
    drop_values(model)
    assert model.head.weight is model.table.weight
    assert isinstance(model.table.weight, nn.Parameter)
    tensors = [*model.parameters(), *model.buffers(), model.scale]
    assert all(isinstance(t.data if isinstance(t, nn.Parameter) else t, FakeTensor) for t in tensors)
    assert (tuple(model.scale.shape), model.norm.num_batches_tracked.dtype) == ((8,), torch.int64)


def test_example_inputs_on_meta_become_zeros():
    given = give_values(({"a": torch.rand(2, device="meta")}, torch.ones(3)))
    assert given[0]["a"].tolist() == [0.0, 0.0]
    assert given[1].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_the_program_without_values_is_that_of_an_export(device, tmp_path):
    with torch.device(device):
        model, args = Net().eval(), (torch.zeros(6, dtype=torch.int64),)
    drop_values(model)
    program, _ = capture_unrun(model, give_values(args), source_root=tmp_path)
    real = capture(Net().eval(), (ids(),), source_root=tmp_path).program
    assert (program.inputs, program.outputs, program.state) == (real.inputs, real.outputs, real.state)
    delegate = get_delegate("reference")
    plans = [delegate.plan(apply_rewrites(p)[0], delegate.options_type()) for p in (program, real)]
    assert plans[0] == plans[1]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx-cpu", "xnnpack"])
def test_other_targets_plan_the_same_without_values(target, tmp_path):
    model = Net().eval()
    real = capture(model, (ids(),), source_root=tmp_path).program
    drop_values(model)
    program, _ = capture_unrun(model, (ids(),), source_root=tmp_path)
    delegate = get_delegate(target)
    plans = [delegate.plan(apply_rewrites(p)[0], delegate.options_type()) for p in (program, real)]
    assert plans[0] == plans[1]
    assert plans[0].total_ops > 3


class Spectrogram(nn.Module):
    """A windowed Fourier transform, centred on the samples or not."""

    def __init__(self, center):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.center = center

    def forward(self, x):
        return torch.stft(x, 32, 16, window=self.window, center=self.center, return_complex=True).real * 2


def test_a_spectrogram_is_planned_without_values_and_its_padding_has_a_workaround_that_works():
    left = {}
    for center in (True, False):
        source = wrap_model(Spectrogram(center).eval(), (torch.zeros(1, 128),), {})
        report = answer_model(source, Question(("xnnpack",)), "none", StageClock(), lambda *_: None)
        left[center] = {fallback.op: fallback.workaround for fallback in report.targets[0].plan.fallbacks}
    assert left[True].keys() - left[False].keys() == {"aten.index_select.default"}
    assert "give center=False and pad" in left[True]["aten.index_select.default"]


@torch.library.custom_op("edgex_test_why::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Blocked(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        x = twice(x)
        size = int(x.abs().max().item())
        while x.max() > 3:
            x = x / 2
        return x + size


def test_all_blockers_are_found_not_only_the_first():
    source = wrap_model(Blocked().eval(), (torch.ones(3),), {})
    with pytest.raises(CaptureError) as caught:
        capture_unrun(source.module, source.args, source_root=source.source_root)
    found = find_blockers(source, caught.value)
    assert found[0] is caught.value
    texts = [f"{blocker.what} {blocker.where}" for blocker in found]
    for wanted in ("if x.sum() > 0", "edgex_test_why::twice has no fake kernel", ".item()", "while x.max() > 3"):
        assert sum(wanted in text for text in texts) == 1, texts
    assert all(blocker.fix and blocker.why for blocker in found)
    assert len(found) == 4


class Untidy(nn.Module):
    """One blocker, beside a counter and a log that no output reads."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.seen = []
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.calls += 1
        self.seen.append(x)
        return x / 2 if x.sum() > 0 else x


class Labelled(Untidy):
    def forward(self, x):
        self.scale.add_(1)
        return {"scores": x * self.scale, "labels": {"cat"}, "best": x.detach().numpy()}


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (Blocked, ("if x.sum() > 0", "twice has no fake kernel", ".item()", "while x.max() > 3")),
    ],
)
def test_export_names_every_blocker_that_why_names(model, wanted, tmp_path):
    with pytest.raises(CaptureError) as caught:
        edgex.export_model(model(), (torch.ones(3),), target="reference", output=tmp_path)
    error = caught.value
    texts = [f"{blocker.what} {blocker.where}" for blocker in (error, *error.others)]
    assert all(sum(words in text for text in texts) == 1 for words in wanted), texts
    source = wrap_model(model().eval(), (torch.ones(3),), {})
    found = answer_model(source, Question(("reference",)), "built", StageClock(), lambda *_: None)
    assert {blocker.what for blocker in found.blockers} == {blocker.what for blocker in (error, *error.others)}
    assert all(other.what in str(error) for other in error.others), "Python shows them too"
    document = Failure("reference", error).to_json()
    assert [blocker["what"] for blocker in document["blockers"]] == [error.what, *(o.what for o in error.others)]
    assert (document["stage"], document["exit_code"]) == ("capture", 3)


def test_what_only_a_run_shows_is_named_together(tmp_path):
    with pytest.raises(CaptureError) as caught:
        capture(Labelled().eval(), (torch.ones(3),), source_root=tmp_path)
    named = [blocker.what for blocker in (caught.value, *caught.value.others)]
    assert len(named) == 3
    for words, what in zip(("the parameter scale", "output labels is", "output best is"), named, strict=True):
        assert words in what


def test_looking_for_blockers_leaves_buffers_as_they_were():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return x if x.sum() > 0 else -x

    model = Counts().eval()
    assert len(find_blockers(wrap_model(model, (torch.ones(3),), {}), CaptureError("it fails"))) == 2
    assert model.count.item() == 0


def test_a_model_that_fails_by_itself_keeps_its_own_error():
    source = wrap_model(nn.Linear(3, 2), (torch.ones(4),), {})
    first = CaptureError("it fails")
    assert find_blockers(source, first) == (first,)


def test_what_keeps_a_plan_from_being_made_without_values_is_said_in_a_line():
    def answer():
        raise AssertionError("modes differ\n\nallocated at:\n  File torch.py")

    assert attempt_on_meta(answer) == (
        None,
        "planning without values failed, which is a defect of edgex: AssertionError: modes differ",
    )


def test_a_model_larger_than_the_memory_is_said():
    with torch.device("meta"):
        model = nn.Linear(100_000, 10_000, bias=False)
    (sentence,) = memory_notices(model, [get_delegate("xnnpack")], 11_000_000_000)
    assert sentence == (
        "exporting needs about 12.0 GB of memory, and 11.0 GB are available here: "
        "4.0 GB of weights will lie on disk meanwhile"
    )
    (sentence,) = memory_notices(model, [get_delegate("xnnpack")], 7_000_000_000)
    assert sentence.endswith(
        "7.0 GB are available here: it will be refused, since it needs 8.0 GB beside weights on disk"
    )
    assert memory_notices(model, [get_delegate("xnnpack")], 12_000_000_000) == ()
    assert memory_notices(model, [get_delegate("xnnpack")], None) == ()


def test_merged_fallbacks_add_up():
    one = Fallback("aten.x", 1, "dtype", "why", "a.py:1", modules=("l.0",), flops=10)
    two = replace(one, modules=("l.1",), flops=None)
    (merged,) = group_fallbacks([one, two, one])
    assert (merged.count, merged.modules, merged.flops) == (3, ("l.0", "l.1"), 20)


def test_a_fallback_without_a_workaround_has_that_of_its_code():
    assert "static" in Fallback("aten.x", 1, "dynamic_shape", "why", None).workaround
    assert Fallback("aten.x", 1, "dynamic_shape", "why", None, workaround="pad it").workaround == "pad it"
    assert Fallback("aten.x", 1, "rank", "why", None).workaround is None


def test_a_rewrite_is_offered_only_where_it_was_refused():
    plan = PartitionPlan(0, 1, 0, (Fallback("aten.add", 1, "attribute", "alpha", None, rewrite="split_alpha"),))
    (offered,), (done,) = list_left_out(plan, rewrites_on=False), list_left_out(plan, rewrites_on=True)
    assert (offered.fallback.rewrite, done.fallback.rewrite) == ("split_alpha", None)


@pytest.fixture(scope="module")
def exported_line(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("line")
    return edgex.export_model(nn.Linear(3, 2), (torch.rand(1, 3),), target="reference", output=folder)


@pytest.fixture
def artifact(exported_line, tmp_path):
    """A small artifact that claims to have left out what the made-up profile measured."""
    folder = tmp_path / "net.reference.edgex"
    shutil.copytree(exported_line.path, folder)
    report = make_report(60)
    worst = views.critical_fallbacks(report)[0]
    manifest = json.loads((folder / "manifest.json").read_text())
    left = {"count": 1, "code": "not_in_delegate", "reason": "no operator", "fatal": False}
    manifest["delegation"]["fallbacks"] = [
        {"op": "aten.elsewhere", "source": "net.py:1", **left},
        {"op": worst.operator, "source": worst.source, **left},
    ]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    digest = open_artifact(str(folder)).digest
    return folder, replace(report, artifact=replace(report.artifact, digest=digest)), worst


def test_an_artifact_with_its_profile_shows_what_was_left_out_costs(artifact, tmp_path, monkeypatch):
    folder, report, worst = artifact
    (tmp_path / "report.json").write_text(report.dumps())
    found = answer_artifact(str(folder), tmp_path / "report.json")
    (view,) = found.targets
    assert view.fallback_share == pytest.approx(views.fallback_share(report))
    first, second = view.left_out
    assert (first.fallback.op, second.fallback.op) == (worst.operator, "aten.elsewhere")
    assert first.measured.median_seconds == pytest.approx(worst.group.total_seconds)
    assert second.measured is None
    for least, said in ((0.99, 0), (0.0, 1)):
        monkeypatch.setattr(of_artifact, "LOUD_FALLBACK_SHARE", least)
        assert len(answer_artifact(str(folder), tmp_path / "report.json").notices) == said
    without = answer_artifact(str(folder), None)
    assert (without.targets[0].fallback_share, without.notices) == (None, ())


def test_a_profile_of_another_artifact_is_refused(artifact, tmp_path):
    folder, report, _ = artifact
    (tmp_path / "other.json").write_text(make_report(60).dumps())
    with pytest.raises(UsageError, match="another artifact"):
        answer_artifact(str(folder), tmp_path / "other.json")
    (tmp_path / "bare.json").write_text(replace(report, ops=()).dumps())
    with pytest.raises(UsageError, match="knows no operators"):
        answer_artifact(str(folder), tmp_path / "bare.json")
    with pytest.raises(ArtifactError):
        answer_artifact(str(folder), tmp_path / "none.json")


def test_a_target_that_cannot_be_used_is_told_before_any_slow_step(monkeypatch, tmp_path):
    monkeypatch.setattr(OnnxCpuDelegate, "availability", lambda _: Availability(False, "no onnx", "pip install onnx"))
    (tmp_path / "net.py").touch()
    with pytest.raises(TargetUnavailable, match="cannot be used here") as caught:
        check_question(str(tmp_path / "net.py"), Question(("onnx-cpu",)))
    assert (caught.value.exit_code, caught.value.why, caught.value.fix) == (7, "no onnx", "pip install onnx")
    check_question(str(tmp_path / "net.py"), Question(("onnx-cpu", "reference")))
    source = wrap_model(nn.Linear(2, 2).eval(), (torch.ones(1, 2),), {})
    report = answer_model(source, Question(("onnx-cpu", "reference")), "built", StageClock(), lambda *_: None)
    assert [view.target for view in report.targets] == ["reference"]
    assert [(failure.target, failure.error.exit_code) for failure in report.failures] == [("onnx-cpu", 7)]
