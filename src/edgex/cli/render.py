"""What commands print for people: calm, aligned, readable without colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from edgex.cli.layout import echo_labelled, list_some, print_table
from edgex.delegates.plan import reads_size
from edgex.errors import UsageError
from edgex.runtime.report.figures import count, format_bytes
from edgex.runtime.session.repeats import describe_repeats

# Names in a list, before it says how many more there are.
_LISTED = 6
_LINES_LISTED = 3
# Of operators that were left out; where there are more, they are counted.
_LINES_OF_FALLBACKS = 8


def bold(text: str) -> str:
    """Bold where the terminal can."""
    return click.style(text, bold=True)


def print_export(document: Mapping[str, Any], *, verbose: bool = False) -> None:
    """The summary of `edgex export`.

    Args:
        document: `edgex.export/2`.
        verbose: With every operator that was left out, however many there are.
    """
    for artifact in document["artifacts"]:
        where = artifact["path"] or "dry run, nothing written"
        click.echo(f"{bold(artifact['target'])}  {artifact['status']}  {where}")
        if artifact["bytes"] is not None:
            echo_labelled("size", describe_size(artifact, artifact["bytes"]))
        if artifact["status"] == "simulated":
            echo_labelled(
                "simulated", f"executed in the {artifact['verification']['simulator']}; no such device has run it"
            )
        # Nobody has asked the device: what the delegate's table says is a prediction.
        predicted = ", as predicted" if artifact["status"] == "assembled" else ""
        echo_labelled("delegation", describe_delegation(artifact["delegation"]) + predicted)
        for line in describe_fallbacks(artifact["delegation"]["fallbacks"], in_full=verbose, path=artifact["path"]):
            echo_labelled("", line)
        for rewrite in artifact["rewrites"]:
            echo_labelled("rewrite", f"{rewrite['name']} x {rewrite['count']}: {rewrite['detail']}{_gain_of(rewrite)}")
        if artifact["quantization"] is not None:
            echo_labelled("quantized", describe_quantization(artifact["quantization"]))
        for line in _describe_gains(artifact["quantization"]):
            echo_labelled("", line)
        if artifact["verification"] is not None:
            echo_labelled("proof", describe_verification(artifact["verification"]))
        stages = [f"{name} {s:.1f}" for name, s in artifact["seconds"].items() if s >= 0.05]
        echo_labelled("seconds", ", ".join(stages))
        for warning in artifact["warnings"]:
            echo_labelled("warning", warning, colour="yellow")
        for number, line in enumerate(artifact["next"]):
            # To be copied: whole, whatever the width.
            click.echo(f"  {'' if number else 'next':<12}{line}")


def _gain_of(rewrite: Mapping[str, Any]) -> str:
    """What a rewrite won, where it was counted."""
    won = rewrite.get("won")
    return f"; {won} operator{'' if won == 1 else 's'} more for the delegate" if won else ""


def describe_size(sizes: Mapping[str, Any], total_bytes: int) -> str:
    """What a device gets comes first: `model 6.6 kB; whole folder 101.6 kB, of which 88.8 kB are the proof's …`."""
    size = sizes["golden_bytes"]
    golden = f", of which {format_bytes(size)} are the proof's inputs and answers" if size else ""
    return f"model {format_bytes(sizes['model_bytes'])}; whole folder {format_bytes(total_bytes)}{golden}"


def describe_delegation(delegation: Mapping[str, Any]) -> str:
    """`69 of 69 operators in 1 call, 100 % of the work`."""
    calls = delegation["delegate_calls"]
    work = delegation["work_fraction"]
    share = "" if work is None else f", {work:.1%} of the work"
    return (
        f"{delegation['delegated_ops']} of {delegation['total_ops']} operators in {calls} "
        f"call{'' if calls == 1 else 's'}{share}"
    )


def _describe_gains(quantization: Mapping[str, Any] | None) -> list[str]:
    """What quantizing did: size, the search steps of a budget, speed."""
    if quantization is None:
        return []
    lines = _name_unquantized(quantization["unquantized"] or ())
    compression = quantization.get("compression")
    if compression is not None:
        before, after = compression["float_weights_bytes"], compression["weights_bytes"]
        parts = ", ".join(f"{format_bytes(size)} {dtype}" for dtype, size in compression["by_dtype"].items())
        lines.append(f"weights {format_bytes(before)} -> {format_bytes(after)} ({parts})")
        lines += [
            f"{entry['clipped_share']:.2%} of the values clipped: {entry['op']} at {entry['source'] or entry['module']}"
            for entry in compression["saturation"][:3]
        ]
        dead = sum(entry["dead"] for entry in compression["dead_channels"])
        if dead:
            is_one = "is dead: it is zero, or never changes"
            lines.append(
                f"{dead} of the channels {is_one if dead == 1 else 'are dead: they are zero, or never change'}"
            )
    budget = quantization.get("budget")
    if budget is not None:
        for step in sorted(budget["steps"], key=lambda step: len(step["kept_float"])):
            verdict = "within the budget" if step["holds"] else "over the budget"
            layers = "1 layer" if len(step["kept_float"]) == 1 else f"{len(step['kept_float'])} layers"
            lines.append(
                f"{layers} in float: {step['metric']:.4g} (eager {budget['baseline']:.4g}), "
                f"{format_bytes(step['bytes'])}, {step['median_seconds'] * 1e3:.3g} ms, {verdict}"
            )
        kept = quantization["accuracy"]["kept_float"]
        lines += [f"kept in float: {list_some(kept, _LISTED)}"] if kept else []
    speed = quantization.get("speed")
    if speed is not None and speed["verdict"] != "slower":
        lines.append(
            f"{speed['speedup']:.2f}x the speed of float32 ({speed['verdict']}): "
            f"{speed['median_seconds'] * 1e3:.3g} ms against {speed['float_median_seconds'] * 1e3:.3g} ms"
        )
    return lines


def describe_quantization(quantization: Mapping[str, Any]) -> str:
    """`int8, ranges by histogram of 18 samples of calibration_data(); 2 operators left in floating point`."""
    parts = [quantization["recipe"]]
    if quantization["group_size"] is not None:
        parts.append(f"groups of {quantization['group_size']}")
    data = quantization["calibration"]
    if data is not None:
        parts.append(f"ranges by {quantization['observer']} of {count(data['samples'], 'sample')} of {data['origin']}")
    left = len(quantization["unquantized"] or ())
    return ", ".join(parts) + (f"; {left} operator{'' if left == 1 else 's'} left in floating point" if left else "")


def _name_unquantized(operators: Sequence[Mapping[str, Any]]) -> list[str]:
    """`in floating point: aten.mul.Tensor at odd.py:11 x 7`, a line for each operator and line of the user's."""
    times = Counter((entry["op"], entry["source"] or entry["module"] or "the model") for entry in operators)
    lines = [
        f"in floating point: {op} at {place}" + (f" x {count}" if count > 1 else "")
        for (op, place), count in times.items()
    ]
    more = len(lines) - _LINES_LISTED
    return lines[:_LINES_LISTED] + ([f"in floating point: {more} more; --json lists them"] if more > 0 else [])


