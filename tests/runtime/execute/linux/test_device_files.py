"""The files of edgex that are sent to a device with Python: they are enough to open what any provider runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from edgex.runtime.engines.onnxruntime.provider.all import PROVIDERS
from edgex.runtime.execute.linux.python import list_modules

# The manifest of a device's artifact names its provider, whose module is imported then only.
OPEN = """
import sys
from types import SimpleNamespace
from edgex.errors import EdgexError
from edgex.runtime.engines.onnxruntime.openings import choose_opening
from edgex.runtime.engines.onnxruntime.provider.opening import MARK
from edgex.runtime.session.runner import EngineSettings

for name in sys.argv[1:]:
    manifest = SimpleNamespace(options={MARK: name, "provider_options": {}}, producer={})
    artifact = SimpleNamespace(manifest=manifest, path=SimpleNamespace(name="net"))
    print(choose_opening(artifact, EngineSettings(1)).provider.name)
"""


def test_every_provider_is_opened_by_the_files_that_are_sent(tmp_path: Path) -> None:
    for place, path in list_modules().items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / place)
    names = [*PROVIDERS]
    assert len(names) > 1
    done = subprocess.run(
        [sys.executable, "-c", OPEN, *names],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == names, done.stderr
