"""What edgex keeps on a device: models by their digest, and for each run a folder that goes away with it.

```
/sdcard/Android/data/APPLICATION/files/edgex/
  SHA256.pte              a model: stays, and is not sent again; goes with the app, or where the run that sent it failed
  SHA256.pte.part         on its way
  job-RUN/                inputs, outputs and answer of one run
```
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from edgex.errors import DeviceError
from edgex.runtime.artifact.manifest import FileEntry
from edgex.runtime.execute.adb.failure import explain
from edgex.runtime.execute.adb.transport.client import AdbClient

# Left free beside what is sent: answers, outputs, and the system's own needs.
_RESERVE_BYTES = 32 * 2**20


class Store:
    """One app's folder on one device, for one run."""

    def __init__(self, client: AdbClient, folder: str, run_id: str) -> None:
        self._client = client
        self._folder = folder
        self.job = f"{folder}/job-{run_id}"
        self._sent: str | None = None

    def prepare(self, native: FileEntry) -> bool:
        """Remove what interrupted runs left, and look whether the model is there.

        Returns:
            Whether it is, in its full size; the app checks the digest before it uses it.

        Raises:
            DeviceError: The device has no room for it, or does not answer.
        """
        folder, job, model = map(shlex.quote, (self._folder, self.job, self._model(native)))
        done = self._client.shell(
            f'for f in {folder}/job-* {folder}/*.part; do [ "$f" = {job} ] || rm -rf "$f"; done; '
            f"stat -c %s {model} 2>/dev/null || echo -; df -k {folder}"
        )
        lines = done.text.splitlines()
        if done.returncode != 0 or not lines:
            raise explain(self._client, "look into the app's folder", done)
        if lines[0].strip() == str(native.bytes):
            return True
        free = next((int(line.split()[-3]) * 1024 for line in lines[1:] if "%" in line and _has_figures(line)), None)
        if free is not None and free < native.bytes + _RESERVE_BYTES:
            raise DeviceError(
                f"the device has no room left for the model: {native.bytes / 1e6:.0f} MB, free are {free / 1e6:.0f} MB",
                f"adb:{self._client.serial}",
                f"free some space; models of earlier runs are in {self._folder}",
            )
        return False

    def send_model(self, path: Path, native: FileEntry) -> float:
        """Send the model; it gets its name when all of it is there.

        Returns:
            Seconds that it took, by this machine's clock.

        Raises:
            DeviceError: It could not be sent.
        """
        model = self._model(native)
        part = f"{model}.part"
        self._sent = model
        started = time.perf_counter()
        done = self._client.run("push", str(path), part, timeout_seconds=None)
        if done.returncode != 0:
            raise explain(self._client, "send the model", done)
        moved = self._client.shell(f"stat -c %s {shlex.quote(part)} && mv {shlex.quote(part)} {shlex.quote(model)}")
        if moved.returncode != 0 or moved.text.strip() != str(native.bytes):
            raise explain(self._client, "send the model whole", moved)
        return time.perf_counter() - started

    def send_job(self, folder: Path) -> None:
        """Send the content of a folder into this run's own.

        Raises:
            DeviceError: It could not be sent.
        """
        files = [str(path) for path in sorted(folder.iterdir())]
        done = self._client.run("push", *files, f"{self.job}/", timeout_seconds=None)
        if done.returncode != 0:
            raise explain(self._client, "send the inputs", done)

    def fetch(self, names: list[str], folder: Path) -> list[str]:
        """Bring files of this run's folder here.

        Returns:
            The names that did not come.
        """
        self._client.run("pull", *(f"{self.job}/{name}" for name in names), str(folder), timeout_seconds=None)
        return [name for name in names if not (folder / name).is_file()]

    def forget_model(self, native: FileEntry) -> None:
        """Remove a model whose content is not what its name says."""
        self._client.shell(f"rm -f {shlex.quote(self._model(native))}")

    def clean(self, application_id: str, *, failed: bool) -> None:
        """Remove what is this run's own; after a failure end the app, and take back the model if this run sent it."""
        script = f"rm -rf {shlex.quote(self.job)}"
        if failed:
            script = f"am force-stop {application_id}; {script}"
            if self._sent is not None:
                script += f" {shlex.quote(self._sent)} {shlex.quote(self._sent + '.part')}"
        self._client.shell(script)

    def _model(self, native: FileEntry) -> str:
        return f"{self._folder}/{native.sha256}.pte"


def _has_figures(line: str) -> bool:
    words = line.split()
    return len(words) >= 5 and words[-3].isdigit()
