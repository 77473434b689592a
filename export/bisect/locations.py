"""Where steps are in the user's model, for the report."""

from __future__ import annotations

from torch.fx import Node

from edgex.export.bisect.parts.recording import Recording, TensorForm
from edgex.export.bisect.parts.steps import Step, Whole
from edgex.export.bisect.report import Fault, Place
from edgex.export.bisect.search import Born


class Places:
    """Says of steps where they are in the user's model.

    Args:
        whole: The program.
        recording: Gives dtypes and shapes.
    """

    def __init__(self, whole: Whole, recording: Recording) -> None:
        self._whole, self._forms = whole, recording.forms
        self._steps = {node: step for step in whole.steps for node in step.nodes}

    def step(self, step: Step) -> Place:
        """Of a step."""
        form = next((f for f in (self._forms.get(node.name) for node in step.nodes) if isinstance(f, TensorForm)), None)
        if form is None and isinstance(several := self._forms.get(step.node.name), tuple):
            form = next((part for part in several if isinstance(part, TensorForm)), None)
        reads = (self._forms.get(node.name) for node in step.node.all_input_nodes)
        return Place(
            step.name,
            step.source(self._whole.program.source_root),
            step.module,
            None if form is None else form.text,
            None if form is None else form.shape,
            tuple(f"{read.text}{list(read.shape)}" for read in reads if isinstance(read, TensorForm)),
        )

    def node(self, node: Node) -> Place:
        """Of any node."""
        return self.step(self._steps.get(node) or Step(node, (node,)))

    def fault(self, born: Born) -> Fault:
        """Of what is wrong by itself."""
        verdict = born.verdict
        return Fault(
            self.step(born.steps[-1]),
            verdict.error_db,
            verdict.reason,
            verdict.engine,
            verdict.delegated,
            verdict.runs_differ,
            verdict.case,
            tuple(self.step(step) for step in born.steps[:-1]),
            born.alone,
        )
