"""An Android device as all devices are used: send what is missing, run, bring back the answer, clean up."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from edgex.errors import DeviceError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.executorch.pte import PteSummary, read_pte
from edgex.runtime.execute.adb.answer import PROTOCOL, require_model
from edgex.runtime.execute.adb.app.apk import Apk
from edgex.runtime.execute.adb.app.app import InstalledApp, ensure_app, remove_app
from edgex.runtime.execute.adb.convert import make_result, output_names
from edgex.runtime.execute.adb.description import Description, describe_device
from edgex.runtime.execute.adb.job import check_artifact, check_request, read_outputs, write_job
from edgex.runtime.execute.adb.store import Store
from edgex.runtime.execute.adb.tasks import AppRunner, Reply, Task
from edgex.runtime.execute.adb.transport.client import AdbClient
from edgex.runtime.execute.base import (
    Closing,
    Keep,
    Prepared,
    Progress,
    keep_nothing,
    no_progress,
    prepare_sequences,
    refuse_what_needs_this_machine,
)
from edgex.runtime.execute.request import DeviceInfo, RunRequest, RunResult
from edgex.runtime.execute.tracing import read_recorded
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.machine.host import HostInfo

TRACE_FILE = "trace.etdump"


class AdbDevice(Closing):
    """One connected device; each run cleans up after itself. See `edgex.runtime.execute.base.Executor`."""

    engines = ("executorch",)

    def __init__(self, client: AdbClient, choice: Apk | str | None = None) -> None:
        """Nothing is sent yet.

        Args:
            client: For a device that is ready.
            choice: The app, from `check_app_choice`.
        """
        self._client = client
        self._choice = choice
        self._where = f"adb:{client.serial}"

    def describe(self) -> DeviceInfo:
        """See `Executor`."""
        return self._description.info

    @property
    def host(self) -> HostInfo:
        """See `Executor`."""
        return self._description.host

    @cached_property
    def _description(self) -> Description:
        return describe_device(self._client)

    def execute(
        self, artifact: Artifact, request: RunRequest, progress: Progress = no_progress, keep: Keep = keep_nothing
    ) -> RunResult:
        """See `Executor`."""
        refuse_what_needs_this_machine(request, self._where)
        check_artifact(artifact, self._where)
        check_request(request)
        prepared = prepare_sequences(artifact, request, one_method=True)
        if 0 in prepared.refused:
            raise prepared.refused[0]
        program = read_pte(artifact.file(".pte"), artifact.manifest.method.entry)
        progress("device", self._where)
        description = self._description
        if description.info.problems:
            raise DeviceError(
                f"{description.info.model} cannot run ExecuTorch's app", self._where, "use another device",
                why="\n".join(description.info.problems),
            )  # fmt: skip
        app = ensure_app(self._client, description, self._choice, progress)
        run_id = secrets.token_hex(8)
        runner = AppRunner(self._client, app, progress)
        store = Store(self._client, runner.folder, run_id)
        failed = True
        try:
            result = self._execute(artifact, program, request, prepared, description, runner, store, run_id, progress)
            failed = False
            return result
        finally:
            self._clean_up(store, app, failed)

    def _execute(
        self,
        artifact: Artifact,
        program: PteSummary,
        request: RunRequest,
        prepared: Prepared,
        description: Description,
        runner: AppRunner,
        store: Store,
        run_id: str,
        progress: Progress,
    ) -> RunResult:
        native = artifact.manifest.file(".pte")
        # The app answers first: it makes the folder that only it can make so that it may read what is put there.
        hello = runner.run(Task("describe", run_id)).document
        self._require_fit(artifact, program, hello)
        copy_seconds = None
        if not store.prepare(native):
            progress("copy", f"the model, {native.bytes / 1e6:.1f} MB")
            copy_seconds = store.send_model(artifact.file(".pte"), native)
        with scratch_folder("adb") as folder:
            sent, came = folder / "in", folder / "out"
            sent.mkdir()
            came.mkdir()
            write_job(sent, artifact, request, prepared.sequences, run_id)
            store.send_job(sent)
            reply = self._run_job(runner, store, artifact, run_id)
            cold = [reply.document, *self._run_cold(runner, artifact, run_id, request.fresh_processes - 1)]
            self._fetch(runner, store, output_names(reply.document, self._where), came)
            outputs = read_outputs(came, reply.document["outputs"], artifact, self._where)
            if reply.document["trace"]["written"]:
                self._fetch(runner, store, [TRACE_FILE], came)
            result = make_result(reply, cold, prepared.spread(outputs), description.info, program, self._where)
            recorded = came / TRACE_FILE
            content = recorded.read_bytes() if recorded.is_file() else None
            trace, reason = read_recorded(content, artifact, prepared.sequences[0][0])
            return replace(
                result,
                refused=prepared.refused,
                left_out=prepared.left_out,
                threads_source="default" if request.threads is None else "given",
                copy_seconds=copy_seconds,
                copied_bytes=0 if copy_seconds is None else native.bytes,
                trace=trace,
                no_trace_reason=reason or result.no_trace_reason,
            )

    def _run_job(self, runner: AppRunner, store: Store, artifact: Artifact, run_id: str) -> Reply:
        native = artifact.manifest.file(".pte")
        try:
            reply = runner.run(Task("job", run_id))
            require_model(reply.document, native.sha256, self._where)
            return reply
        except DeviceError as error:
            # What was there under this name is something else: it must not be met again.
            if "another model ran" in error.what or "not the one that was sent" in error.what:
                store.forget_model(native)
            raise

    def _run_cold(self, runner: AppRunner, artifact: Artifact, run_id: str, count: int) -> list[dict[str, Any]]:
        """Further fresh processes: `am instrument` ends the app before it starts it."""
        found = []
        for _ in range(max(0, count)):
            document = runner.run(Task("cold", run_id)).document
            require_model(document, artifact.manifest.file(".pte").sha256, self._where)
            found.append(document)
        return found

    def _fetch(self, runner: AppRunner, store: Store, names: list[str], folder: Path) -> None:
        missing = store.fetch(names, folder) if names else []
        job = store.job.rpartition("/")[2]
        for name in missing:
            content = runner.read_as_app(f"{job}/{name}")
            if content is None:
                raise DeviceError(
                    f"{len(missing)} files of the answer did not come back, the first is {name}", self._where,
                    "a debug build of the app lets run-as read them", why="neither adb pull nor run-as gave them",
                )  # fmt: skip
            (folder / name).write_bytes(content)

    def _require_fit(self, artifact: Artifact, program: PteSummary, hello: dict[str, Any]) -> None:
        """The app must speak this protocol, and its ExecuTorch must be the exporter's, with the model's backends."""
        app = hello.get("app") or {}
        if app.get("protocol") != PROTOCOL:
            raise DeviceError(
                f"the app on the device speaks protocol {app.get('protocol')}, this edgex speaks {PROTOCOL}",
                self._where, "build the app with this edgex: edgex android ARTIFACT -o app --force",
            )  # fmt: skip
        # Apps of versions that knew one engine do not say which.
        if app.get("engine", "executorch") != "executorch":
            raise DeviceError(
                f"the app on the device runs its model on {app['engine']}, and jobs are sent to ExecuTorch",
                self._where, "install an app of an xnnpack artifact: edgex android ARTIFACT -o app",
            )  # fmt: skip
        exporter = artifact.manifest.producer.get("executorch", "unknown").partition("+")[0]
        if app.get("executorch") != exporter:
            raise DeviceError(
                f"the app has ExecuTorch {app.get('executorch')}, the model was exported with {exporter}",
                self._where, "make the app from this artifact: edgex android ARTIFACT -o app --force",
                why="another version may not read the file, or read it wrongly",
            )  # fmt: skip
        missing = sorted(set(program.backends) - set(app.get("backends") or ()))
        if missing:
            raise DeviceError(
                f"the app's ExecuTorch lacks the backend {', '.join(missing)}", self._where,
                "edgex android ARTIFACT -o app --flavor vulkan" if "VulkanBackend" in missing else None,
                why=f"it has {', '.join(app.get('backends') or ()) or 'none'}",
            )  # fmt: skip

    def _clean_up(self, store: Store, app: InstalledApp, failed: bool) -> None:
        try:
            store.clean(app.application_id, failed=failed)
            if failed and app.is_new:
                remove_app(self._client, app)
        except DeviceError:
            # The error that is on its way says more; the next run removes what this one could not.
            if not failed:
                raise
