"""Which processors clip sums of bytes, and what is said of artifacts there."""

from __future__ import annotations

import dataclasses
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from edgex.runtime.engines import isa
from edgex.runtime.engines.isa import missing_isa, saturates_bytes, warn_of_clipped_bytes
from edgex.runtime.support.machine.host import read_host


def on(monkeypatch: pytest.MonkeyPatch, machine: str, features: tuple[str, ...] | None) -> None:
    host = dataclasses.replace(read_host(), machine=machine, isa=features)
    monkeypatch.setattr(isa, "read_host", lambda: host)


@pytest.mark.parametrize(
    ("machine", "features", "clips"),
    [
        ("x86_64", ("avx2",), True),
        ("x86_64", ("avx2", "avx512f", "avx512bw"), True),
        ("x86_64", ("avx2", "avx_vnni"), False),
        ("x86_64", ("avx512f", "avx512_vnni"), False),
        ("aarch64", ("asimd",), False),
        ("x86_64", None, False),
    ],
)
def test_x86_without_vnni_clips(
    monkeypatch: pytest.MonkeyPatch, machine: str, features: tuple[str, ...] | None, clips: bool
) -> None:
    on(monkeypatch, machine, features)
    assert saturates_bytes() == clips


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "x86_64", ("avx2",))
    assert missing_isa(("avx2", "avx512bw")) == ["avx512bw"]
    on(monkeypatch, "x86_64", None)
    assert missing_isa(("avx512bw",)) == []


def artifact(recipe: str | None, bits: int) -> Any:
    quantization = None if recipe is None else {"recipe": recipe, "weight_bits": bits}
    return SimpleNamespace(path=SimpleNamespace(name="net.edgex"), manifest=SimpleNamespace(quantization=quantization))


@pytest.mark.parametrize(
    ("recipe", "bits", "features", "warned"),
    [
        ("int8", 8, ("avx2",), True),
        ("int8", 7, ("avx2",), False),
        ("int8", 8, ("avx2", "avx_vnni"), False),
        ("8da4w", 4, ("avx2",), False),
        (None, 8, ("avx2",), False),
    ],
)
def test_weights_of_8_bits_are_warned_of_where_they_clip(
    monkeypatch: pytest.MonkeyPatch, recipe: str | None, bits: int, features: tuple[str, ...], warned: bool
) -> None:
    on(monkeypatch, "x86_64", features)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_clipped_bytes(artifact(recipe, bits), ("int8",))
    assert [("edgex verify net.edgex" in str(one.message)) for one in found] == [True] * warned