def describe_fallbacks(
    fallbacks: Sequence[Mapping[str, Any]], *, in_full: bool = True, path: str | None = None
) -> list[str]:
    """What was left out; where that is much and nobody asked for all, operators are only counted, by reason.

    ```
    left out: 97 operators [dynamic_shape]: 40 x aten.select_copy.int, 25 x aten.slice_copy.Tensor +9 more
    left out: 21 operators [not_in_delegate]: 16 x aten.eq.Scalar, 4 x aten.logical_not.default, 1 x aten.le.Tensor
    ```
    """
    lines = _list_fallbacks(fallbacks)
    if in_full or len(lines) <= _LINES_OF_FALLBACKS:
        return lines
    counts: dict[str, Counter[str]] = {}
    for fallback in fallbacks:
        if not reads_size(fallback["op"]):
            counts.setdefault(fallback["code"], Counter())[fallback["op"]] += fallback["count"]
    lines = [
        f"left out: {ops.total()} operator{'' if ops.total() == 1 else 's'} [{code}]: "
        + list_some([f"{count} x {op}" for op, count in ops.most_common()], _LINES_LISTED)
        for code, ops in sorted(counts.items(), key=lambda entry: -entry[1].total())
    ]
    return [*lines, f"{'-v' if path is None else f'edgex why {path}'} tells each with its line and reason"]


