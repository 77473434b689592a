"""A delegate that lowers operators wrongly, for the engine that runs PyTorch itself: real faults on a real engine."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import torch

from edgex.delegates.reference.delegate import ReferenceDelegate
from edgex.export.bisect.report import CaseFigure
from edgex.export.bisect.stage import bisect
from edgex.export.bisect.subject import Subject
from edgex.export.pipeline import prepare_models
from edgex.export.proof.stage import answer_cases
from edgex.export.result import StageClock
from edgex.export.rewrites.editing.editor import ProgramEditor
from edgex.export.settings import ExportSettings, check_settings
from edgex.export.source.source import wrap_model


class WrongDelegate(ReferenceDelegate):
    """As `reference`, but it mistakes some operators for others.

    Args:
        mistakes: Which operator becomes which.
        regions: What it says of its regions, by node name.
        beside: The mistakes are made only in programs that have this operator, too, and not left out.
    """

    leaves_out = True

    def __init__(self, mistakes, regions=None, beside=None):
        self._mistakes, self._regions, self._beside = mistakes, regions or {}, beside

    def lower(self, program, options):
        editor = ProgramEditor(program)
        present = {node.target for node in editor.graph.nodes if node.name not in program.excluded}
        for node in editor.graph.nodes:
            if self._beside is None or self._beside in present:
                node.target = self._mistakes.get(node.target, node.target)
        return replace(super().lower(editor.finish(), options), regions=self._regions)


def make_subject(module, args, mistakes, tmp_path, *, regions=None, beside=None, **settings):
    """An artifact of a model whose delegate makes mistakes; the example is known to be wrong."""
    asked = ExportSettings(("reference",), output=tmp_path / "out", rewrite=False, **settings)
    source = wrap_model(module.eval(), args, {})
    jobs = check_settings(asked, "net")
    _, models, _ = prepare_models(lambda: source, asked, jobs, StageClock(), _quiet)
    delegate = WrongDelegate(mistakes, regions, beside)
    model = replace(models["reference"], job=dataclasses.replace(jobs[0], delegate=delegate))
    model = answer_cases(model, asked, _quiet)
    lowered = delegate.lower(model.program, jobs[0].options)
    return Subject(model, asked, lowered, model.cases, (CaseFigure("example", None, "wrong"),))


def bisect_mistakes(module, args, mistakes, tmp_path, seconds=120.0, looked=None, **given):
    """The answer for such an artifact; `looked` is filled with what was looked at."""

    def note(_stage, detail):
        if looked is not None:
            looked.append(detail)

    return bisect(make_subject(module, args, mistakes, tmp_path, **given), seconds, note)[0]


def operators(places):
    """Names of the operators of faults or growths."""
    return [found.place.op for found in places]


def _quiet(_stage, _detail):
    pass


def randn(*shape, seed=0):
    """Seeded normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
