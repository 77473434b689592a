"""One suite for every registered delegate: what the protocol promises, on real programs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from edgex.delegates.base import CapturedProgram, Delegate
from edgex.delegates.plan import REASON_CODES
from edgex.delegates.registry import delegate_names, get_delegate
from edgex.errors import LoweringError
from edgex.export.capture.program import capture
from edgex.export.rewrites.precision import convert_precision
from edgex.runtime.engines.registry import get_engine

pytestmark = pytest.mark.long_file


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Tokens(nn.Module):
    """Integers in, two outputs out, with operators that not every delegate takes (embedding, cumsum, layer norm)."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.linear = nn.Embedding(20, 8), nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, ids: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.linear(self.norm(self.table(ids)))
        x = torch.where(keep[..., None], x, torch.zeros_like(x))
        return x.cumsum(1), x.argmax(-1)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.nn.functional.gelu(self.one(x)))


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.ones(4, 3))
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(0, at, self.linear(x))
        return self.cache.sum(0, keepdim=True) * x


# Each lowering of these starts a compiler of another language for ten seconds; their own tests do it once.
_COMPILED = ("aoti",)
TARGETS = [pytest.param(name, marks=pytest.mark.slow) if name in _COMPILED else name for name in delegate_names()]


def random_like(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


PROGRAMS: dict[str, Callable[[], tuple[nn.Module, tuple, object]]] = {
    "conv": lambda: (Conv(), (random_like(1, 3, 8, 8),), None),
    "tokens": lambda: (Tokens(), (torch.arange(6).reshape(1, 6), torch.arange(6).reshape(1, 6) % 3 > 0), None),
    "dynamic": lambda: (Mlp(), (random_like(3, 6),), {"x": {0: torch.export.Dim("batch", min=1, max=8)}}),
    "state": lambda: (Cache(), (random_like(1, 3), torch.tensor([2])), None),
}


@pytest.fixture(scope="module")
def programs() -> dict[str, CapturedProgram]:
    captured = {}
    for name, make in PROGRAMS.items():
        torch.manual_seed(0)
        module, args, shapes = make()
        captured[name] = capture(module.eval(), args, dynamic_shapes=shapes, source_root=Path(__file__).parent).program
    return captured


def digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files_of(folder)}


