"""The whole of a pick on one screen, and `edgex.pick`, its door for Python code.

```
list -> find -> capture -> export and prove each -> judge -> heat -> semifinal -> final -> publish the winner
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.export.packaging.package import Destination, resolve_destination
from edgex.export.pick.candidates import FLOAT
from edgex.export.pick.plan import MAX_SECONDS, PickSettings, plan_pick
from edgex.export.pick.result import Objective, Pick
from edgex.export.pick.state import PickState
from edgex.export.settings import ExportSettings
from edgex.runtime.artifact.artifact import SUFFIX
from edgex.runtime.support.arguments import check_mapping, check_path, names_of
from edgex.runtime.support.dependency_messages import quiet_dependencies
from edgex.runtime.support.publish import staged_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgex.export.pick.contenders import Contender, Progress
    from edgex.export.source.source import ModelSource
    from edgex.runtime.execute.base import Executor


def run_pick(
    find: Callable[[], ModelSource],
    settings: PickSettings,
    *,
    name: str,
    executor: Executor | None = None,
    progress: Progress = lambda _stage, _detail: None,
) -> Pick:
    """Pick the best artifact of a model for this machine or a device, and keep it with its threads and settings.

    Args:
        find: Gives the model; called once, after the settings were checked.
        settings: What is asked.
        name: The artifact's NAME.
        executor: The device that they are timed on; None is this machine.
        progress: Called with a stage and a detail as work goes on.

    Raises:
        UsageError: A flag is wrong, or the model cannot be found.
        DeviceError: The device cannot be reached.
        CaptureError: The model cannot be captured.
        VerificationError: Nothing meets the budget.
        RunError: Nothing could be timed.
    """
    plan = plan_pick(settings, name, executor)
    output = settings.export.output
    home = (output or Path()) / name if output is None or output.suffix != SUFFIX else output
    with staged_folder(home, kin=SUFFIX, purpose="-pick") as trials, quiet_dependencies():
        state = PickState(plan, settings, executor)
        with _kept_when_interrupted(state):
            source = find()
            state.model = source.description
            state.run(source, name, trials, progress)
        if state.interrupted:
            return state.result(None)
        winner = state.winner
        destination = resolve_destination(
            output, name, winner.candidate.target, force=settings.export.force, single=True
        )
        _publish(winner, destination, here=executor is None)
        return state.result(destination.path)


@contextmanager
def _kept_when_interrupted(state: PickState) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        state.interrupted = True


def _publish(winner: Contender, destination: Destination, *, here: bool) -> None:
    """Give the winner its name; where it was timed here, remember its threads and settings for this machine."""
    from edgex.export.packaging.package import publish
    from edgex.runtime.support.tuning import Tuning, write_tuning

    artifact = winner.judged.made.artifact
    destination.path.parent.mkdir(parents=True, exist_ok=True)
    publish(artifact.path, destination)
    if not here:
        return
    write_tuning(
        artifact.digest, Tuning(winner.threads, winner.options),
        {"name": destination.path.name, "median_seconds": {str(winner.threads): winner.seconds}},
    )  # fmt: skip


def pick(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    output: str | Path | None = None,
    targets: Sequence[str] = ("all",),
    precisions: Sequence[str] = ("fp32",),
    recipes: Sequence[str] = (FLOAT,),
    objective: Objective = "latency",
    max_drop: float | None = None,
    min_sqnr_db: float | None = None,
    evaluate: Callable[..., float] | None = None,
    data: Any = None,
    calibration: Any = None,
    threads: Sequence[int] = (),
    max_seconds: float = MAX_SECONDS,
    dynamic_shapes: Any = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    force: bool = False,
    executor: Executor | None = None,
) -> Pick:
    """Export a model in every combination, prove, judge and time them, and keep the best for this machine.

    Args:
        model: An `nn.Module` (it is captured in eval mode, and has its own again afterwards) or an `ExportedProgram`.
        args: Example inputs by position, or in another form that a model file has: one tensor, a dict of those by
            name, or `(tuple, dict)`.
        kwargs: Example inputs by name.
        output: Folder for `NAME.TARGET.edgex`, or a path that ends in `.edgex`; None is the current folder.
        targets: Names of delegates; `all` is every one that works here.
        precisions: Of the float artifacts.
        recipes: Names of recipes; `none` stands for the float artifacts.
        objective: `latency`, `size`, `memory` or `energy`.
        max_drop: How much less than eager float32 `evaluate` may give; without it, the share of noise in the outputs.
        min_sqnr_db: Least SQNR against eager float32.
        evaluate: Takes a function that runs a model, gives a number, higher for better ones.
        data: Held-out samples in the form of the example inputs, or what `--on` takes.
        calibration: Data for recipes that need some.
        threads: Numbers of threads to try; empty chooses.
        max_seconds: How long the close ones are timed.
        dynamic_shapes: As `torch.export.export` takes it.
        options: The delegates' options; `target.key` reaches one.
        name: The artifact's NAME; None is the class name in lower case.
        force: Replace an existing artifact.
        executor: The device that the best is picked for, from `edgex.runtime.execute.address.open_executor`; None is
            this machine.

    Raises:
        EdgexError: What `run_pick` raises; nothing is left on disk then.
    """
    from edgex.export.source.source import wrap_model
    from edgex.export.source.weights import modes_kept

    check_mapping("options", options)
    if output is not None:
        check_path("output", output)
    asked = names_of("targets", targets), names_of("precisions", precisions), names_of("recipes", recipes)
    counts = (threads,) if isinstance(threads, int) else tuple(threads)
    export = ExportSettings(
        targets=(), output=None if output is None else Path(output), force=force, calibration=calibration,
        options=options or {},
    )  # fmt: skip
    settings = PickSettings(
        export, *asked, objective, max_drop, min_sqnr_db, data, counts, max_seconds,
    )  # fmt: skip
    with modes_kept(model):
        source = replace(wrap_model(model, args, kwargs, dynamic_shapes, name), evaluate=evaluate)
        return run_pick(lambda: source, settings, name=source.name, executor=executor)
