"""What quantizing costs operator by operator: the quantized program fed with float's values at every step."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.bisect.error_growth import Amplified
from edgex.export.bisect.parts.recording import Feed, run_watched
from edgex.export.bisect.parts.steps import Whole
from edgex.export.proof.verification import to_array
from edgex.runtime.session.numerics import EXACT_SQNR_DB, measure_sqnr_db

MOST = 5


def find_losses(whole: Whole, in_float: CapturedProgram, feed: Feed) -> list[Amplified]:
    """The operators of a quantized program that are furthest from float when they read float's values.

    Args:
        whole: The quantized program.
        in_float: What it was made of; its nodes have the same names.
        feed: The inputs.
    """
    wanted = {node.name: step for step in whole.steps for node in step.nodes}
    exact: dict[str, torch.Tensor] = {}

    def keep(node: Node, value: Any) -> None:
        if node.name in wanted and isinstance(value, torch.Tensor) and value.is_floating_point():
            exact[node.name] = value.detach().clone()

    run_watched(in_float, feed, keep)
    losses: dict[str, float] = {}

    def measure(node: Node, value: Any) -> Any:
        if node.name not in exact or not isinstance(value, torch.Tensor) or value.shape != exact[node.name].shape:
            return None
        losses[node.name] = measure_sqnr_db(to_array(exact[node.name]), to_array(value))
        return exact[node.name]

    run_watched(whole.program, feed, measure)
    worst = sorted((error, name) for name, error in losses.items() if error < EXACT_SQNR_DB)[:MOST]
    return [Amplified(wanted[name], EXACT_SQNR_DB, error) for error, name in worst]
