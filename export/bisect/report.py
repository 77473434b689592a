"""What a bisection found. JSON schema `edgex.bisect/1`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """An operator in the user's model.

    Attributes:
        op: For example `aten.gelu.default`.
        source: The user's `file.py:line`; None where the program does not carry it.
        module: Path of the module that runs it; `""` is the model.
        dtype: Of what it gives, of the first where it gives several.
        shape: Of the same.
        inputs: What it reads, as `float32[2, 16]`, weights included.
    """

    op: str
    source: str | None
    module: str | None
    dtype: str | None
    shape: tuple[int, ...] | None
    inputs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields as they are named here."""
        return {
            **asdict(self),
            "shape": None if self.shape is None else list(self.shape),
            "inputs": list(self.inputs),
        }

    @property
    def text(self) -> str:
        """In one line, for messages."""
        form = "" if self.dtype is None else f", {self.dtype}{list(self.shape or ())}"
        return f"{self.op} at {self.source or 'no line'} ({self.module or 'the model'}{form})"


@dataclass(frozen=True)
class Workaround:
    """A way on that was tried on the operator alone, and was right.

    Attributes:
        kind: `rewrite`, `exclude` or `target`.
        command: What to run.
        error_db: SQNR with it, in dB; None where it says nothing.
    """

    kind: str
    command: str
    error_db: float | None


@dataclass(frozen=True)
class Fault:
    """Operators whose own error is large: fed with eager's values, they give others.

    Attributes:
        place: The operator; of several that are only wrong together, the last.
        together: The others of these, in program order.
        error_db: SQNR of what it gives against eager, in dB; None where it has none, as for integers, NaN or a crash.
        reason: In words: how far, or what the engine said.
        engine: Who ran it; None where it does not get as far.
        delegated: Whether the delegate took it; None where that is not known.
        runs_differ: Whether repeated runs on the same inputs differ.
        alone_db: Where several are wrong only together: the worst that a half of them is by itself.
        case: On which inputs.
        workarounds: What was tried and is right, the best first.
    """

    place: Place
    error_db: float | None
    reason: str | None
    engine: str | None
    delegated: bool | None
    runs_differ: bool
    case: str | None
    together: tuple[Place, ...] = ()
    alone_db: float | None = None
    workarounds: tuple[Workaround, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """One entry of `born`."""
        return {
            **self.place.to_json(),
            "engine": self.engine,
            "delegated": self.delegated,
            "error_db": _rounded(self.error_db),
            "reason": self.reason,
            "case": self.case,
            "runs_differ": self.runs_differ,
            "together": [place.to_json() for place in self.together],
            "alone_db": _rounded(self.alone_db),
            "workarounds": [{**asdict(way), "error_db": _rounded(way.error_db)} for way in self.workarounds],
        }

    @property
    def text(self) -> str:
        """In one line, for messages."""
        figure = self.reason or "it is wrong"
        if self.together:
            first = self.together[0].source or self.together[0].op
            half = "" if self.alone_db is None else f"; each half of them is right by itself, {self.alone_db:.1f} dB"
            return f"{len(self.together) + 1} operators together, from {first} to {self.place.text}: {figure}{half}"
        return f"{self.place.text}: {figure}{'; repeated runs differ' if self.runs_differ else ''}"


@dataclass(frozen=True)
class Growth:
    """An operator that only enlarges an error: right by itself, further from eager than what it reads."""

    place: Place
    input_db: float
    error_db: float

    def to_json(self) -> dict[str, Any]:
        """One entry of `amplified`."""
        return {
            **self.place.to_json(),
            "input_db": _rounded(self.input_db),
            "error_db": _rounded(self.error_db),
        }


@dataclass(frozen=True)
class CaseFigure:
    """A case that was looked at, with the worst of its outputs; the method where the artifact has several."""

    name: str
    error_db: float | None
    reason: str | None
    method: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One entry of `cases`."""
        own = {} if self.method is None else {"method": self.method}
        return {"name": self.name, **own, "error_db": _rounded(self.error_db), "reason": self.reason}


@dataclass(frozen=True)
class Bisection:
    """The answer.

    Attributes:
        source: Where the model was found.
        target: The delegate.
        cases: Those on which the artifact is wrong; where it is right on all, those that were tried.
        limit_db: What outputs are held to.
        born: Operators that are wrong by themselves, in program order.
        amplified: Operators that enlarge an error.
        quantizing: Of a quantized program: operators that lose most against float by being quantized, the worst first.
        nan_inf: First operator that makes NaN or infinity of finite inputs in eager itself.
        random: First operator whose values differ from run to run in eager.
        ruled_out: What is not at fault, and what was not looked at, a sentence each.
        complete: Whether the time was enough.
        judged: How many parts were lowered and run.
        seconds: What that took.
        repro: Folder of the repro; None where none was asked for, or nothing was found.
        method: Which method this is about; None where the artifact has one.
        others: The answers about other methods.
    """

    source: str | None
    target: str
    cases: tuple[CaseFigure, ...]
    limit_db: float
    born: tuple[Fault, ...] = ()
    amplified: tuple[Growth, ...] = ()
    quantizing: tuple[Growth, ...] = ()
    nan_inf: Place | None = None
    random: Place | None = None
    ruled_out: tuple[str, ...] = ()
    complete: bool = True
    judged: int = 0
    seconds: float = 0.0
    repro: str | None = None
    method: str | None = None
    others: tuple[Bisection, ...] = ()

    @property
    def workaround(self) -> Workaround | None:
        """The first operator's best."""
        return next((way for fault in self.born for way in fault.workarounds), None)

    def to_json(self) -> dict[str, Any]:
        """The `edgex.bisect/1` document."""
        way = self.workaround
        return {
            "schema": "edgex.bisect/1",
            "model": {"source": self.source},
            "target": self.target,
            **({} if self.method is None else {"method": self.method}),
            "cases": [case.to_json() for case in self.cases],
            "limit_db": self.limit_db,
            "born": [fault.to_json() for fault in self.born],
            "amplified": [growth.to_json() for growth in self.amplified],
            "quantizing": [growth.to_json() for growth in self.quantizing],
            "nan_inf": None if self.nan_inf is None else self.nan_inf.to_json(),
            "random": None if self.random is None else self.random.to_json(),
            "ruled_out": list(self.ruled_out),
            "complete": self.complete,
            "judged": self.judged,
            "seconds": round(self.seconds, 3),
            "repro": self.repro,
            "workaround": None if way is None else way.command,
            **({"others": [other.to_json() for other in self.others]} if self.others else {}),
        }

    @property
    def lines(self) -> list[str]:
        """What an error's `why` says of it."""
        found = [f"born at {fault.text}" for fault in self.born]
        found += [
            f"amplified at {growth.place.text}: {growth.input_db:.0f} dB becomes {growth.error_db:.0f} dB"
            for growth in self.amplified[:3]
        ]
        if not self.born:
            found += [
                f"quantizing loses at {growth.place.text}: {growth.error_db:.0f} dB" for growth in self.quantizing[:3]
            ]
        if self.random is not None:
            found.append(f"random: {self.random.text} gives other values at every run in eager, too")
        if self.nan_inf is not None:
            found.append(f"first NaN or infinity, in eager already: {self.nan_inf.text}")
        if not self.born:
            found += self.ruled_out
        if not self.complete:
            found.append(
                f"bisect ran out of time after {self.judged} parts; --time-limit of edgex bisect gives it more"
            )
        return found


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
