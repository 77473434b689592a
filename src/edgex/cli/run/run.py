"""`edgex run`: run an artifact once and show or save its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgex.cli.failure import print_json
from edgex.cli.files import suggest_file
from edgex.cli.layout import echo_labelled
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import (
    allow_fallback_option,
    artifact_argument,
    check_option,
    common_options,
    inputs_option,
    method_option,
    no_tuned_option,
    output_option,
    threads_option,
)
from edgex.cli.run.place import device_flags, read_place
from edgex.cli.supervisor import supervise
from edgex.errors import RunError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from edgex.runtime.artifact.artifact import CheckLevel
    from edgex.runtime.artifact.card import ImageInput
    from edgex.runtime.artifact.specs import TensorSpec


@make_command("run")
@artifact_argument
@method_option
@inputs_option
@option(
    "--image",
    metavar="NAME:MEAN,STD",
    group="Input and output",
    help="How pictures become the input NAME: scaled to 0..1, then (x - MEAN) / STD; default: as the model card says. "
    "For example x:0.485/0.456/0.406,0.229/0.224/0.225. Behind it, where needed: ,NCHW or ,NHWC (default: as the shape "
    "tells), ,BGR (default: RGB), ,HEIGHTxWIDTH for an input whose size may vary.",
)
@output_option("Write the outputs to this .npz.")
@threads_option("Threads of the run; default: what a sweep found, or the engine's own.")
@no_tuned_option
@check_option
@allow_fallback_option
@option(
    "--allow-non-finite",
    is_flag=True,
    group="Input and output",
    help="Run NaN and infinity also where the artifact is not proved to treat them as PyTorch does.",
)
@device_flags
@common_options(force=True)
def command(
    artifact: str,
    method: str | None,
    inputs: tuple[str, ...],
    image: str | None,
    output: Path | None,
    threads: int | None,
    no_tuned: bool,
    check: CheckLevel,
    allow_fallback: bool,
    allow_non_finite: bool,
    device: str | None,
    timeout: float | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run ARTIFACT once, by default on the example inputs that it carries."""
    if output is not None:
        check_output(output, force)
    place = read_place(device, {"--allow-fallback": allow_fallback})

    def body() -> int:
        from edgex.cli.run.inputs import read_inputs
        from edgex.runtime.artifact.artifact import open_artifact
        from edgex.runtime.artifact.card import read_labels
        from edgex.runtime.execute.run import run_once
        from edgex.runtime.session.by_size import select_by_size

        declared = None if image is None else _read_image_option(image, inputs)
        opened = open_artifact(artifact, check).select(method)
        notes: list[str] = []
        values = read_inputs(inputs, opened, declared, notes=notes, quiet=quiet)
        opened = select_by_size(opened, values)
        options = {"allow_fallback": True} if allow_fallback else {}
        with place.progress(quiet=quiet) as progress, place.opened([opened], tuned=not no_tuned) as executor:
            results, answer = run_once(
                executor,
                opened,
                values,
                threads=threads,
                options=options,
                allow_non_finite=allow_non_finite,
                progress=progress,
            )
        specs = opened.manifest.method.outputs
        if output is not None:
            save_outputs(output, {spec.name: array for spec, array in zip(specs, results, strict=True)})
        document = {
            "schema": "edgex.run/1",
            "artifact": str(opened.path),
            "executed_on": answer.place,
            "assignment": None if answer.assignment is None else dict(answer.assignment),
            "threads": answer.threads,
            "threads_source": answer.threads_source,
            "tuned_options": dict(answer.tuned_options),
            "outputs": _describe_outputs(specs, results, read_labels(opened.manifest.model.get("card", {}))),
            "notes": notes,
            "output_file": None if output is None else str(output),
            "device": answer.describe_device(),
        }
        print_json(document) if as_json else _print_table(document)
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def check_output(path: Path, force: bool) -> None:
    """Refuse an output file that cannot or must not be written, before any slow step.

    Raises:
        UsageError: It is no .npz, exists already, or its folder does not.
    """
    if path.suffix != ".npz":
        raise UsageError(f"-o {path}: outputs are written as .npz", fix=suggest_file(path, ".npz", "outputs"))
    if path.exists() and not force:
        raise UsageError(f"{path} exists", fix="--force replaces it")
    if not path.parent.is_dir():
        raise UsageError(f"no such folder: {path.parent}", where=f"-o {path}")


def save_outputs(path: Path, outputs: dict[str, np.ndarray]) -> None:
    """Write outputs by name; whole or not at all.

    Raises:
        RunError: The disk refuses.
    """
    import numpy as np

    from edgex.runtime.support.publish import disk_errors, replacing

    with disk_errors(RunError, f"cannot write {path}"), replacing(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **outputs)


def _read_image_option(text: str, inputs: Sequence[str]) -> ImageInput:
    """`--image`, which says something of pictures only."""
    from edgex.cli.run.pictures import SUFFIXES
    from edgex.runtime.artifact.card import parse_image_input

    if not any(file.lower().endswith(SUFFIXES) for file in inputs):
        raise UsageError("--image is for pictures, and none is given", fix="give one: -i photo.jpg")
    return parse_image_input(text)


def _describe_outputs(
    specs: Sequence[TensorSpec], results: Sequence[np.ndarray], labels: Sequence[str]
) -> list[dict[str, Any]]:
    from edgex.cli.run.pictures import rank_labels

    return [
        {"name": spec.name, "dtype": spec.dtype, "shape": list(array.shape), **_summarise(array)}
        | {"top": rank_labels(labels, spec, array)}
        for spec, array in zip(specs, results, strict=True)
    ]


def _summarise(array: np.ndarray) -> dict[str, Any]:
    """Smallest, largest and mean finite value, and how many are not finite; null where there is none."""
    import numpy as np

    wide = np.abs(array) if np.iscomplexobj(array) else array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size == 0:
        return {"min": None, "max": None, "mean": None, "non_finite": int(array.size)}
    return {
        "min": float(finite.min()),
        "max": float(finite.max()),
        "mean": float(finite.mean()),
        "non_finite": int(array.size - finite.size),
    }


def _print_table(document: dict[str, Any]) -> None:
    from edgex.runtime.report.figures import count, format_options

    threads, options = document["threads"], document["tuned_options"]
    found = [count(threads, "thread")] if document["threads_source"] == "tuned" else []
    found += [format_options(options)] if options else []
    tuned = f", {', '.join(found)} (tuned)" if found else ""
    click.echo(f"{document['artifact']}  on {document['executed_on']}{tuned}")
    for out in document["outputs"]:
        shape = "x".join(map(str, out["shape"])) or "scalar"
        numbers = (
            "no finite values"
            if out["min"] is None
            else (f"min {out['min']:.6g}  max {out['max']:.6g}  mean {out['mean']:.6g}")
        )
        odd = f"  ({out['non_finite']} NaN or Inf)" if out["non_finite"] else ""
        click.echo(f"  {out['name']}  {out['dtype']}[{shape}]  {numbers}{odd}")
        for row in out["top"] or ():
            shown = ", ".join(f"{best['label']} {best['value']:.4g}" for best in row)
            echo_labelled(f"top {len(row)}", shown, indent=4)
    if document["output_file"]:
        click.echo(f"written: {document['output_file']}")
