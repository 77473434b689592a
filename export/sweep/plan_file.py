"""A plan as a TOML file.

```toml
models = ["models/*.py", "net.py:small", { model = "big.py", name = "big", input_shapes = { x = [1, 3, 224, 224] } }]
targets = ["xnnpack", "onnx-cpu"]
precisions = ["fp32"]
recipes = ["none", "int8"]
devices = ["here", "adb:R5CT"]
calibration = "data.npz"
options = { "xnnpack.workspace" = true }

[sweep]
executor = "local"          # or "ray"
workers = 2
timeout = 1800              # seconds of one export
memory = "4 GiB"            # of one export
retries = 1
measure = true
turns = true                # all artifacts of a model are timed against each other
threads = 2                 # of what is measured
artifacts = "s3://bucket/artifacts"
```

Paths are relative to the file.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgex.errors import UsageError, nearest_name
from edgex.export.sweep.placing import NOWHERE, is_url
from edgex.export.sweep.plan import Limits, PlannedModel, SweepPlan, name_models, parse_bytes

_WHAT = ("models", "targets", "precisions", "recipes", "devices", "calibration", "options", "stamp", "sweep")
_HOW = (
    *("preload", "executor", "address", "workers", "timeout", "memory", "retries"),
    *("measure", "turns", "runs", "threads", "artifacts"),
)
_MODEL = ("model", "name", "input_shapes")


def read_plan_file(path: Path) -> SweepPlan:
    """Read a plan.

    Raises:
        UsageError: There is no such file, it is no TOML, or a key or a value in it is wrong.
    """
    table = _read_toml(path)
    _check_keys(path, table, _WHAT, "")
    how = _get(path, table, "sweep", dict, {})
    _check_keys(path, how, _HOW, "sweep")
    texts = {
        key: tuple(_texts(path, table, key)) for key in ("targets", "precisions", "recipes", "devices") if key in table
    }
    limits = Limits()
    limits = Limits(
        float(_get(path, how, "timeout", (int, float), limits.seconds)),
        parse_bytes(str(_get(path, how, "memory", (str, int), limits.memory_bytes))),
        _get(path, how, "retries", int, limits.retries),
    )
    folder = path.parent
    calibration = _get(path, table, "calibration", str, None)
    artifacts = _get(path, how, "artifacts", str, None)
    return SweepPlan(
        _read_models(path, table, folder),
        **texts,
        measure=_get(path, how, "measure", bool, True),
        turns=_get(path, how, "turns", bool, False),
        runs=_get(path, how, "runs", int, None),
        threads=_get(path, how, "threads", int, None),
        options=_get(path, table, "options", dict, {}),
        calibration=None if calibration is None else _beside(folder, calibration),
        preload=tuple(_texts(path, how, "preload")) if "preload" in how else (),
        stamp=_get(path, table, "stamp", str, ""),
        folder=folder,
        artifacts=None if artifacts is None else _place_beside(folder, artifacts),
        executor=_get(path, how, "executor", str, "local"),
        address=_get(path, how, "address", str, None),
        workers=_get(path, how, "workers", int, None),
        limits=limits,
    )


def find_models(patterns: list[str], folder: Path) -> list[str]:
    """Specs, those with `*`, `?` or `[` matched against files; in order, each once.

    Args:
        patterns: As a plan or a command line has them.
        folder: What they are relative to.

    Raises:
        UsageError: A pattern matches nothing.
    """
    found: list[str] = []
    for pattern in patterns:
        if not any(mark in pattern for mark in "*?["):
            found.append(pattern)
            continue
        names = glob.glob(pattern, root_dir=folder)  # noqa: PTH207 - a pattern may be absolute
        matches = sorted(name for name in names if name.endswith((".py", ".pt2")))
        if not matches:
            raise UsageError(f"{pattern}: no .py or .pt2 file has such a name", where=str(folder))
        found += matches
    return list(dict.fromkeys(found))


def _read_models(path: Path, table: Mapping[str, Any], folder: Path) -> tuple[PlannedModel, ...]:
    given = _get(path, table, "models", list, [])
    plain = find_models([entry for entry in given if isinstance(entry, str)], folder)
    named = []
    for entry in given:
        if isinstance(entry, str):
            continue
        if not isinstance(entry, dict) or not isinstance(entry.get("model"), str):
            raise UsageError(f'{path.name}: a model is a text or {{ model = "net.py", … }}, not {entry!r}')
        _check_keys(path, entry, _MODEL, "models")
        spec = entry["model"]
        shapes = {str(name): tuple(sizes) for name, sizes in entry.get("input_shapes", {}).items()}
        named.append(PlannedModel(spec, str(entry.get("name", name_models([spec])[0].name)), shapes))
    return (*name_models(plain), *named)


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"no such file: {path}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is no plan", why=str(error), fix="docs/sweep.md has one to start from") from error


def _check_keys(path: Path, table: Mapping[str, Any], known: tuple[str, ...], head: str) -> None:
    for key in table:
        if key not in known:
            where = f"{path} [{head}]" if head else str(path)
            raise UsageError(f"{path.name}: unknown key {key!r}", where, why=nearest_name(key, known))


def _get(path: Path, table: Mapping[str, Any], key: str, kind: type | tuple[type, ...], default: Any) -> Any:
    value = table.get(key, default)
    right = value is default or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool)))
    if not right:
        kinds = kind if isinstance(kind, tuple) else (kind,)
        words = " or ".join(_WORDS[one] for one in kinds)
        raise UsageError(f"{path.name}: {key} is {words}, not {value!r}", str(path))
    return value


_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


def _texts(path: Path, table: Mapping[str, Any], key: str) -> list[str]:
    values: list[str] = _get(path, table, key, list, [])
    if not values or not all(isinstance(value, str) for value in values):
        raise UsageError(f"{path.name}: {key} is a list of texts, not {values!r}", str(path))
    return values


def _place_beside(folder: Path, place: str) -> str:
    return place if place == NOWHERE or is_url(place) else str(folder / place)


def _beside(folder: Path, calibration: str) -> str:
    head = calibration.partition(":")[0]
    return calibration if head == "random" else str(folder / calibration)
