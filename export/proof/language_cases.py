"""What the artifact of a language model has to prove: texts of the lengths at which caches go wrong.

The scores after every call are compared with eager's, which reads the same text from the beginning. Texts differ from
case to case and every case begins with a reset, so that what one leaves behind shows in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from edgex.export.language_model.source import SEED, pieces, random_text
from edgex.export.proof.case_names import check_left_out
from edgex.export.proof.verification import (
    LEAST_SQNR_DB,
    LEFT_OUT,
    Answers,
    AnswersOverMethods,
    QuantizedReference,
    allow_for_rounding,
    leave_out,
)
from edgex.runtime.artifact.golden import Arrays, Case, Step
from edgex.runtime.artifact.language_model import POSITION, TOKENS, LanguageModel
from edgex.runtime.artifact.specs import Dim

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram
    from edgex.export.quantization.running import GraphRunner
    from edgex.export.source.eager import EagerModel
    from edgex.export.target_model import TargetModel

DECODE_STEPS = 32
_AS_QUANTIZED = "{}, as quantized"

# Where a call begins, and its tokens.
Call = tuple[int, np.ndarray]


def make_language_cases(
    program: CapturedProgram,
    eager: EagerModel,
    llm: LanguageModel,
    skip: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
    quantized: QuantizedReference | None = None,
    encoder: TargetModel | None = None,
) -> list[Case]:
    """Every text that the artifact has to read as eager does, and what it has to refuse.

    Args:
        program: What was captured.
        eager: The user's model.
        llm: Its sizes.
        skip: Names of cases that the user chose to leave out; they are listed as skipped.
        progress: Called with each case's name.
        quantized: The quantized program, where there is one: engines are held to it, and to eager by one text.
        encoder: Reads what a text is about, before it: another source for each.

    Raises:
        UsageError: `skip` names a case that does not exist.
    """
    in_float = Answers(program, eager)
    answers = in_float if quantized is None else Answers(program, quantized.model)
    whole = in_float
    encode = encoder_quantized = None
    if encoder is not None:
        encode = EncoderAnswers(encoder)
        whole = AnswersOverMethods({llm.prefill: in_float, encode.method: encode.answers}, llm.prefill)
        if quantized is not None:
            runner = runner_of(encoder)
            quantized.model.share_state([runner])
            encoder_quantized = EncoderAnswers(encoder, runner)
    plans, going_on = _plan_calls(llm), _name_going_on(llm)
    refusals = _plan_refused(llm)
    quantized_names = [_AS_QUANTIZED.format(plans[0][0]), going_on] if quantized is not None else []
    # Before the first answer: each takes the model as long as its text is.
    check_left_out([*(name for name, *_ in (*plans, *refusals)), *quantized_names], skip)
    cases: list[Case] = []

    def answer(name: str, method: str | None, make: Callable[[], Case]) -> None:
        if name in skip:
            cases.append(Case(name, "skipped", method=method, reason=LEFT_OUT))
            return
        progress(name)
        cases.append(make())

    def answer_quantized(name: str, method: str | None, calls: Sequence[Call], number: int) -> Case:
        case = _answer(answers, name, method, calls, encoder_quantized, number)
        return allow_for_rounding(replace(case, reference="quantized"), whole, case.steps[0].inputs)

    for number, (name, method, calls) in enumerate(plans):
        if quantized is None or number == 0:
            answer(name, method, partial(_answer, in_float, name, method, calls, encode, number))
        if quantized is not None:
            own = _AS_QUANTIZED.format(name) if number == 0 else name
            answer(own, method, partial(answer_quantized, own, method, calls, number))
    if quantized is not None:
        answer(going_on, None, partial(_go_on, in_float, llm, encode))
    refused = [Case(name, "refuse", (Step(_inputs(call), {}),), method=method) for name, method, call in refusals]
    cases += refused
    if encoder is not None:  # the artifact's first method is another one
        cases = [replace(case, method=case.method or llm.prefill) for case in cases]
    return leave_out(cases, skip)


def _plan_calls(llm: LanguageModel) -> list[tuple[str, str | None, list[Call]]]:
    """Name, method (None is prefill) and calls of each text; the first is the artifact's example."""
    chunk, context = llm.chunk, llm.context
    lengths = dict.fromkeys((chunk, 1, 2, chunk - 1, chunk + 1, 2 * chunk + 1, context))
    plans: list[tuple[str, str | None, list[Call]]] = []

    def text(length: int) -> np.ndarray:
        return random_text(llm.vocabulary, length, SEED + len(plans))

    def calls(ids: np.ndarray, size: int, first: int = 0) -> list[Call]:
        return [(first + part.start, ids[part]) for part in pieces(len(ids), size)]

    for length in lengths:
        if 1 <= length <= context:
            count = len(pieces(length, chunk))
            how = "one call" if count == 1 else f"{count} calls"
            plans.append((f"text of {_tokens(length)}, {how}", None, calls(text(length), chunk)))
    single = min(context, DECODE_STEPS + 1)
    plans.append((f"text of {_tokens(single)}, token by token", llm.decode, calls(text(single), 1)))
    after, prompt = _steps_after(llm), _prompt_length(llm)
    ids = text(prompt + after)
    decoded = calls(ids[prompt:], 1, prompt)
    plans.append(
        (f"prompt of {_tokens(prompt)}, then {after} more one by one", None, [*calls(ids[:prompt], chunk), *decoded])
    )
    back = prompt // 2
    other = text(min(after, 3))
    plans.append(
        (
            f"prompt of {_tokens(prompt)}, {prompt - back} taken back, another end",
            None,
            [*calls(text(prompt), chunk), *calls(other, 1, back)],
        )
    )
    return plans


