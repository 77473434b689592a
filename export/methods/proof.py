"""The proof of an artifact with several methods: each by itself, the verdicts put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.export.proof.stage import Proof, prove

if TYPE_CHECKING:
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import Progress, TargetModel
    from edgex.runtime.artifact.golden import Case
    from edgex.runtime.execute.here.fresh_process import FreshProcess


def prove_methods(
    folder: Path,
    model: TargetModel,
    settings: ExportSettings,
    seal: Callable[[Sequence[Case]], None],
    progress: Progress,
    process: FreshProcess,
    *,
    on_cpu: bool,
) -> Proof:
    """`prove` for every method of the artifact; see there.

    Raises:
        VerificationError: The outputs of one of them are not eager's.
    """
    cases = [list(method.cases) for method in model.methods]
    proofs: list[Proof] = []
    for at, method in enumerate(model.methods):

        def seal_own(changed: Sequence[Case], at: int = at) -> None:
            cases[at] = list(changed)
            seal([case for own in cases for case in own])

        proofs.append(prove(folder, method, settings, seal_own, progress, process, on_cpu=on_cpu))
        cases[at] = list(proofs[-1].cases)
    if len(proofs) == 1:
        return proofs[0]
    names = [method.source.method for method in model.methods]
    return Proof(
        _merge([proof.verdict for proof in proofs]),
        [case for proof in proofs for case in proof.cases],
        tuple(f"{name}: {warning}" for name, proof in zip(names, proofs, strict=True) for warning in proof.warnings),
    )


def _merge(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One `edgex.verify/1` object of several that have passed."""

    def of_all(key: str) -> list[Any]:
        return [entry for verdict in verdicts for entry in verdict[key] or ()]

    agreement = next((verdict["agreement"] for verdict in verdicts if "agreement" in verdict), None)
    errors = [verdict["max_abs_error"] for verdict in verdicts if verdict["max_abs_error"] is not None]
    ratios = [verdict["min_sqnr_db"] for verdict in verdicts if verdict["min_sqnr_db"] is not None]
    return {
        **verdicts[0],
        "max_abs_error": max(errors, default=None),
        "min_sqnr_db": min(ratios, default=None),
        "cases": of_all("cases"),
        "repeats": _merge_repeats(of_all("repeats")) if verdicts[0]["repeats"] is not None else None,
        "nan_inf": of_all("nan_inf"),
        "refuses": of_all("refuses"),
        **({} if agreement is None else {"agreement": agreement}),
    }


def _merge_repeats(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each way of running the cases again, once; see `edgex.runtime.session.repeats.merge_repeats`."""
    merged: dict[str, dict[str, Any]] = {}
    for entry in entries:
        known = merged.setdefault(entry["how"], {**entry, "sequences": 0, "reason": None, "differences": []})
        known["sequences"] += entry["sequences"]
        known["reason"] = known["reason"] or entry["reason"]
        known["differences"] = [*known["differences"], *entry["differences"]]
    return list(merged.values())
