"""How the onnxruntime engine opens an artifact that was made for a Snapdragon's HTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgex.errors import RunError
from edgex.runtime.engines.checks import Check
from edgex.runtime.engines.onnxruntime.provider.opening import ProviderOpening, read_flag
from edgex.runtime.engines.onnxruntime.provider.sessions import OpenedSession, ProviderChoice
from edgex.runtime.engines.qnn.context import CONTEXT_MODEL
from edgex.runtime.engines.qnn.detection import detect
from edgex.runtime.engines.qnn.provider import QNN, describe_simulator, find_htp, find_provider, simulates
from edgex.runtime.session.simulation import Simulator

# How long the cases of a proof are simulated where neither the artifact nor the session says otherwise.
SIMULATION_SECONDS = 120.0


class HtpOpening(ProviderOpening):
    """See `ProviderOpening`; its own settings are whether a context binary is run, and how long cases are simulated."""

    provider = QNN
    device = "Qualcomm HTP, nor its simulator,"
    own_settings = ("context", "simulation_seconds")

    def __call__(self, onnxruntime: Any, model: str, options: Any) -> OpenedSession:
        """See `ProviderOpening`; what runs in the simulator says so.

        Raises:
            TargetUnavailable: A check does not hold here and no fallback is allowed.
            RunError: The provider refuses the model.
        """
        opened = super().__call__(onnxruntime, model, options)
        if not simulates() or QNN.name not in (opened.nodes or {}):
            return opened
        given = self.artifact.manifest.options
        soc = f"{given.get('soc')} (HTP v{given.get('provider_options', {}).get('htp_arch')})"
        simulator = Simulator(describe_simulator(soc), self._seconds)
        what = ", from its context binary" if self._context else ""
        return replace(opened, remark=f"simulated{what}: {simulator.words}", simulator=simulator)

    def find_library(self) -> Path | None:
        """See `ProviderOpening`."""
        return find_provider()

    def look(self, library: Path | None) -> Sequence[Check]:
        """See `ProviderOpening`."""
        chosen = None if library is None or library == find_provider() else library
        return detect(chosen, run_session=False)

    def read_options(self, options: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """See `ProviderOpening`."""
        seconds = given.get("simulation_seconds", self.artifact.manifest.options.get("simulation_seconds"))
        self._seconds = _read_seconds(seconds)
        has_context = bool(self.artifact.manifest.options.get("context"))
        self._context = read_flag(given, "context", default=has_context)
        if self._context and not has_context:
            raise RunError(
                "the artifact holds no context binary", fix="export it with --option context=true, or leave it out"
            )
        return options

    def choose_file(self, model: str) -> str:
        """See `ProviderOpening`; with a context binary nothing is compiled."""
        return str(self.artifact.file(CONTEXT_MODEL)) if self._context else model

    def prepare(self, onnxruntime: Any, choice: ProviderChoice) -> ProviderChoice:
        """See `ProviderOpening`: where the library of the HTP lies is known here only."""
        htp = find_htp()
        return choice if htp is None else replace(choice, options={**choice.options, "backend_path": str(htp)})


def _read_seconds(value: Any) -> float:
    try:
        seconds = SIMULATION_SECONDS if value is None else float(str(value))
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise RunError(f"simulation_seconds={value}: expected a number from 0 on")
    return seconds
