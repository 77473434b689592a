"""The backend at run time: sizes, threads, memory, sessions side by side, events."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from onednn_support import HERE, Network, capture, check, compare, load, lower, needs_onednn
from torch import nn

import edgex
from edgex.cli.run.inspect import command as inspect_command
from edgex.delegates.onednn.delegate import EMULATION_ISA, OneDnnDelegate, OneDnnOptions
from edgex.errors import LoweringError, RunError
from edgex.export.rewrites.precision import convert_precision
from edgex.runtime.engines.isa import missing_isa
from edgex.runtime.engines.onednn import compiled_sizes
from edgex.runtime.engines.onednn.build import SOURCES
from edgex.runtime.engines.onednn.compiled_sizes import FEWEST_KEPT, MOST_CONSTANT_BYTES, MOST_KEPT
from edgex.runtime.engines.onednn.library import find_library

pytestmark = needs_onednn
# Where a script of its own finds this file and what tests share.
SEARCHED = f"{HERE}:{Path(__file__).resolve().parent}"
SIZES = range(1, 21)


def network() -> nn.Module:
    torch.manual_seed(0)
    return Network(
        lambda x, a, b, n, c: c(n(b(F.relu(a(x))) + a(x)).flatten(2).transpose(1, 2)).softmax(-1),
        nn.Conv2d(3, 8, 3, padding=1),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.Linear(8, 5),
    ).eval()


def image(batch: int, size: int = 8) -> torch.Tensor:
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(batch))


def test_more_sizes_than_stay_compiled_and_each_of_them_again() -> None:
    """20 batch sizes, of which 16 stay; then all of them once more."""
    shapes = {"inputs": ({0: torch.export.Dim("batch", min=1, max=32)},)}
    # The batch size itself is read outside of the region, for the view.
    check(network(), image(4), shapes=shapes, left=1, more=[(image(n),) for n in (*SIZES, *SIZES)])


def test_two_dynamic_sizes_through_views_and_pooling() -> None:
    torch.manual_seed(0)
    module = Network(
        lambda x, c, d: d(F.max_pool2d(F.relu(c(x)), 2).flatten(2).transpose(1, 2)),
        nn.Conv2d(3, 8, 3, padding=1),
        nn.Linear(8, 4),
    )
    dims = {0: torch.export.Dim("batch", min=1, max=4), 2: 2 * torch.export.Dim("half", min=2, max=8)}
    more = [(torch.randn(b, 3, 2 * h, 6),) for b, h in ((1, 2), (4, 8), (3, 5))]
    check(module, torch.randn(2, 3, 8, 6), shapes={"inputs": (dims,)}, left=3, more=more)


class FromRest(nn.Module):
    """A recurrent layer whose first state is a constant: all that its first product reads is known."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(8, 8, batch_first=True)
        self.rest = nn.Buffer(torch.zeros(1, 1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.layer(x, self.rest)[0]
        return states[:, -1]


def test_a_product_of_constants_only() -> None:
    torch.manual_seed(0)
    check(FromRest(), torch.randn(1, 2, 8))


def test_lowering_leaves_the_programs_constants_where_they_are() -> None:
    summand = torch.randn(4)
    program = capture(Network(lambda x: F.relu(x) + summand), (torch.randn(2, 4),))
    before = list(program.exported.constants)
    assert before
    lower(program)
    assert list(program.exported.constants) == before


def test_inspect_lists_the_sizes(tmp_path: Path) -> None:
    dims = {"inputs": ({0: torch.export.Dim("batch", min=1, max=32)},)}
    path = tmp_path / "net.onednn.edgex"
    edgex.export_model(network(), (image(4),), target="onednn", dynamic_shapes=dims, output=path)
    done = CliRunner().invoke(inspect_command, [str(path), "--json"])
    assert json.loads(done.output)["compiled_sizes"] == {"at_load": {"batch": 4}, "kept": MOST_KEPT}
    shown = CliRunner().invoke(inspect_command, [str(path)]).output
    assert "compiled    for batch=4 when loaded; for others when first seen, 16 kept" in shown
    source = (SOURCES / "run" / "backend.cpp").read_text()
    assert f"kMostExecutables = {MOST_KEPT};" in source
    assert f"kFewestExecutables = {FEWEST_KEPT};" in source
    assert MOST_CONSTANT_BYTES == 1 << 30 and "kMostConstantBytes = size_t{1} << 30;" in source


@pytest.mark.parametrize(("room", "kept"), [(1000, 16), (5.5, 5), (0.5, 2)])
def test_fewer_sizes_are_kept_where_constants_are_large(room: float, kept: int, tmp_path, monkeypatch) -> None:
    """`room`: for so many programs of this size."""
    dims = {"inputs": ({0: torch.export.Dim("batch", min=1, max=32)},)}
    path = tmp_path / "net.onednn.edgex"
    edgex.export_model(network(), (image(4),), target="onednn", dynamic_shapes=dims, output=path)
    monkeypatch.setattr(compiled_sizes, "MOST_CONSTANT_BYTES", int(room * (path / "model.pte").stat().st_size))
    done = CliRunner().invoke(inspect_command, [str(path), "--json"])
    assert json.loads(done.output)["compiled_sizes"]["kept"] == kept


def test_a_steady_run_takes_no_new_pages() -> None:
    """Arena, scratch and outputs are there after the first runs: no page fault for each intermediate."""
    inputs = [image(1, 64)]
    loaded = load(lower(capture(network(), inputs)))
    arrays = [value.numpy() for value in inputs]
    for _ in range(10):
        loaded.runner.execute(arrays)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        loaded.runner.execute(arrays)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    loaded.runner.close()
    # Each intermediate has 32 pages of 4 KiB; 50 runs with fresh ones would be thousands.
    assert faults < 200, faults


MEMORY_SCRIPT = """
import sys
sys.path[:0] = sys.argv[1].split(':')
from test_onednn_runtime import capture, load, lower, nn, torch
def resident():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return [int(lines[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile")]
torch.manual_seed(0)
x = torch.randn(8, 1024)
small = load(lower(capture(nn.Linear(8, 8), [torch.randn(1, 8)])))
last = nn.Linear(1024, 16), nn.Linear(16, 16 * int(sys.argv[2]))
lowered = lower(capture(nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(16)), *last), [x]))
before = resident()
loaded = load(lowered)
after = resident()
loaded(x)
steady = resident()
print(after[0] - before[0], after[1] - before[1], steady[1] - after[1])
"""


@pytest.mark.parametrize(
    "kilobytes", [pytest.param(n, marks=[pytest.mark.slow] if n != 3 else []) for n in (1, 2, 3, 4)]
)
def test_weights_are_not_held_twice(kilobytes: int) -> None:
    """64 MiB of them: in oneDNN's layout in memory; the file's pages are released while it is loaded.

    Wherever in a page they end: ExecuTorch locks as many pages as they have bytes, which may be one too few.
    """
    command = [sys.executable, "-c", MEMORY_SCRIPT, SEARCHED, str(kilobytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    own, file, later = map(float, done.stdout.split())
    assert own + file < 90, (own, file)
    assert file < 12 and later < 4, (file, later)


CLOSED_SCRIPT = """
import sys
sys.path[:0] = sys.argv[1].split(':')
from test_onednn_runtime import capture, load, lower, nn, torch
def own():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["RssAnon"].split()[0]) / 1024
x = torch.randn(8, 1024)
shapes = {"input": {0: torch.export.Dim("batch", min=1, max=64)}}
lowered = lower(capture(nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))), [x], shapes))
for _ in range(4):
    loaded = load(lowered)
    for batch in (8, 3, 20):
        loaded(torch.randn(batch, 1024))
    loaded.runner.close()
    del loaded
    print(own())
"""


ENDS_SCRIPT = """
import sys, threading
sys.path[:0] = sys.argv[1].split(':')
from test_onednn_runtime import Network, capture, load, lower, nn, torch
def rows(x, *layers):
    for layer in layers:
        x = torch.atan(layer(x))
    return x
layers = [nn.Linear(4 + at % 7, 4 + (at + 1) % 7) for at in range(40)]
lowered = lower(capture(Network(rows, *layers), [torch.ones(2, 4)]))
for _ in range(12):
    loaded = [load(lowered)]
    turn, last = threading.Lock(), threading.Barrier(17)
    def use():
        with turn:
            loaded[0](torch.ones(2, 4))
        last.wait()
    threads = [threading.Thread(target=use) for _ in range(16)]
    for thread in threads:
        thread.start()
    last.wait()
    for thread in threads:
        thread.join()
    loaded.pop().runner.close()
"""


def test_threads_may_end_while_a_program_is_closed() -> None:
    """A race in oneDNN: a quarter of such runs was killed by SIGSEGV before both took turns."""
    subprocess.run([sys.executable, "-c", ENDS_SCRIPT, SEARCHED], check=True)


def test_a_closed_program_leaves_no_constants() -> None:
    """16 MiB of weights, prepared for each of three sizes: oneDNN would keep them behind the program."""
    command = [sys.executable, "-c", CLOSED_SCRIPT, SEARCHED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rounds = [float(line) for line in done.stdout.splitlines()]
    # The second may take what the allocator then keeps; what is left behind would be left by each.
    assert len(rounds) == 4 and rounds[-1] - rounds[1] < 16, rounds


HUGE_SCRIPT = """
import re, sys
sys.path[:0] = sys.argv[1].split(':')
from test_onednn_runtime import capture, load, lower, nn, torch
def asked():
    found = re.findall(r"^Size: +([0-9]+) kB$.*?^VmFlags: ([a-z0-9 ]+)$", open("/proc/self/smaps").read(), re.M | re.S)
    return sum(int(size) for size, flags in found if "hg" in flags.split()) / 1024
def take(layers):
    before = asked()
    x = torch.randn(8, 1024)
    loaded = load(lower(capture(nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(layers))), [x])))
    loaded(x)
    return loaded, asked() - before
few, small = take(1)
many, large = take(16)
many.runner.close()
print(small, large, asked())
"""


def test_constants_of_many_megabytes_lie_in_huge_pages_and_go_with_the_program() -> None:
    """What the system was asked for, which does not depend on whether it has any: 64 MiB of weights, or 4."""
    done = subprocess.run(
        [sys.executable, "-c", HUGE_SCRIPT, SEARCHED], capture_output=True, text=True, check=True, env={**os.environ}
    )
    small, large, left = map(float, done.stdout.split())
    assert small in (0, 4), small  # without AVX-512, layers of the backend itself lie in them from 2 MiB on
    assert 64 <= large < 72, large  # what was too much is given back
    assert left == small, left  # the first program is still loaded


def test_torch_keeps_its_number_of_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        loaded = load(lower(capture(network(), [image(1)])), threads=1)
        with torch.no_grad():
            compare(network()(image(1)), loaded(image(1)))
        assert loaded.runner.threads == 1 and torch.get_num_threads() == 2
        loaded.runner.close()
    finally:
        torch.set_num_threads(before)


THREADS_SCRIPT = """
import sys, tempfile
sys.path[:0] = sys.argv[1].split(':')
from test_onednn_runtime import capture, image, load, lower, network
loaded = load(lower(capture(network(), [image(8, 32)])), threads=int(sys.argv[2]))
import os
before = len(os.listdir("/proc/self/task"))
loaded(image(8, 32))
maps = open("/proc/self/maps").read()
pools = {line.split()[-1] for line in maps.splitlines() if "libgomp" in line}
print(len(pools), len(os.listdir("/proc/self/task")) - before)
"""


def test_openmp_is_there_once_and_running_starts_no_threads() -> None:
    """torch, oneDNN and the backend share one libgomp; after load all its threads are there."""
    command = [sys.executable, "-c", THREADS_SCRIPT, SEARCHED, "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.split() == ["1", "0"]


def test_two_sessions_in_two_threads() -> None:
    module = network()
    lowered = lower(capture(module, [image(2)]))
    sessions = [load(lowered), load(lowered)]
    with torch.no_grad():
        wanted = [module(image(2)), module(image(2) + 1)]
    wrong = []

    def serve(number: int) -> None:
        for _ in range(100):
            try:
                compare(wanted[number], sessions[number](image(2) + number))
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for session in sessions:
        session.runner.close()
    assert not wrong


def test_an_input_of_another_size_is_refused_by_the_backend_too() -> None:
    """The Session checks first; the backend must not read outside of memory all the same."""
    loaded = load(lower(capture(network(), [image(2)])))
    with pytest.raises(RunError):
        loaded.runner.execute([torch.randn(1, 3, 8, 8).numpy()])
    loaded.runner.close()


def test_each_partition_is_an_event(tmp_path: Path) -> None:
    loaded = load(lower(capture(network(), [image(1)])), trace=True)
    loaded(image(1))
    loaded.runner.write_trace(tmp_path / "trace.etdp")
    loaded.runner.close()
    content = (tmp_path / "trace.etdp").read_bytes()
    assert b"convolution+relu" in content and b"softmax" in content


def test_bfloat16_needs_a_processor_that_has_it() -> None:
    program = convert_precision(capture(network(), [image(1)]), "bf16")
    if missing_isa(EMULATION_ISA):
        for options in (OneDnnOptions(), OneDnnOptions(allow_emulated=True)):
            with pytest.raises(LoweringError, match="without which oneDNN has no bf16"):
                OneDnnDelegate().lower(program, options)
        return
    if not missing_isa(("avx512_bf16",)):
        assert OneDnnDelegate().lower(program, OneDnnOptions()).requirements.isa == ("avx512_bf16",)
        return
    for action in (OneDnnDelegate().plan, OneDnnDelegate().lower):
        with pytest.raises(LoweringError, match="no avx512_bf16") as caught:
            action(program, OneDnnOptions())
        assert "allow_emulated=true" in str(caught.value.fix)
    emulated = OneDnnDelegate().lower(program, OneDnnOptions(allow_emulated=True))
    assert emulated.requirements.isa == EMULATION_ISA and any("avx512_bf16" in text for text in emulated.warnings)


def executed(network: nn.Module, inputs: Sequence[torch.Tensor], capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What oneDNN logs of one run."""
    library = ctypes.CDLL(str(find_library()))
    loaded = load(lower(capture(network, inputs)))
    library.dnnl_set_verbose(1)
    try:
        loaded(*inputs)
    finally:
        library.dnnl_set_verbose(0)
        loaded.runner.close()
    ctypes.CDLL(None).fflush(None)
    return [line for line in capfd.readouterr().out.splitlines() if ",exec," in line]


def test_activations_before_sums_and_products_meet_no_reference_kernel(capfd: pytest.CaptureFixture[str]) -> None:
    """GPT-2's GELU, written out; and activations whose results are added, multiplied, compared."""

    def run(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        gelu = 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x**3)))
        return gelu, F.relu(x) + y, x.sigmoid() * y, F.silu(x) + y, torch.maximum(x.exp(), y) * 2

    lines = executed(Network(run), (torch.randn(4, 32), torch.randn(4, 32)), capfd)
    assert lines
    assert [line for line in lines if ",ref" in line] == []


def test_a_sum_is_written_over_what_nothing_reads_any_more(capfd: pytest.CaptureFixture[str]) -> None:
    """oneDNN would copy the one operand to where the result comes; what is read later must stay as it is."""
    torch.manual_seed(0)

    def run(x: torch.Tensor, first: nn.Module, second: nn.Module, third: nn.Module) -> torch.Tensor:
        kept = first(x)
        summed = second(kept) + kept
        summed = third(summed) + summed
        return (first(summed[:, :3]) + summed).relu() + kept

    network = Network(run, nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, padding=1))
    check(network, image(1))

    def chain(x: torch.Tensor, first: nn.Module, second: nn.Module) -> torch.Tensor:
        made = first(x)
        return second(second(second(made).relu()) + made)

    layers = (nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1))
    check(Network(lambda *given: chain(*given) * 2, *layers), image(1))
    lines = executed(Network(lambda *given: chain(*given).flatten(1), *layers), (image(1),), capfd)
    assert sum(",convolution," in line for line in lines) == 4
    assert [line for line in lines if ",reorder,simple" in line] == []
