"""Simulators of devices: they compute what the device computes, in another time."""

from __future__ import annotations

from dataclasses import dataclass

from edgex.errors import RunError


@dataclass(frozen=True)
class Simulator:
    """What runs an artifact in place of its device.

    Attributes:
        words: What it is and which device it stands for: `HTP simulator of onnxruntime-qnn 2.7.0 as sm8650 (HTP v75)`.
        seconds: How long sequences are simulated; one that was begun is finished, the first always runs.
    """

    words: str
    seconds: float


def refuse_timing(simulator: Simulator | None, where: str) -> None:
    """Refuse to time what runs in a simulator.

    Args:
        simulator: What runs it in place of its device; None where nothing does.
        where: The artifact, for the message.

    Raises:
        RunError: There is one.
    """
    if simulator is not None:
        raise RunError(
            "times of a simulator say nothing about the device, so none are taken",
            where,
            "edgex verify judges its numbers here; a profile needs the device: --device ssh:USER@HOST",
            why=f"it runs in the {simulator.words}",
        )
