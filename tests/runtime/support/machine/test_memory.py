"""Memory that was freed goes back to the system, which the C library does not do by itself for small blocks."""

import subprocess
import sys
from pathlib import Path

import pytest

# A large block, freed first, makes glibc keep smaller ones; one in 50 stays in use, so that not all end the heap.
SCRIPT = """
import numpy as np
from edgex.runtime.support.machine.memory import give_back_memory

def held_megabytes():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) // 1024

np.ones(30 << 17)
blocks = [np.ones(1 << 17) for _ in range(300)]
kept = blocks[49::50]
full = held_megabytes()
del blocks
freed = held_megabytes()
give_back_memory()
print(full, freed, held_megabytes())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems' libraries keep no such blocks")
def test_freed_blocks_go_back():
    assert Path("/proc/self/status").exists()
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    full, freed, trimmed = map(int, done.stdout.split())
    assert full - trimmed > 250, done.stdout
    assert freed - trimmed > 100, f"nothing was kept that could be given back: {done.stdout}"
