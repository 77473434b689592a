"""A .pte on a Linux machine: the native runner, the model, and the plug-ins that it needs."""

from __future__ import annotations

from pathlib import Path

from edgex.errors import DeviceError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.executorch.engine import describe_program
from edgex.runtime.engines.executorch.pte import read_pte
from edgex.runtime.execute.base import Progress
from edgex.runtime.execute.kit.kit import RUNNER, Kit, needed_libc, plugin_kit, runner_kit
from edgex.runtime.execute.linux.link import Link
from edgex.runtime.execute.linux.probe import Probed
from edgex.runtime.execute.linux.program import Program
from edgex.runtime.support.versions import is_older, is_other_series


class NativeMaker:
    """See `edgex.runtime.execute.linux.program.ProgramMaker`."""

    def __init__(self, wheel: Path | None = None) -> None:
        self._wheel = wheel

    def __call__(self, artifact: Artifact, link: Link, there: Probed, progress: Progress) -> Program:
        """Send runner, libraries and model unless they are there."""
        progress("runner", f"for {there.machine}")
        kit = runner_kit(there.machine, self._wheel)
        refuse_version_skew(artifact, kit)
        plugins = plugin_kit(artifact.manifest.requirements.plugins, there.machine, kit.version)
        _refuse_libc(link, there, [kit, *([plugins] if plugins else [])])
        entry = artifact.manifest.file(".pte")
        runner = link.provide("runner", kit.digest, kit.files, progress)
        model = link.provide("model", entry.sha256, {Path(entry.path).name: artifact.file(".pte")}, progress)
        command = [f"{runner}/{RUNNER}", "--model", f"{model}/{Path(entry.path).name}", "--sha256", entry.sha256]
        command += ["--method", artifact.manifest.method.entry]
        if plugins is not None:
            folder = link.provide(plugins.name, plugins.digest, plugins.files, progress)
            command += [part for name in plugins.files for part in ("--plugin", f"{folder}/{name}")]
        summary = read_pte(artifact.file(".pte"), artifact.manifest.method.entry)
        return Program(
            tuple(command),
            entry.sha256,
            describe_program(summary),
            {"executorch": kit.version},
            planned_arena_bytes=summary.planned_arena_bytes,
        )


def refuse_version_skew(artifact: Artifact, kit: Kit) -> None:
    """A program is run by the executorch release that exported it, or a newer one of the same series.

    Raises:
        DeviceError: The runner is older, or of another series.
    """
    exporter = str(artifact.manifest.producer.get("executorch", "")).partition("+")[0]
    if not exporter:
        return
    if is_other_series(kit.version, exporter) or is_older(kit.version, exporter):
        raise DeviceError(
            f"the artifact was exported with executorch {exporter}, the native runner is made from {kit.version}",
            artifact.path.name,
            f"export it again, or install executorch {exporter} here (for another architecture: give its wheel with "
            "--executorch-wheel)",
        )


def _refuse_libc(link: Link, there: Probed, kits: list[Kit]) -> None:
    needed = max(needed_libc(kit) for kit in kits)
    shown = ".".join(map(str, needed))
    if there.info.libc == "musl":
        raise DeviceError(
            f"the device has musl as its C library; the native runner needs glibc {shown} or newer",
            link.address,
            "use a system with glibc, such as Debian or Ubuntu",
        )
    if there.libc is not None and there.libc < needed:
        raise DeviceError(
            f"the device has {there.info.libc}; the native runner, as compiled here, needs glibc {shown} or newer",
            link.address,
            "bring the device's system up to date, or run edgex on a system as old as the device's",
        )
