"""What forward changes in Python: accepted where no output depends on it, refused with the line where one may."""

from pathlib import Path

import pytest
import torch
from capture_checks import X, assert_signature_holds_from_fresh, names
from torch import nn

from edgex.errors import CaptureError
from edgex.export.capture.program import capture

HERE = Path(__file__).parent
SEEN = []


class Layer:
    """One layer of a cache, as libraries write it: an object that is no module."""

    def __init__(self, rows):
        self.keys = torch.zeros(rows, 4)
        self.length = torch.tensor(0)
        self.calls = 0

    def update(self, x):
        self.calls += 1
        self.keys.index_copy_(0, self.length.reshape(1), x[:1])
        self.length.add_(1)
        return self.keys


class Store:
    def __init__(self, rows):
        self.layers = [Layer(rows), Layer(rows)]


class StaticCache(nn.Module):
    """As transformers' TorchExportableModuleWithStaticCache: an object's tensors are buffers of the module too."""

    def __init__(self, reads=""):
        super().__init__()
        self.cache, self.reads = Store(8), reads
        for at, layer in enumerate(self.cache.layers):
            self.register_buffer(f"keys_{at}", layer.keys, persistent=False)
            self.register_buffer(f"length_{at}", layer.length, persistent=False)

    def forward(self, x):
        for layer in self.cache.layers:
            x = x + layer.update(x).sum(0)
            if self.reads and layer.calls > 20:
                x = x * 2
        return x


def test_buffers_that_an_object_refers_to_are_state():
    result = capture(StaticCache().eval(), (X,), source_root=HERE)
    assert names(result.program.state) == ["keys_0", "length_0", "keys_1", "length_1"]
    assert result.notices == (
        "forward also sets self.cache.layers[0].calls, self.cache.layers[1].calls; the artifact does not",
    )
    assert_signature_holds_from_fresh(result)


def test_a_length_in_python_that_is_read_is_refused_by_its_own_name_and_line():
    with pytest.raises(CaptureError, match=r"forward changes self.cache.layers\[0\].calls") as caught:
        capture(StaticCache(reads="calls").eval(), (X,), source_root=HERE)
    assert caught.value.where.endswith("self.calls += 1")


class Flags(nn.Module):
    """Sets, counts and collects, and returns the same."""

    def __init__(self):
        super().__init__()
        self.ran, self.calls, self.shapes, self.last = False, 0, [], {}

    def forward(self, x):
        self.ran = not self.ran
        self.calls += 1
        self.shapes.append(x.shape)
        self.last[f"run {self.calls}"] = x
        SEEN.append(x)
        return x * 2


def test_what_nothing_reads_is_left_out_and_said():
    model = Flags().eval()
    result = capture(model, (X,), source_root=HERE)
    (notice,) = result.notices
    for name in ("self.ran", "self.calls", "self.shapes", "self.last", "SEEN"):
        assert name in notice
    assert torch.equal(result.program.exported.module()(X)[0], X * 2)
    assert model.calls < 10, "what was tried was put back"


class Reads(nn.Module):
    """Each kind of value that only shows in an output after many runs, or at once."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.calls, self.runs, self.seen, self.memo, self.mode = kind, 0, 0, [], {}, "a"

    def forward(self, x):
        if self.kind == "late":
            self.calls += 1  # late
            return x * 2 if self.calls > 1000 else x
        if self.kind == "modulo":
            self.runs += 1  # modulo
            return x * 2 if self.runs % 3 == 0 else x
        if self.kind == "window":
            self.seen.append(x.mean())  # window
            return x + len(self.seen[32:])
        if self.kind == "memo":
            self.memo[len(self.memo)] = x  # memo
            return x + (len(self.memo) == 1 and not self.calls)
        self.mode = {"a": "b", "b": "c", "c": "a"}[self.mode]  # mode
        return x * 2 if self.mode == "c" else x


@pytest.mark.parametrize("kind", ["late", "modulo", "window", "memo", "mode"])
def test_what_an_output_reads_is_refused_with_its_line(kind):
    with pytest.raises(CaptureError, match="and an exported program cannot") as caught:
        capture(Reads(kind).eval(), (X,), source_root=HERE)
    assert caught.value.where.endswith(f"# {kind}")


def test_hooks_that_collect_outputs():
    features = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.kept = nn.Linear(4, 4), nn.Linear(4, 4), features
            self.one.register_forward_hook(lambda _module, _inputs, output: self.kept.append(output))

        def forward(self, x):
            return self.two(self.one(x))

    result = capture(Model().eval(), (X,), source_root=HERE)
    torch.testing.assert_close(result.program.exported.module()(X)[0], result.eager.run([X])[0])
    assert all(type(tensor) is torch.Tensor for tensor in features), "what a trace collected is gone"


def test_outputs_taken_from_hooks_within_the_run():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.kept = nn.Linear(4, 4), nn.Linear(4, 4), []
            self.one.register_forward_hook(lambda _module, _inputs, output: self.kept.append(output))

        def forward(self, x):
            self.kept.clear()
            y = self.two(self.one(x))
            return y, list(self.kept)

    result = capture(Model().eval(), (X,), source_root=HERE)
    assert names(result.program.outputs) == ["output_0", "output_1"]
    torch.testing.assert_close(list(result.program.exported.module()(X)), result.eager.run([X]))


def test_an_object_made_anew_in_every_run():
    class Result:
        def __init__(self, x, runs):
            self.x, self.runs = x, runs

    class Model(nn.Module):
        def __init__(self, reads):
            super().__init__()
            self.reads, self.result = reads, Result(None, 0)

        def forward(self, x):
            self.result = Result(x, self.result.runs + 1)
            return x * (2 if self.reads and self.result.runs > 40 else 1)

    assert capture(Model(False).eval(), (X,), source_root=HERE).notices
    with pytest.raises(CaptureError, match=r"forward changes self\.result\.runs"):
        capture(Model(True).eval(), (X,), source_root=HERE)


def test_parameters_that_the_first_run_initializes():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.ready = nn.Parameter(torch.ones(4)), False

        def forward(self, x):
            if not self.ready:
                self.scale.mul_(3)
                self.ready = True
            return x * self.scale

    result = capture(Model().eval(), (X,), source_root=HERE)
    assert result.notices[0].startswith("the first run changes the weights scale")
    assert torch.equal(result.eager.run([X])[0], X * 3)
    assert torch.equal(result.program.exported.module()(X)[0], X * 3)
