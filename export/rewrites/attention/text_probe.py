"""Computes parts of a language model's program for lengths and positions of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.export.rewrites.editing.editor import constant_tensors, placeholders
from edgex.runtime.artifact.language_model import POSITION, TOKENS
from edgex.runtime.artifact.specs import Dim


class TextProbe:
    """Computes parts of a program for lengths and positions of a text."""

    def __init__(self, program: CapturedProgram) -> None:
        kinds = placeholders(program.exported)
        users = [node for node, spec in kinds if spec.kind is InputKind.USER_INPUT]
        by_name = dict(zip((spec.name for spec in program.inputs), users, strict=True))
        self.position, self.tokens = by_name[POSITION], by_name[TOKENS]
        self.buffers = {node: str(spec.target) for node, spec in kinds if spec.kind is InputKind.BUFFER}
        self._constants = constant_tensors(program)
        chunk = next(spec.shape[1] for spec in program.inputs if spec.name == TOKENS)
        self._longest = chunk.max if isinstance(chunk, Dim) else int(chunk)
        self._known: dict[tuple[int, int], dict[Node, Any]] = {}

    def texts(self, context: int) -> list[tuple[int, int]]:
        """How many tokens, and the first one's position: the ends of what is possible, and between them."""
        longest = min(self._longest, context)
        pairs = [(longest, 0), (1, 0), (1, context - 1), (longest, context - longest), (1, context // 2), (longest, 1)]
        return [pair for pair in dict.fromkeys(pairs) if sum(pair) <= context]

    def compute(self, node: Node, count: int, first: int, besides: Mapping[Node, Any] | None = None) -> Any:
        """The value of a node.

        Args:
            node: Of the program.
            count: How many tokens there are.
            first: The first one's position.
            besides: Values of other nodes, which are not computed.

        Raises:
            LookupError: It depends on more than the text's length and position.
            Exception: An operator refuses these sizes.
        """
        known = self._known.setdefault((count, first), self._given(count, first))
        known = known if besides is None else {**known, **besides}
        pending = [node]
        while pending:
            at = pending[-1]
            missing = [one for one in at.all_input_nodes if one not in known] if at not in known else []
            if at in known or not missing:
                pending.pop()
                if at not in known:
                    if at.op != "call_function":
                        raise LookupError(at.name)
                    args, kwargs = torch.fx.map_arg((at.args, at.kwargs), known.__getitem__)
                    known[at] = at.target(*args, **kwargs)  # type: ignore[operator]  # an operator's call
            else:
                pending += missing
        return known[node]

    def _given(self, count: int, first: int) -> dict[Node, Any]:
        tokens, position = torch.zeros(1, count, dtype=torch.int64), torch.tensor([first])
        return {**self._constants, self.tokens: tokens, self.position: position}