def _plan_refused(llm: LanguageModel) -> list[tuple[str, str | None, Call]]:
    """What a Session must not hand to the engine."""
    one = np.zeros(1, np.int64)
    return [
        (f"a token at position {llm.context}: the context is full", None, (llm.context, one)),
        (f"a token at position {llm.context}, decoded: the context is full", llm.decode, (llm.context, one)),
        ("a token at position -1", None, (-1, one)),
        (f"token {llm.vocabulary}, outside the vocabulary", None, (0, one + llm.vocabulary)),
        ("token -1, outside the vocabulary", llm.decode, (0, one - 1)),
        ("no token at all", None, (0, np.zeros(0, np.int64))),
        (f"{llm.chunk + 1} tokens in one call", None, (0, np.zeros(llm.chunk + 1, np.int64))),
    ]


def _steps_after(llm: LanguageModel) -> int:
    return min(DECODE_STEPS, llm.context // 2)


def _prompt_length(llm: LanguageModel) -> int:
    return min(llm.chunk, llm.context - _steps_after(llm))


def _name_going_on(llm: LanguageModel) -> str:
    return f"prompt of {_tokens(_prompt_length(llm))}, and what eager goes on with"


def _go_on(in_float: Answers, llm: LanguageModel, encoder: EncoderAnswers | None) -> Case:
    """A prompt that eager goes on with its likeliest tokens: what quantization costs is read off this text.

    Its scores alone say nothing final, since a small or untrained model is changed a lot by 4 bits; so only another
    text than the model's own fails it.
    """
    prompt = random_text(llm.vocabulary, _prompt_length(llm), SEED - 1)
    begin = () if encoder is None else (encoder.step(0),)
    steps = [in_float.step(_inputs((0, prompt)), from_reset=encoder is None)]
    for position in range(len(prompt), len(prompt) + _steps_after(llm)):
        likeliest = next(iter(steps[-1].outputs.values())).reshape(-1, llm.vocabulary)[-1].argmax()
        call = (position, np.array([likeliest], np.int64))
        steps.append(in_float.step(_inputs(call), from_reset=False))
    return Case(_name_going_on(llm), "compare", (*begin, *steps), min_sqnr_db=LEAST_SQNR_DB)


def _answer(
    answers: Answers,
    name: str,
    method: str | None,
    calls: Sequence[Call],
    encoder: EncoderAnswers | None,
    seed: int,
) -> Case:
    begin = () if encoder is None else (encoder.step(seed),)
    steps = (
        answers.step(_inputs(call), from_reset=number == 0 and encoder is None) for number, call in enumerate(calls)
    )
    return Case(name, "compare", (*begin, *steps), method=method)


def runner_of(model: TargetModel) -> GraphRunner:
    """What runs a method as its target lowers it: quantized, or in floating point where nothing of it is."""
    from edgex.export.quantization.running import GraphRunner

    reference = model.quantized_reference
    return GraphRunner(model.rewritten.program) if reference is None else reference.model


class EncoderAnswers:
    """What an encoder says to sources like its example: its values in other places, at lengths that vary."""

    def __init__(self, model: TargetModel, runner: GraphRunner | None = None) -> None:
        """Say who answers.

        Args:
            model: The method.
            runner: What runs it quantized; None is eager.
        """
        self.method = str(model.source.method)
        self.answers = Answers(model.rewritten.program, model.eager if runner is None else runner)
        self._inputs = model.rewritten.program.inputs
        self._example = self.answers.arrays_of(model.eager.example)

    def step(self, seed: int) -> Step:
        """Read a source, from the initial state; the first is the example."""
        return replace(self.answers.step(self._make_inputs(seed)), method=self.method)

    def _make_inputs(self, seed: int) -> Arrays:
        if seed == 0:
            return self._example
        numbers = np.random.default_rng(SEED + seed)
        sizes: dict[str, int] = {}
        found = {}
        for spec in self._inputs:
            values = self._example[spec.name]
            shape = [
                sizes.setdefault(dim.name, int(numbers.integers(dim.min, dim.max + 1))) if isinstance(dim, Dim) else dim
                for dim in spec.shape
            ]
            found[spec.name] = numbers.choice(values.reshape(-1), shape) if values.size else values
        return found


def _inputs(call: Call) -> Arrays:
    position, ids = call
    return {TOKENS: ids[None], POSITION: np.array([position], np.int64)}


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"