def _list_fallbacks(fallbacks: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was left out, a line for each operator and reason, however many of the user's lines it stands on.

    ```
    left out: 1 x aten.amax.default at net.py:14 [not_in_delegate] XNNPACK has no operator aten.amax.default
    left out: 12 x aten.cumsum.default at net.py:20, net.py:31, net.py:44 +3 more [not_in_delegate] …
    left out: 1 x aten.sort.stable, 1 x aten.cumsum.default at net.py:9 [not_in_delegate] …
    ```
    """
    places: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    lines = []
    for fallback in fallbacks:
        if reads_size(fallback["op"]):
            count = f"{fallback['count']} x {fallback['op']}"
            lines.append(f"left out: {count}, which reads a dynamic size: nothing to change")
        else:
            places.setdefault((fallback["op"], fallback["code"], fallback["reason"]), []).append(fallback)
    together: dict[tuple[str, str, str], list[str]] = {}
    for (op, code, reason), alike in places.items():
        sources = list(dict.fromkeys(one["source"] or "no source line" for one in alike))
        counted = f"{sum(one['count'] for one in alike)} x {op}"
        together.setdefault((list_some(sources, _LINES_LISTED), code, reason), []).append(counted)
    told = [f"left out: {', '.join(ops)} at {at} [{code}] {why}" for (at, code, why), ops in together.items()]
    return [*told, *lines]


def describe_verification(verification: Mapping[str, Any]) -> str:
    """`12 outputs pass, 1 inconclusive; max error 2e-06, SQNR at least 126 dB`."""
    counts: dict[str, int] = {}
    for case in verification["cases"]:
        counts[case["verdict"]] = counts.get(case["verdict"], 0) + 1
    shown = ", ".join(f"{counts[v]} {v}" for v in ("pass", "fail", "warning", "inconclusive", "skipped") if v in counts)
    unproved = unproved_outputs(verification["cases"])
    shown += f" (never proved: {list_some(unproved, _LISTED)})" if unproved else ""
    error, sqnr = verification["max_abs_error"], verification["min_sqnr_db"]
    numbers = [] if error is None else [f"max error {error:.2g}"]
    if any(case.get("reference") == "quantized" for case in verification["cases"]):
        # The accuracy is that against eager; how true the engine is to the quantized program is another number.
        numbers += [
            f"{_describe_sqnr(min(found))} against {words}"
            for reference, words in (("eager", "eager"), ("quantized", "the quantized program"))
            if (
                found := [
                    c["sqnr_db"]
                    for c in verification["cases"]
                    if c.get("reference", "eager") == reference and c["sqnr_db"]
                ]
            )
        ]
    else:
        numbers += [] if sqnr is None else [_describe_sqnr(sqnr)]
    agreement = verification.get("agreement")
    choices = [] if agreement is None else [_describe_agreement(agreement)]
    same = _describe_same_bits(verification.get("repeats"))
    return "; ".join([shown, *([", ".join(numbers)] if numbers else []), *choices, *([same] if same else [])])


def _describe_agreement(agreement: Mapping[str, Any]) -> str:
    """`KL divergence 0.012, the likeliest token 97 % the same, the first 20 of 33 tokens`: beside eager."""
    return (
        f"beside eager KL divergence {agreement['kl_divergence']:.2g}, the likeliest token the same in "
        f"{agreement['top1']:.0%} of {agreement['calls']} calls, the first {agreement['greedy_prefix']} in a row"
    )


def _describe_same_bits(repeats: Sequence[Mapping[str, Any]] | None) -> str | None:
    """`the same bits 3 times in one session, in 2 sessions at once`: the ways in which all cases were repeated."""
    words = {
        "again": "{runs} times in one session",
        "together": "in {runs} sessions at once",
        "threads": "with {threads} thread{s}",
    }
    ways = [
        words[entry["how"]].format(**entry, s="" if entry["threads"] == 1 else "s")
        for entry in repeats or ()
        if entry["reason"] is None and not entry["differences"]
    ]
    return f"the same bits {', '.join(ways)}" if ways else None


def _describe_sqnr(sqnr_db: float) -> str:
    """`SQNR at least 126 dB`; 300 stands for no difference at all."""
    return "exact" if sqnr_db >= 300 else f"SQNR at least {sqnr_db:g} dB"


def unproved_outputs(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Outputs of which every case that looked at them was inconclusive."""
    verdicts: dict[str, set[str]] = {}
    for case in cases:
        if case["output"] is not None:
            verdicts.setdefault(case["output"], set()).add(case["verdict"])
    return [
        output for output, seen in verdicts.items() if "inconclusive" in seen and not seen & {"pass", "fail", "warning"}
    ]


_STAND_INS = {
    "cpu-reference": " (CPU reference: says nothing about the device)",
    "simulator": " (in a simulator: the device's arithmetic, not its speed)",
}


def print_verification(document: Mapping[str, Any]) -> None:
    """The table of `edgex verify`."""
    rows = [("case", "output", "max error", "SQNR dB", "reference max", "verdict")]
    skipped: dict[str, list[str]] = {}
    for case in document["cases"]:
        if case["verdict"] == "skipped":
            skipped.setdefault(case["reason"] or "no reason is recorded", []).append(_case_name(case))
            continue
        reason = f"  {case['reason']}" if case["reason"] and case["verdict"] != "pass" else ""
        numbers = [_number(case[key]) for key in ("max_abs_error", "sqnr_db", "reference_max")]
        name = _case_name(case)
        name = name if case.get("reference", "eager") == "eager" else f"{name} [quantized]"
        rows.append((name, case["output"] or "", *numbers, case["verdict"] + reason))
    print_table(rows)
    for why, names in skipped.items():
        echo_labelled("skipped", f"{'; '.join(names)}: {why}", indent=0, width=9)
    click.echo(f"executed on {document['executed_on']}")
    for sentence in describe_repeats(document["repeats"]):
        echo_labelled("warning", sentence, colour="yellow", indent=0, width=9)
    if document.get("signature") is not None:
        click.echo(f"signed by the owner of the key {document['signature']['key_sha256'][:16]}…")
    if document["passed"]:
        stand_in = _STAND_INS.get(document["verified_on"], "")
        text = f"{stand_in.strip()}: {describe_verification(document)}".removeprefix(": ")
        echo_labelled("passed" if stand_in else "passed:", text, indent=0, width=8, bold=True)
    else:
        echo_labelled("failed:", document["reason"], indent=0, width=8, colour="red", bold=True)


def _case_name(case: Mapping[str, Any]) -> str:
    """A case's name, with its method where the artifact has several."""
    return f"{case['method']}: {case['name']}" if "method" in case else str(case["name"])


def print_artifact(document: Mapping[str, Any]) -> None:
    """The page of `edgex inspect`."""
    manifest = document["manifest"]
    recipe = f"  {manifest['quantization']['recipe']}" if manifest["quantization"] else ""
    about = f"{manifest['target']}  {manifest['status']}  {manifest['precision']}{recipe}"
    click.echo(f"{bold(manifest['name'])}  {about}")
    for method in manifest["methods"]:
        if len(manifest["methods"]) > 1:
            echo_labelled("method", method["name"])
        # Methods share their state: it is listed once.
        for key in ("inputs", "outputs") if method is not manifest["methods"][-1] else ("inputs", "outputs", "state"):
            for spec in method[key]:
                click.echo(f"  {key.rstrip('s'):<12}{spec['name']}  {spec['dtype']}{_shape(spec['shape'])}")
    if manifest.get("llm"):
        echo_labelled("llm", _describe_language_model(manifest["llm"]))
    compiled = document["compiled_sizes"]
    if compiled:
        sizes = ", ".join(f"{name}={size}" for name, size in compiled["at_load"].items())
        echo_labelled("compiled", f"for {sizes} when loaded; for others when first seen, {compiled['kept']} kept")
    echo_labelled("model", _model(manifest["model"]))
    for line in _describe_card(manifest["model"].get("card") or {}):
        echo_labelled("card", line)
    predicted = ", as predicted" if manifest["status"] == "assembled" else ""
    echo_labelled("delegation", describe_delegation(manifest["delegation"]) + predicted)
    if manifest["status_reason"]:
        echo_labelled(manifest["status"], manifest["status_reason"])
    for line in describe_fallbacks(manifest["delegation"]["fallbacks"]):
        echo_labelled("", line)
    if manifest["verification"] and "cases" in manifest["verification"]:
        echo_labelled("proof", describe_verification(manifest["verification"]))
    accuracy = (manifest["quantization"] or {}).get("accuracy")
    if accuracy is not None:
        colour = None if accuracy["holds"] else "yellow"
        echo_labelled("accuracy", _describe_accuracy(accuracy), colour=colour)
    needs = manifest["requirements"]
    packages = document["needs"]["packages"]
    named = ", ".join(f"{name} >= {oldest}" if oldest else name for name, oldest in packages.items())
    echo_labelled("needs", " ".join([named, *needs["isa"], *needs["plugins"]]))
    if document["needs"]["install"]:
        echo_labelled("install", document["needs"]["install"])
    echo_labelled("made by", ", ".join(f"{name} {version}" for name, version in manifest["producer"].items()))
    echo_labelled("size", describe_size(document, document["total_bytes"]))
    for entry in manifest["files"]:
        click.echo(f"  {'':<12}{format_bytes(entry['bytes']):>9}  {entry['path']}")


def _describe_accuracy(accuracy: Mapping[str, Any]) -> str:
    """`43.64, eager 75: misses --max-drop 0.0001`: what an accuracy budget came to."""
    metric = "" if accuracy["metric"] == "evaluate" else " (1 - the share of noise in the outputs)"
    verdict = "within" if accuracy["holds"] else "misses"
    reached, baseline = (f"{accuracy[key]:.4g}" for key in ("reached", "baseline"))
    return f"{reached}, eager {baseline}{metric}: {verdict} --max-drop {accuracy['max_drop']:g}"


def _describe_language_model(llm: Mapping[str, Any]) -> str:
    ends = f"ends with {', '.join(map(str, llm['eos']))}" if llm["eos"] else "no token ends a text"
    return (
        f"context {llm['context']}, {llm['chunk']} tokens a call of {llm['prefill']}, vocabulary {llm['vocabulary']}, "
        f"cache {format_bytes(llm['cache_bytes'])} ({llm['cache_dtype']}), {ends}"
    )


def print_targets(document: Mapping[str, Any]) -> None:
    """The table of `edgex targets`."""
    rows = [("target", "usable", "precisions", "native", "versions")]
    for target in document["targets"]:
        versions = ", ".join(f"{name} {version}" for name, version in target["versions"].items())
        usable = "yes" if target["available"] else "runs only" if target["runs"] else "no"
        native = "unknown" if target["native_precisions"] is None else " ".join(target["native_precisions"])
        rows.append((target["name"], usable, " ".join(target["precisions"]), native, versions))
    print_table(rows)
    host = document["host"]
    processor = f"{host['cpu'] or 'unknown processor'}, {host['machine']}: {' '.join(host['isa'] or ['unknown'])}"
    click.echo()
    echo_labelled("host", processor, indent=0, width=6)
    for target in document["targets"]:
        if target["available"]:
            continue
        lack = "cannot export here; its artifacts run" if target["runs"] else "cannot run here"
        click.echo(f"\n{bold(target['name'])} {lack}:")
        for check in target["checks"]:
            echo_labelled(_CHECK_MARKS[check["passed"]], f"{check['name']}: {check['detail']}")
        if target["fix"]:
            echo_labelled("fix", target["fix"])


_CHECK_MARKS = {True: "holds", False: "fails", None: "not tried"}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _shape(shape: Sequence[Any]) -> str:
    sizes = (str(d) if isinstance(d, int) else f"{d['name']}={d['min']}..{d['max']}" for d in shape)
    return f"[{', '.join(sizes)}]"


def _describe_card(card: Mapping[str, Any]) -> list[str]:
    """What a model card says of pictures and labels, which `edgex run` heeds."""
    from edgex.runtime.artifact.card import read_image_card, read_labels

    try:
        image = read_image_card(card, "the manifest")
    except UsageError as error:  # of an older edgex, or a stranger's
        return [str(error.what)]
    labels = read_labels(card)
    lines = []
    if image is not None:
        mean, std = ("/".join(f"{value:g}" for value in values) for values in (image.mean, image.std))
        layout = f"{image.layout}, " if image.layout else ""
        lines.append(f"{image.input} is a picture: {layout}{image.color}, mean {mean}, std {std}")
    if labels:
        lines.append(f"{len(labels)} labels: {list_some(labels, _LISTED)}")
    return lines


def _model(model: Mapping[str, Any]) -> str:
    parameters = model.get("parameters")
    count = "" if parameters is None else f", {parameters:,} parameters"
    return f"{model.get('source')}{count}"
