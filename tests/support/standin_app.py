"""What answers for the benchmark app, `am`, `pm`, `logcat` and `run-as` on the stand-in phone.

The words of Android's programs are as Android prints them; the app's are those of samples/android, whose code
`make android-check` runs. Its model doubles its inputs, and sums them up where it has state.
"""

import base64
import hashlib
import json
import re
import struct
import threading
import zlib

import numpy as np

APP = "dev.edgex.app.standin"
CLASS = "dev.edgex.sample.BenchInstrumentation"
LOG = """\
11-21 07:00:01.000   900   900 I ActivityManager: Start proc 4242:{app}/u0a1 for added application
11-21 07:00:02.000  4242  4242 E AndroidRuntime: FATAL EXCEPTION: model
11-21 07:00:02.100  4242  4242 F libc    : Fatal signal 4 (SIGILL), code 1 (ILL_ILLOPC) in tid 4242 (model)
11-21 07:00:02.150   700   701 W OtherApp: somebody's private words
11-21 07:00:02.200  4300  4300 F DEBUG   :     #00 pc 0000000000123456  libexecutorch.so
"""


class StandInApp:
    """The app, and how it misbehaves.

    Attributes:
        fault: None, or what goes wrong: `crash`, `leave` (the phone goes away), `engine`, `other run`, `other model`,
            `damaged`, `wrong outputs`, `silent` (the pieces get lost), `no instrument`, `no start`.
        forbids_pull: Whether the shell may not read the app's folder.
        trace: What a profiling build would record, or None.
        info: What the app says of itself; `run-as` may read its folder where it is debuggable.
    """

    def __init__(self, installed=(APP,), fault=None, **info):
        self.installed, self.fault = list(installed), fault
        self.apk = None
        self.install_failure = None
        self.forbids_pull = False
        self.leaves_during_push = False
        self.running = False
        self.trace = None
        self.info = {
            "protocol": 1, "executorch": "1.5.1", "flavor": "xnnpack", "edgex": "0.1.0",
            "backends": ["XnnpackBackend"], "debuggable": False, **info,
        }  # fmt: skip
        self.tasks = []

    def folder(self, app):
        return self.phone.path(f"/sdcard/Android/data/{app}/files/edgex")

    def on_push(self, phone):
        if self.leaves_during_push:
            phone.drop()

    def answer(self, line, stream):
        """The exit code, or None for lines that a shell answers."""
        for pattern, method in (
            (r"am instrument -w -r (?P<words>.*) (?P<app>[\w.]+)/\S+$", self._instrument),
            (r"am start -S -W -n (?P<app>[\w.]+)/\S+ (?P<words>.*)$", self._start),
            (r"am force-stop (?P<app>[\w.]+)(; (?P<rest>.*))?$", self._stop),
            (r"pidof (?P<app>\S+)", self._pidof),
            (r"run-as (?P<app>\S+) cat (?P<path>\S+)", self._run_as),
            (r"logcat -d .*", self._logcat),
            (r"pm list instrumentation", self._list),
            (r"p=\$\(pm path (?P<app>[\w.]+) .*sha256sum", self._hash),
            (r"cmd package '?install'? .*", self._install),
            (r"(cmd package|pm) '?uninstall'? (?P<app>\S+)", self._uninstall),
        ):
            match = re.match(pattern, line)
            if match:
                return method(stream, **match.groupdict()) or 0
        return None

    def _instrument(self, stream, words, app):
        def say(text):
            stream.stdout(text.encode() + b"\n")

        if self.fault in ("no instrument", "no start"):
            say("java.lang.SecurityException: Permission Denial: not allowed to start instrumentation")
            return 1
        if app not in self.installed:
            say("INSTRUMENTATION_STATUS: Error=Unable to find instrumentation info for: ComponentInfo{x}")
            say("INSTRUMENTATION_STATUS_CODE: -1")
            say(f"INSTRUMENTATION_FAILED: {app}/{CLASS}")
            return 1
        task, run_id = self._arguments(words)
        if task == "job":
            for done in (0, 20, 40):
                say(f"INSTRUMENTATION_STATUS: edgex_stage=measure\nINSTRUMENTATION_STATUS: edgex_done={done}")
                say("INSTRUMENTATION_STATUS: edgex_total=40\nINSTRUMENTATION_STATUS_CODE: 1")
            if self.fault == "leave":
                self.phone.drop()
                raise EOFError
            if self.fault == "crash":
                say("INSTRUMENTATION_RESULT: shortMsg=Process crashed.\nINSTRUMENTATION_CODE: 0")
                return 0
        error = self._refusal(task)
        if error is not None:
            say(f"INSTRUMENTATION_RESULT: edgex_error={json.dumps(error)}\nINSTRUMENTATION_CODE: 0")
            return 0
        text = self._do(task, run_id, app)
        packed = base64.b64encode(zlib.compress(text.encode())).decode()
        if self.fault == "damaged":
            packed = packed[:-12]
        pieces = [packed[at : at + 700] for at in range(0, len(packed), 700)]
        for at, piece in enumerate(pieces):
            if self.fault == "silent" and at == len(pieces) - 1:
                continue
            say(f"INSTRUMENTATION_STATUS: edgex_at={at}\nINSTRUMENTATION_STATUS: edgex_chunks={len(pieces)}")
            say(f"INSTRUMENTATION_STATUS: edgex_chunk={piece}\nINSTRUMENTATION_STATUS_CODE: 2")
        say(f"INSTRUMENTATION_RESULT: edgex_run_id={run_id}\nINSTRUMENTATION_CODE: -1")
        return 0

    def _start(self, stream, app, words):
        if self.fault == "no start":
            stream.stdout(b"Error: Activity not started, unable to resolve Intent\n")
            return 1
        task, run_id = self._arguments(words)
        self.running = True
        threading.Thread(target=self._do, args=(task, run_id, app), daemon=True).start()
        stream.stdout(b"Status: ok\n")
        return 0

    def _stop(self, stream, app, rest):
        self.running = False
        return self.phone.run_shell(rest, stream) if rest else 0

    def _pidof(self, stream, app):
        stream.stdout(b"4242\n" if self.running else b"")
        return 0 if self.running else 1

    def _run_as(self, stream, app, path):
        if not self.info["debuggable"]:
            stream.stdout(f"run-as: package not debuggable: {app}\n".encode())
            return 1
        stream.stdout(self.phone.path(path.strip("'")).read_bytes())
        return 0

    def _logcat(self, stream):
        stream.stdout(LOG.format(app=APP).encode())

    def _list(self, stream):
        lines = [f"instrumentation:{app}/{CLASS} (target={app})\n" for app in self.installed]
        stream.stdout("".join([*lines, "instrumentation:com.other/x.Runner (target=com.other)\n"]).encode())

    def _hash(self, stream, app):
        stream.stdout(f"{hashlib.sha256(self.apk or b'').hexdigest()}  /data/app/base.apk\n".encode())

    def _install(self, stream):
        size = int(re.search(r"-S'? '?(\d+)", self.phone.lines[-1])[1])
        self.apk = stream.read(size)
        if self.install_failure:
            stream.stdout(f"Failure [{self.install_failure}]\n".encode())
            return 1
        if APP not in self.installed:
            self.installed.append(APP)
        stream.stdout(b"Success\n")
        return 0

    def _uninstall(self, stream, app):
        self.installed.remove(app.strip("'"))
        stream.stdout(b"Success\n")

    def _arguments(self, words):
        found = dict(re.findall(r"-{1,2}es? (\w+) (\S+)", words))
        self.tasks.append(found["task"])
        return found["task"], found["run_id"]

    def _refusal(self, task):
        kinds = {"engine": ("engine", "ExecuTorch could not load the model: 0x14"), "digest": ("digest", "it is 1234")}
        if task == "job" and self.fault in kinds:
            kind, message = kinds[self.fault]
            return {"schema": "edgex.device-error/1", "kind": kind, "message": message}
        return None

    def _do(self, task, run_id, app):
        folder = self.folder(app) / f"job-{run_id}"
        folder.mkdir(parents=True, exist_ok=True)
        document = {"schema": "edgex.device-answer/1", "run_id": run_id, "task": task, "app": self.info}
        if task != "describe":
            document |= self._run_job(folder, task)
        if self.fault == "other run" and task == "job":
            document["run_id"] = "0123456789abcdef"
        text = json.dumps(document)
        (folder / "answer.json.part").write_text(text)
        (folder / "answer.json.part").rename(folder / "answer.json")
        return text

    def _run_job(self, folder, task):
        job = json.loads((folder / "job.json").read_text())
        assert folder.name == f"job-{job['run_id']}"
        model = (folder.parent / f"{job['model']['sha256']}.pte").read_bytes()
        digest = "f" * 64 if self.fault == "other model" else hashlib.sha256(model).hexdigest()
        outputs = []
        for at, steps in enumerate(job["sequences"] if task == "job" else []):
            total, shapes = 0, []
            for number, step in enumerate(steps):
                dtype = np.dtype(job["inputs"][0]["dtype"])
                values = np.frombuffer((folder / f"in-{at}-{number}-0.bin").read_bytes(), dtype).reshape(step[0])
                total = values + (total if job["model"]["stateful"] else 0)
                result = 2 * total + (1 if self.fault == "wrong outputs" else 0)
                (folder / f"out-{at}-{number}-0.bin").write_bytes(result.astype(dtype).tobytes())
                shapes.append([step[0]])
            outputs.append(shapes)
        if self.trace is not None:
            (folder / "trace.etdump").write_bytes(self.trace)
        count = 0 if task != "job" else 60 if job["runs"] is None else job["runs"]
        rounds = min(20, count)
        state = {"thermal_status": 0, "battery_celsius": 30.5, "power_save": False, "screen_on": True}
        return {
            "model_sha256": digest,
            "threads": job["threads"] or None,
            "load_mode": job["load_mode"],
            "cold": {"check": 0.1, "engine_import": 0.05, "program": 0.01, "method": 0.02, "first": 0.03,
                     "peak_rss_bytes": 50_000_000},
            "outputs": outputs,
            "steps": len(job["sequences"][0]),
            "rounds": [[0.001 * (1 + r / 1000)] * (count // rounds) for r in range(rounds)],
            "warm_up": {"runs": job["warmup"] or 0, "seconds": 0.01, "settled": None},
            "memory": {"peak_rss_bytes": 60_000_000, "pss_bytes": 40_000_000, "native_heap_bytes": 10_000_000},
            "before": state,
            "after": {**state, "thermal_status": 2},
            "trace": {"written": self.trace is not None, "reason": "the published AAR is built without it"},
            "device": {"model": "Stand-in Phone 1", "emulator": False, "cores": 8, "governor": None},
        }  # fmt: skip


def make_program(backend="XnnpackBackend", size=0):
    """The least that is a .pte to its reader: one method with one delegate; padded to a size."""
    name = backend.encode()
    parts = (
        struct.pack("<I4s", 16, b"ET12"),
        struct.pack("<4H", 8, 8, 0, 4), struct.pack("<iI", 8, 4), struct.pack("<II", 1, 24),
        struct.pack("<10H", 20, 8, *[0] * 7, 4), struct.pack("<iI", 20, 4), struct.pack("<II", 1, 12),
        struct.pack("<4H", 6, 8, 4, 0), struct.pack("<iI", 8, 4), struct.pack("<I", len(name)) + name + b"\0",
    )  # fmt: skip
    return b"".join(parts).ljust(size, b"\0")
