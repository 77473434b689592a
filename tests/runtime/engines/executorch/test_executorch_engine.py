from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from pte_support import Call, assert_close, captured, write_artifact, write_manifest
from torch import nn

from edgex.errors import ArtifactError, RunError, TargetUnavailable
from edgex.runtime.artifact.manifest import Requirements
from edgex.runtime.artifact.specs import StateSpec
from edgex.runtime.engines.executorch import binding as executorch_binding
from edgex.runtime.engines.executorch import engine as engine_module
from edgex.runtime.engines.executorch.engine import ExecuTorchEngine
from edgex.runtime.engines.executorch.pte import read_pte
from edgex.runtime.engines.executorch.threads import ThreadPool
from edgex.runtime.engines.loading import load
from edgex.runtime.session.runner import EngineSettings


@pytest.fixture(autouse=True)
def all_sessions_closed():
    """A session that a test leaves open would fix the thread count of the next."""
    from edgex.runtime.engines.executorch.threads import POOL

    yield
    assert POOL._open_sessions == 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.conv(x)).mean((2, 3))
        return self.head(torch.cumsum(x, 1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("artifacts")


@pytest.fixture(scope="module")
def net(folder):
    """(artifact folder, module, example input)."""
    torch.manual_seed(0)
    module, example = Net().eval(), torch.randn(2, 3, 8, 8)
    write_artifact(captured(module, example), folder / "net.xnnpack.edgex")
    return folder / "net.xnnpack.edgex", module, example


# Running


def test_outputs_are_eagers(net):
    path, module, example = net
    with load(path) as session:
        (output,) = session.run(example)
        assert output.dtype == np.float32
        assert_close(output, module(example))


def test_executed_on_is_read_from_the_file(net, folder):
    with load(net[0]) as session:
        assert session.executed_on == "executorch: XnnpackBackend, portable"
        assert session.runner.load_seconds.program > 0
        assert session.runner.load_seconds.method > 0
    write_artifact(captured(Call(lambda self, x: torch.cumsum(x, 0)), torch.randn(3)), folder / "portable.edgex")
    with load(folder / "portable.edgex") as session:
        assert session.executed_on == "executorch: portable"


def test_the_planned_arena_is_read_from_the_file(net):
    with load(net[0]) as session:
        # The convolution's region is one; what lies between the regions is [2, 8] and [2, 8] and [2, 4].
        assert 2 * 8 * 4 <= session.runner.planned_arena_bytes < 2 * 3 * 8 * 8 * 4 * 8


def test_an_output_belongs_to_the_caller(net):
    path, _, example = net
    with load(path) as session:
        (first,) = session.run(example)
        kept = first.copy()
        session.run(example * -3)
        np.testing.assert_array_equal(first, kept)
        first[:] = 0
    assert first.flags.writeable


def test_an_input_is_not_copied(net, monkeypatch):
    path, _, example = net
    with load(path) as session:
        pointers = []
        method = session.runner._method

        def listen(tensors, **how):
            pointers.extend(tensor.data_ptr() for tensor in tensors)
            return method(tensors, **how)

        session.runner._method = listen
        # One that ends in the middle of a page: behind the end of a page nothing may be read.
        room = np.empty(example.numel() + 1024, np.float32)
        start = (2048 - (room.ctypes.data + 4 * example.numel())) % 4096 // 4
        array = room[start : start + example.numel()].reshape(example.shape)
        array[:] = example.numpy()
        session.run(array)
        assert pointers == [array.ctypes.data]


def test_a_read_only_input_is_taken_without_a_warning_and_without_a_copy(net):
    path, module, example = net
    array = np.concatenate([example.numpy()] * 2)[:2]
    array.flags.writeable = False
    with load(path) as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        (output,) = session.run(array)
    assert_close(output, module(example))
    assert not array.flags.writeable


def test_a_channels_last_input_is_read_as_what_it_means(net):
    path, module, example = net
    with load(path) as session:
        assert_close(session.run(example.to(memory_format=torch.channels_last))[0], module(example))
        assert_close(session.run(example.transpose(2, 3))[0], module(example.transpose(2, 3)))


def test_an_input_that_is_also_an_output(folder):
    """Not planned, the input's memory would be the output's, which the binding replaces before the run."""

    def forward(self, x):
        return x, x + 1, x.reshape(6), self.m[0].weight

    module = Call(forward, nn.Linear(2, 2))
    write_artifact(captured(module, torch.randn(2, 3)), folder / "passthrough.edgex")
    with load(folder / "passthrough.edgex") as session:
        x = torch.randn(2, 3)
        for actual, expected in zip(session.run(x), module(x), strict=True):
            np.testing.assert_array_equal(actual, expected.detach().numpy())


@pytest.mark.parametrize(
    ("name", "function", "example"),
    [
        ("scalar", lambda self, x: x * 2 + 1, torch.tensor(3.0)),
        ("empty", lambda self, x: torch.cumsum(x, 1) + 1, torch.randn(0, 4)),
        ("integers", lambda self, x: x * 2 + 1, torch.arange(5)),
        ("booleans", lambda self, x: torch.logical_not(x), torch.tensor([True, False, True])),
        ("bfloat16 out", lambda self, x: x.to(torch.bfloat16), torch.randn(7)),
        ("bfloat16 in", lambda self, x: x.float() * 2, torch.randn(7).to(torch.bfloat16)),
        ("half", lambda self, x: torch.tanh(x) * 2, torch.randn(13).half()),
    ],
)
def test_shapes_and_dtypes_of_every_kind(folder, name, function, example):
    module = Call(function)
    path = folder / f"{name.replace(' ', '_')}.edgex"
    write_artifact(captured(module, example), path)
    with load(path) as session:
        (output,) = session.run(example)
        expected = module(example)
        assert output.shape == expected.shape
        assert output.dtype == session.outputs[0].numpy_dtype
        if output.size:
            np.testing.assert_allclose(output.astype(np.float64), expected.double().numpy(), rtol=2e-3)


def test_fp16_convolution_and_linear(folder):
    torch.manual_seed(0)
    half = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval().half()
    example = torch.randn(1, 3, 8, 8).half()
    lowered, _ = write_artifact(captured(half, example), folder / "half_net.edgex")
    assert lowered.plan.fraction == 1.0
    with load(folder / "half_net.edgex") as session:
        assert session.executed_on == "executorch: XnnpackBackend"
        assert_close(session.run(example)[0], half.float()(example.float()), decibels=40)


def test_dynamic_sizes_at_both_ends_and_between(folder):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    shapes = {"input": {0: torch.export.Dim("batch", min=1, max=20), 2: torch.export.Dim("height", min=4, max=16)}}
    program = captured(module, torch.randn(3, 3, 8, 8), dynamic_shapes=shapes)
    write_artifact(program, folder / "dynamic.edgex")
    with load(folder / "dynamic.edgex") as session:
        for batch, height in ((1, 4), (20, 16), (7, 9), (1, 16), (20, 4)):
            x = torch.randn(batch, 3, height, 8)
            assert_close(session.run(x)[0], module(x))
        for batch, height in ((0, 8), (21, 8), (3, 3), (3, 17)):
            with pytest.raises(RunError, match="outside"):
                session.run(torch.randn(batch, 3, height, 8))


def test_memory_behind_an_input_is_never_touched(folder):
    """XNNPACK loads whole vectors; behind the last page of the input lies one that may not be read."""
    module = Call(lambda self, x: torch.relu(x) * 2)
    path = folder / "edge.edgex"
    write_artifact(captured(module, torch.randn(1, 13).half()), path)
    script = f"""
        import ctypes, mmap
        import numpy as np
        from edgex.runtime.engines.loading import load
        size = mmap.PAGESIZE
        memory = mmap.mmap(-1, 2 * size)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(size), 0) == 0
        x = np.frombuffer(memory, np.float16, 13, size - 26).reshape(1, 13)
        x[...] = np.arange(-6, 7)
        with load({str(path)!r}, threads=1) as session:
            (y,) = session.run(x)
        assert y.tolist() == [[max(0.0, float(v)) * 2 for v in range(-6, 7)]], y
        print("whole", flush=True)
        import os; os._exit(0)  # the mapping outlives what the interpreter would free
    """
    done = run_python(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "whole"


def test_a_state_that_the_file_does_not_have(net, folder):
    path = folder / "stateless.edgex"
    shutil.copytree(net[0], path)
    lowered = lowered_like(path, state=(StateSpec("cache", "float32", (2,)),))
    write_manifest(path, lowered)
    with pytest.raises(RunError, match="could not find the state 'cache'"):
        load(path)


def lowered_like(path, **method_changes):
    """What `write_manifest` reads of a lowered module, taken from an artifact with a changed method."""
    from types import SimpleNamespace

    from edgex.runtime.artifact.artifact import open_artifact

    manifest = open_artifact(path).manifest
    return SimpleNamespace(
        files=tuple(entry.path for entry in manifest.files),
        methods=(replace(manifest.method, **method_changes),),
        plan=SimpleNamespace(to_json=lambda: manifest.delegation),
        requirements=manifest.requirements,
        options={},
    )


# Threads


def test_the_first_open_session_fixes_the_thread_count(net):
    with load(net[0], threads=1) as first:
        assert first.threads == 1
        with load(net[0]) as joined:
            assert joined.threads == 1
        with load(net[0], threads=1) as same:
            assert same.threads == 1
        with pytest.raises(RunError, match="2 threads asked for, but open sessions run with 1"):
            load(net[0], threads=2)
    with load(net[0], threads=2) as second:
        assert second.threads == 2
        assert_close(second.run(net[2])[0], net[1](net[2]))


def test_a_failed_load_leaves_no_place_taken(net, folder):
    path = folder / "broken.edgex"
    shutil.copytree(net[0], path)
    data = (path / "model.pte").read_bytes()
    (path / "model.pte").write_bytes(data[: len(data) // 2])
    write_manifest(path, lowered_like_files(path))
    for _ in range(2):
        with pytest.raises((RunError, ArtifactError)):
            load(path, threads=1)
    with load(net[0], threads=2) as session:
        assert session.threads == 2


def lowered_like_files(path):
    """The same for a folder whose files no longer fit its manifest."""
    from types import SimpleNamespace

    from edgex.runtime.artifact.manifest import parse_manifest

    manifest = parse_manifest((path / "manifest.json").read_text(), path.name)
    return SimpleNamespace(
        files=tuple(entry.path for entry in manifest.files),
        methods=manifest.methods,
        plan=SimpleNamespace(to_json=lambda: manifest.delegation),
        requirements=manifest.requirements,
        options={},
    )


def test_a_pool_that_stays_another_size_is_an_error(monkeypatch):
    monkeypatch.setattr(executorch_binding, "thread_count", lambda: 3)
    monkeypatch.setattr(executorch_binding, "reset_thread_pool", lambda threads: None)
    pool = ThreadPool()
    with pytest.raises(RunError, match="has 3 threads after 5 were asked for"):
        pool.join(5)
    assert pool.join(3) == 3  # nobody was counted in


def test_two_sessions_in_two_threads_give_right_results(net):
    path, module, _ = net
    failures = []

    def work(session, seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(30):
            x = torch.randn(2, 3, 8, 8, generator=generator)
            try:
                with torch.no_grad():
                    assert_close(session.run(x)[0], module(x))
            except BaseException as error:  # a thread's exception would be lost
                failures.append(error)

    with load(path) as one, load(path) as two:
        threads = [threading.Thread(target=work, args=(s, seed)) for seed, s in enumerate((one, two, one))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


# Errors


def test_a_truncated_program_is_not_a_crash(net, folder):
    data = (net[0] / "model.pte").read_bytes()
    for name, content in (
        ("empty", b""),
        ("text", b"not a program at all"),
        ("cut", data[:100]),
        ("half", data[: len(data) // 2]),
    ):
        path = folder / f"{name}-program.edgex"
        shutil.copytree(net[0], path)
        (path / "model.pte").write_bytes(content)
        write_manifest(path, lowered_like_files(path))
        with pytest.raises((ArtifactError, RunError)) as caught:
            load(path)
        assert caught.value.exit_code == 6
        assert caught.value.why


def test_an_error_carries_what_executorch_wrote(net, capfd):
    with load(net[0]) as session:
        with pytest.raises(RunError) as caught:
            session.runner.execute([np.zeros((2, 3, 8, 8), np.float32)] * 2)
        assert (
            caught.value.what
            == "ExecuTorch could not run the program: an argument does not fit the program (InvalidArgument, 0x12)"
        )
        assert "Invalid number of inputs provided. Expected 1, but got 2" in caught.value.why
        assert caught.value.where == "net.xnnpack.edgex"
        assert_close(session.run(net[2])[0], net[1](net[2]))  # the session lives on
    assert capfd.readouterr().err == ""


def test_a_backend_that_is_not_there_is_named(net, monkeypatch):
    fail_to_load(monkeypatch, "loading method forward failed with error 0x20")
    monkeypatch.setattr(executorch_binding, "backend_names", lambda: frozenset({"OtherBackend"}))
    with pytest.raises(RunError) as caught:
        load(net[0])
    assert (
        caught.value.what
        == "the program needs the backend XnnpackBackend, which the installed executorch does not have"
    )
    assert "OtherBackend" in caught.value.fix


def test_a_kernel_that_is_not_there_is_named(net, monkeypatch):
    fail_to_load(monkeypatch, "loading method forward failed with error 0x14")
    kernels = executorch_binding.operator_names() - {"aten::cumsum.out"}
    monkeypatch.setattr(executorch_binding, "operator_names", lambda: kernels)
    with pytest.raises(RunError, match=r"no kernel for aten::cumsum\.out"):
        load(net[0])


def fail_to_load(monkeypatch, text):
    class Program:
        def load_method(self, name):
            raise RuntimeError(text)

    monkeypatch.setattr(executorch_binding, "load_program", lambda path, trace: Program())


def test_another_count_of_outputs_is_an_error(net):
    with load(net[0]) as session:
        session.runner._method = lambda tensors, **how: [torch.zeros(1)] * 2
        with pytest.raises(RunError, match="returned 2 outputs, the manifest names 1"):
            session.run(net[2])


def test_unknown_options_are_refused(net):
    with pytest.raises(RunError, match="no option 'tracing'") as caught:
        load(net[0], options={"tracing": True})
    assert "did you mean 'trace'" in caught.value.why
    with pytest.raises(RunError, match="must be True or False"):
        load(net[0], options={"trace": 1})


def test_a_trace_is_recorded_only_on_request(net, tmp_path):
    with load(net[0]) as session:
        session.run(net[2])
        with pytest.raises(RunError, match="no events were recorded"):
            session.runner.write_trace(tmp_path / "trace.etdump")
    with load(net[0], options={"trace": True}) as session:
        assert_close(session.run(net[2])[0], net[1](net[2]))
        session.runner.write_trace(tmp_path / "trace.etdump")
        assert (tmp_path / "trace.etdump").stat().st_size > 100
        with pytest.raises(RunError, match="the trace cannot be written"):
            session.runner.write_trace(tmp_path / "no" / "folder" / "trace.etdump")


def test_an_artifact_of_a_newer_executorch_is_refused_by_version(net, folder):
    path = folder / "newer.edgex"
    shutil.copytree(net[0], path)
    write_manifest(path, lowered_like(path), requirements=Requirements("executorch", "99.0"))
    with pytest.raises(TargetUnavailable, match=r"needs executorch 99\.0 or newer") as caught:
        load(path)
    assert caught.value.fix == "pip install 'executorch>=99.0'"
    write_manifest(path, lowered_like(path), requirements=Requirements("executorch", "1.0", plugins=("libonednn.so",)))
    with pytest.raises(TargetUnavailable, match=r"plug-in libonednn\.so"):
        load(path)


def test_a_missing_torch_comes_with_the_command(monkeypatch):
    monkeypatch.setattr(engine_module, "installed_version", lambda name: None if name == "torch" else "1.5.1")
    engine = ExecuTorchEngine()
    availability = engine.availability()
    assert (availability.available, availability.reason) == (False, "torch is not installed")
    assert availability.fix == "pip install 'edgex-toolchain[run-xnnpack]'"
    assert engine.versions() == {"executorch": "1.5.1"}
    executorch_binding.import_binding.cache_clear()
    monkeypatch.setattr(executorch_binding, "find_spec", lambda name: None if name == "torch" else object())
    with pytest.raises(TargetUnavailable) as caught:
        executorch_binding.import_binding()
    assert caught.value.exit_code == 7
    assert caught.value.fix == "pip install 'edgex-toolchain[run-xnnpack]'"


def test_closing_lets_go_of_the_program(net):
    session = load(net[0])
    session.close()
    session.close()
    assert session.runner._method is None
    with pytest.raises(RunError, match="closed"):
        session.run(net[2])


# The adapter


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)


def test_a_run_imports_no_exporter_and_prints_nothing(net):
    done = run_python(f"""
        import sys
        import numpy as np
        from edgex.runtime.engines.loading import load
        with load({str(net[0])!r}) as session:
            session.run(np.ones((2, 3, 8, 8), np.float32))
        heavy = ("executorch.exir", "executorch.runtime", "pandas")
        print([name for name in heavy if name in sys.modules])
    """)
    assert done.stdout.strip() == "[]", done.stderr
    assert done.stderr == ""


def test_what_the_adapter_uses_of_the_binding_is_still_there(net):
    """Private parts of executorch, by name: an upgrade that moves one fails here first."""
    module = executorch_binding.import_binding()
    assert [name for name in executorch_binding.BINDING_NAMES if not hasattr(module, name)] == []
    assert hasattr(module.Verification, "InternalConsistency")
    program = executorch_binding.load_program(net[0] / "model.pte", False)
    assert [name for name in executorch_binding.PROGRAM_NAMES if not hasattr(program, name)] == []
    method = program.load_method("forward")
    assert [name for name in executorch_binding.METHOD_NAMES if not hasattr(method, name)] == []
    assert "XnnpackBackend" in executorch_binding.backend_names()
    assert {"aten::cumsum.out", "aten::convolution.out"} <= executorch_binding.operator_names()


def test_the_file_reader_agrees_with_the_exporters_own(net):
    from executorch.exir._serialize._program import deserialize_pte_binary

    data = (net[0] / "model.pte").read_bytes()
    decoded = deserialize_pte_binary(data)
    plan = getattr(decoded, "program", decoded).execution_plan[0]
    summary = read_pte(net[0] / "model.pte")
    assert summary.backends == tuple(item.id for item in plan.delegates)
    assert summary.operators == tuple(f"{op.name}.{op.overload}" for op in plan.operators)
    assert summary.planned_arena_bytes == sum(plan.non_const_buffer_sizes[1:])


def test_a_settings_object_reaches_the_runner(net):
    from edgex.runtime.artifact.artifact import open_artifact

    session = ExecuTorchEngine().open(open_artifact(net[0]), EngineSettings(threads=1))
    assert session.threads == 1
    session.close()