def files_of(folder: Path) -> list[str]:
    """Paths of all files below a folder: a native file may be a folder itself."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def fingerprint(program: CapturedProgram) -> tuple[str, dict[str, bytes]]:
    exported = program.exported
    weights = {k: v.detach().numpy().tobytes() for k, v in exported.state_dict.items()}
    return str(exported.graph) + str(exported.graph_signature), weights


@pytest.fixture
def usable(target: str) -> Delegate:
    """The delegate, or a skip with the reason why it cannot lower on this machine."""
    delegate = get_delegate(target)
    found = delegate.availability()
    if not found.available:
        pytest.skip(f"{target}: {found.reason}")
    return delegate


def suit(delegate: Delegate, program: CapturedProgram) -> CapturedProgram:
    """The program in a precision that the delegate takes."""
    return program if "fp32" in delegate.precisions else convert_precision(program, delegate.precisions[0])


@pytest.mark.parametrize("target", TARGETS)
class TestDelegate:
    def test_it_is_registered_under_its_own_name(self, target: str) -> None:
        delegate = get_delegate(target)
        assert delegate.name == target
        assert get_engine(delegate.engine).availability().available or not delegate.availability().available
        assert dataclasses.is_dataclass(delegate.options_type)
        assert delegate.options_type() == delegate.options_type()

    def test_availability_says_what_is_missing_or_nothing(self, target: str) -> None:
        found = get_delegate(target).availability()
        assert found.available == (found.reason is None)
        assert found.available or found.fix

    def test_a_refused_precision_has_a_reason(self, target: str) -> None:
        delegate = get_delegate(target)
        assert delegate.precisions
        for precision in {"fp32", "fp16", "bf16"} - set(delegate.precisions):
            assert len(delegate.precision_refusal(precision)) > 20

    def test_an_unknown_quantization_is_not_offered(self, target: str) -> None:
        assert get_delegate(target).quantizer("no-such-recipe") is None

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_plan_and_lower_agree(self, usable: Delegate, name: str, programs: dict[str, CapturedProgram]) -> None:
        delegate, program = usable, suit(usable, programs[name])
        options = delegate.options_type()
        planned = delegate.plan(program, options)
        if planned.fatal:
            # A target may refuse a program; then it names everything that is in the way.
            with pytest.raises(LoweringError) as caught:
                delegate.lower(program, options)
            assert caught.value.why and caught.value.fix
        else:
            assert planned == delegate.lower(program, options).plan
        assert 0 <= planned.delegated_ops <= planned.total_ops
        left = sum(fallback.count for fallback in planned.fallbacks)
        assert planned.delegated_ops + left == planned.total_ops

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_every_fallback_has_a_code_a_sentence_and_a_line(
        self, usable: Delegate, name: str, programs: dict[str, CapturedProgram]
    ) -> None:
        delegate = usable
        for fallback in delegate.plan(suit(delegate, programs[name]), delegate.options_type()).fallbacks:
            assert fallback.code in REASON_CODES
            assert len(fallback.reason.split()) > 2
            assert fallback.source and fallback.source.startswith("test_conformance.py:"), fallback

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_the_signature_is_kept_and_the_program_not_changed(
        self, usable: Delegate, name: str, programs: dict[str, CapturedProgram]
    ) -> None:
        delegate, program = usable, suit(usable, programs[name])
        before = fingerprint(program)
        if delegate.plan(program, delegate.options_type()).fatal:
            assert fingerprint(program) == before
            pytest.skip(f"{delegate.name} refuses {name}; test_plan_and_lower_agree looks at how")
        lowered = delegate.lower(program, delegate.options_type())
        assert fingerprint(program) == before
        method = lowered.methods[0]
        assert (method.inputs, method.outputs) == (program.inputs, program.outputs)
        assert [state.name for state in method.state] == [state.name for state in program.state]

    def test_it_writes_exactly_its_files_and_the_same_bytes(
        self, target: str, usable: Delegate, programs: dict[str, CapturedProgram], tmp_path: Path
    ) -> None:
        delegate = usable
        for name in ("conv", "state"):
            folders = [tmp_path / name / str(n) for n in range(2)]
            maps = []
            for folder in folders:
                folder.mkdir(parents=True)
                lowered = delegate.lower(suit(delegate, programs[name]), delegate.options_type())
                lowered.write(folder)
                maps.append(json.dumps(lowered.debug))
                assert sorted(lowered.files) == files_of(folder)
            assert maps[0] == maps[1]
            if target != "reference":  # a .pt2 is a zip archive with an identity of its own
                assert digests(folders[0]) == digests(folders[1])

    def test_the_source_map_has_lines_and_no_absolute_paths(
        self, target: str, usable: Delegate, programs: dict[str, CapturedProgram]
    ) -> None:
        delegate = usable
        debug = str(dict(delegate.lower(suit(delegate, programs["conv"]), delegate.options_type()).debug))
        assert "test_conformance.py:" in debug
        assert str(Path(__file__).parent) not in debug
        assert str(Path(torch.__file__).parent) not in debug

    def test_bfloat16_refusal_reaches_the_user(
        self, target: str, usable: Delegate, programs: dict[str, CapturedProgram]
    ) -> None:
        from edgex.export.settings import ExportSettings, check_settings

        delegate = usable
        if "bf16" in delegate.precisions:
            assert check_settings(ExportSettings((target,), precision="bf16"), "net")
        else:
            with pytest.raises(LoweringError, match="does not take --precision bf16"):
                check_settings(ExportSettings((target,), precision="bf16"), "net")

    def test_what_cannot_run_here_is_assembled_with_a_reason_or_runs(
        self, usable: Delegate, programs: dict[str, CapturedProgram]
    ) -> None:
        reason = usable.lower(suit(usable, programs["conv"]), usable.options_type()).assembled_reason
        look = getattr(usable, "checks", None)
        if look is None:
            assert reason is None, "only a target that looks for a device can lack one"
        else:
            failed = [check for check in look() if check.passed is False]
            assert (reason is None) == (not failed)
            assert reason is None or failed[0].detail in reason
