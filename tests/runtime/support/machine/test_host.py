"""The machine is described from what the system says, unknown stays unknown, and disturbances become warnings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgex.runtime.support.machine.activity import (
    Activity,
    Snapshot,
    describe_activity,
    find_disturbances,
    take_snapshot,
)
from edgex.runtime.support.machine.host import HostInfo, read_host
from edgex.runtime.support.machine.memory import read_peak_rss_bytes

CPUINFO = """\
processor	: 0
model name	: Example CPU @ 2.50GHz
physical id	: 0
core id		: 0
flags		: fpu sse4_2 avx avx2 fma avx512f avx512_vnni hypervisor

processor	: 1
model name	: Example CPU @ 2.50GHz
physical id	: 0
core id		: 0
flags		: fpu sse4_2 avx avx2 fma avx512f avx512_vnni hypervisor
"""


@pytest.fixture
def root(tmp_path: Path):
    """Write files of a made-up machine: `root({"proc/cpuinfo": "…"})` gives its root folder."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def test_a_virtual_x86_machine(root):
    host = read_host(root({"proc/cpuinfo": CPUINFO, "proc/meminfo": "MemTotal:       1000 kB\n"}))
    assert host.cpu == "Example CPU @ 2.50GHz"
    assert host.isa == ("sse4_2", "avx", "fma", "avx2", "avx512f", "avx512_vnni")
    assert host.physical_cores == 1  # two threads of one core
    assert host.memory_bytes == 1_024_000
    assert host.virtualised is True
    assert host.governor is None and host.frequency_hz is None and host.cpu_quota is None


def test_governor_and_frequency_of_real_machines(root):
    policy = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_{}"
    files = {
        policy.format(0, "governor"): "powersave\n",
        policy.format(1, "governor"): "performance\n",
        policy.format(0, "cur_freq"): "3400000\n",
    }
    host = read_host(root({"proc/cpuinfo": CPUINFO.replace(" hypervisor", ""), **files}))
    assert host.governor == "performance,powersave"
    assert host.frequency_hz == 3.4e9
    assert host.virtualised is False


def test_an_arm_board(root):
    cpuinfo = "processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd asimddp aes\n"
    host = read_host(root({"proc/cpuinfo": cpuinfo, "proc/device-tree/model": "Example Board 5\0"}))
    assert host.cpu == "Example Board 5"
    assert host.isa == ("asimd", "asimddp")
    assert host.virtualised is None  # no flag says so either way


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "50000 100000\n"}, 0.5),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 2.0),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_the_share_of_time_that_a_container_grants(root, files, quota):
    assert read_host(root(files)).cpu_quota == quota


def test_unknown_is_none(root):
    host = read_host(root({}))
    assert host.isa is None and host.virtualised is None and host.governor is None


def test_this_machine_survives_json():
    host = read_host()
    assert HostInfo.from_json(host.to_json()) == host
    assert host.usable_cores == len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else True
    assert host.memory_bytes > 1 << 20


def test_threads_may_use_what_affinity_and_quota_leave(root):
    host = read_host(root({"sys/fs/cgroup/cpu.max": "10000 100000\n"}))
    assert host.cores_for_threads == 0.1


# ---- what else happened


def snapshot(at=0.0, own=0.0, busy=0.0, steal=0.0, switches=0, load=0.5) -> Snapshot:
    return Snapshot(at, own, busy, steal, switches, load)


def test_a_quiet_machine_gives_no_warning():
    activity = describe_activity(snapshot(), snapshot(at=2.0, own=3.9, busy=3.95, switches=3), cores=4)
    assert activity == Activity(2.0, pytest.approx(0.01), 0.0, 3, 0.5, 0.5)
    assert find_disturbances(activity, 4) == ()


@pytest.mark.parametrize(
    ("after", "code", "words"),
    [
        (snapshot(at=2.0, own=2.0, busy=5.03), "other-load", "other programs kept 1.5 of 4 cores busy"),
        (snapshot(at=2.0, own=2.0, busy=2.0, steal=0.4), "steal", "5.0 % of the CPU time"),
        (snapshot(at=2.0, own=2.0, busy=2.0, switches=1500), "involuntary-switches", "1,500 times in 2.0 s"),
    ],
)
def test_a_disturbed_machine_gives_its_warning(after, code, words):
    (warning,) = find_disturbances(describe_activity(snapshot(), after, cores=4), 4)
    assert warning.code == code
    assert words in warning.text


def test_what_is_not_counted_is_unknown_and_no_warning():
    nothing = Snapshot(0.0, 0.0, None, None, None, None)
    activity = describe_activity(nothing, Snapshot(1.0, 1.0, None, None, None, None), cores=None)
    assert activity == Activity(1.0, None, None, None, None, None)
    assert find_disturbances(activity, None) == ()


def test_counters_of_this_machine_move_forward():
    before = take_snapshot()
    sum(range(200_000))
    after = take_snapshot()
    assert after.at_seconds > before.at_seconds
    assert after.own_seconds > before.own_seconds
    assert Activity.from_json(describe_activity(before, after, 1).to_json()).seconds > 0


# ---- memory


def test_peak_memory_is_read_from_the_kernel(tmp_path):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t  999 kB\nVmHWM:\t  120 kB\n")
    assert read_peak_rss_bytes(status) == 122_880


def test_peak_memory_is_this_process_and_stays_when_memory_is_given_back():
    """In a child: what other tests have used before must not count, nor what the parent has."""
    script = """if True:
        from edgex.runtime.support.machine.memory import read_peak_rss_bytes as peak
        before = peak()
        block = b"x" * (64 << 20)
        del block
        print(before, peak())
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert 1 << 20 < before < 64 << 20
    assert after >= before + (60 << 20)
