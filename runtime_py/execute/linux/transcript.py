"""The answer of a program on a device: JSON, an object a line, read as they come.

```
start {run_id, seconds, peak_rss_bytes}   model {sha256, bytes, seconds}   progress {stage, detail}
loaded {program_seconds, method_seconds, threads, peak_rss_bytes, executed_on?, simulator?}
first {seconds, peak_rss_bytes}   left_out {sequences: […], reason}          # the last ones: not simulated
warmup {runs, seconds, settled}   plan {samples, rounds, calls_per_sample, steps}   round {seconds: […]}
token {id, seconds}   generated {finish, seed, decoded, load_seconds, prefill_seconds, decode_seconds, sampling_seconds}
done {run_id, peak_rss_bytes}     error {kind: input|engine, what, code}
```
"""

from __future__ import annotations

from dataclasses import dataclass

from edgex.errors import DeviceError, EdgexError, RunError
from edgex.runtime.engines.executorch.errors import explain_error
from edgex.runtime.execute.base import Progress
from edgex.runtime.execute.events import Events
from edgex.runtime.execute.linux.link import Done, signal_name
from edgex.runtime.execute.request import FreshRun
from edgex.runtime.support.json.reading import parse_json
from edgex.runtime.support.json.shapes import Anything, Integer, List, Number, Object, Optional, Shape, Text, Truth
from edgex.runtime.support.printable import escape_document

_COUNT, _BYTES, _SECONDS = Integer(0), Optional(Integer(0)), Optional(Number(0))
_EVENTS: dict[str, Shape] = {
    "start": Object({"run_id": Text()}, {"seconds": _SECONDS, "peak_rss_bytes": _BYTES}),
    "model": Object({"sha256": Text()}, {"bytes": _BYTES, "seconds": _SECONDS}),
    "progress": Object({"stage": Anything(), "detail": Anything()}),
    "loaded": Object(
        {"method_seconds": Number(0)},
        {"program_seconds": _SECONDS, "threads": Optional(_COUNT)}
        | {"peak_rss_bytes": _BYTES, "executed_on": Optional(Text()), "simulator": Optional(Text())},
    ),
    "left_out": Object({"sequences": List(_COUNT), "reason": Text()}),
    "first": Object({"seconds": Number(0)}, {"peak_rss_bytes": _BYTES}),
    "warmup": Object({}, {"runs": _COUNT, "seconds": Number(0), "settled": Optional(Truth())}),
    "plan": Object({"samples": _COUNT, "rounds": _COUNT}, {"calls_per_sample": _COUNT, "steps": _COUNT}),
    "round": Object({"seconds": List(Number(0))}),
    "token": Object({"id": _COUNT, "seconds": Number(0)}),
    "generated": Object(
        {"finish": Text("eos|length|context", "no reason why a text ends"), "seed": Optional(_COUNT), "decoded": _COUNT}
        | {f"{part}_seconds": Number(0) for part in ("load", "prefill", "decode", "sampling")},
        {"prompt_tokens": _COUNT, "tokens": _COUNT, "first_token_seconds": Number(0)},
    ),
    "done": Object({"run_id": Text()}, {"peak_rss_bytes": _BYTES}),
    "error": Object({"kind": Text(), "what": Text(lines=True)}, {"code": Optional(Integer(0, (1 << 32) - 1))}),
}


@dataclass
class Transcript:
    """What one process on a device has said so far.

    Attributes:
        run_id: What it must give back.
        device: The device, for messages.
        artifact: The artifact, for messages.
        progress: Told where it is.
        events: What it said.
    """

    run_id: str
    device: str
    artifact: str
    progress: Progress

    def __post_init__(self) -> None:
        self.events = Events(self.progress)
        self.found = self.events.found

    def __call__(self, line: str) -> None:
        """Take in one line; those of others, such as banners of libraries, are passed over."""
        try:
            event = escape_document(parse_json(line))
            name = event["event"]
            shape = _EVENTS.get(name)
        except (ValueError, KeyError, TypeError):
            return
        try:
            if shape is not None:
                shape.check(event, name)
        except ValueError as error:
            raise DeviceError("the device's answer is damaged", self.device, "run it again", why=str(error)) from error
        self.events.take(event)

    def finish(self, done: Done) -> None:
        """Compare the end of the process with what it said.

        Raises:
            DeviceError: It crashed, or the answer is that of another run.
            RunError: The engine refused.
        """
        if "error" in self.found:
            raise self._error(done)
        killed = signal_name(done.code)
        if killed is not None:
            raise DeviceError(
                f"the program on the device was killed by {killed}",
                self.device,
                _SIGNAL_FIXES.get(killed, "try again; if it happens again, please report it"),
                why=done.errors or None,
            )
        if "done" not in self.found:
            raise DeviceError(
                f"the program on the device did not start or did not end well (exit code {done.code})",
                self.device,
                _start_fix(done.errors),
                why=done.errors or None,
            )
        answered = {self.found[name].get("run_id") for name in ("start", "done") if name in self.found}
        if answered != {self.run_id}:
            raise DeviceError(
                "the answer is that of another run", self.device, "run it again", why=f"run id {answered}"
            )

    def cold(self) -> FreshRun:
        """Load, first run and memory of the process.

        Raises:
            DeviceError: It did not say.
        """
        for name in ("loaded", "first"):
            if name not in self.found:
                raise DeviceError("the device's answer is damaged", self.device, "run it again", why=f"no {name!r}")
        start, model, loaded, first = (self.found.get(name, {}) for name in ("start", "model", "loaded", "first"))
        stages = {"interpreter": start, "load": loaded, "first": first}
        return FreshRun(
            check=model.get("seconds"),
            engine_import=start.get("seconds"),
            program=loaded.get("program_seconds"),
            method=float(loaded["method_seconds"]),
            first=float(first["seconds"]),
            peak_rss_bytes=first.get("peak_rss_bytes"),
            stages={name: int(said["peak_rss_bytes"]) for name, said in stages.items() if said.get("peak_rss_bytes")},
        )

    def _error(self, done: Done) -> EdgexError:
        said = self.found["error"]
        if said["kind"] == "input":
            damaged = "SHA-256" in said["what"]
            fix = "remove the folder that is named, and try again" if damaged else None
            return DeviceError(f"the device refused the run: {said['what']}", self.device, fix, why=done.errors or None)
        where = f"{self.artifact} on {self.device}"
        known = explain_error(f"0x{int(said['code']):x}") if said.get("code") else None
        if known is None:
            return RunError(f"the device could not {said['what']}", where, why=done.errors or None)
        code, entry = known
        what = f"ExecuTorch could not {said['what']}: {entry.meaning} ({entry.name}, {code})"
        return RunError(what, where, entry.fix, why=done.errors or None)


_SIGNAL_FIXES = {
    "SIGKILL": "the system killed it, most often because memory ran out",
    "SIGILL": "it holds instructions that the device's processor lacks",
}


def _start_fix(errors: str) -> str | None:
    if "GLIBC" in errors or "CXXABI" in errors:
        return "the device's C or C++ library is too old: bring its system up to date, or run edgex on one as old"
    if "cannot open shared object" in errors or "error while loading shared libraries" in errors:
        return "install the library that is named on the device"
    return None
