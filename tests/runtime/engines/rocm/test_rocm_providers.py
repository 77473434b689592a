"""The two loaders. A real third-party plug-in, nxrt-ep-cpu, stands where AMD's library would; the stock wheel, without
a GPU provider, stands for the classic route."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgex.errors import EdgexError, RunError, TargetUnavailable
from edgex.runtime.engines.onnxruntime.provider import probe
from edgex.runtime.engines.onnxruntime.provider.sessions import (
    OpenedSession,
    ProviderChoice,
    open_cpu,
    open_on_provider,
)
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime
from edgex.runtime.engines.rocm.cache import STAMP_FILE, prepare_cache
from edgex.runtime.engines.rocm.provider import MIGRAPHX

ort = import_onnxruntime()
nxrt = pytest.importorskip("nxrt_ep_cpu")
LIBRARY = Path(nxrt.get_library_path())
PLUGIN = "cpu_ep"
CPU = "CPUExecutionProvider"
STAND_IN = replace(MIGRAPHX, device_types=("CPU",))


def model(*operators: str) -> bytes:
    """A chain of operators of one input, 4 x 4 float32."""
    nodes = [helper.make_node(op, [f"v{at}"], [f"v{at + 1}"], name=f"n{at}") for at, op in enumerate(operators)]
    ends = [helper.make_tensor_value_info(f"v{at}", TensorProto.FLOAT, [1, 4, 4]) for at in (0, len(operators))]
    graph = helper.make_graph(nodes, "g", ends[:1], [helper.make_tensor_value_info(ends[1].name, 1, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()


TAKEN = model("Cos", "Relu", "Sqrt")
MIXED = model("Cos", "Det")  # Det is not among the operators of the plug-in


def open_it(content: bytes, **choice: object) -> OpenedSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    chosen = {"provider": STAND_IN, "library": LIBRARY, **choice}
    return open_on_provider(ort, content, options, ProviderChoice(**chosen))  # type: ignore[arg-type]


def test_full_assignment_is_read_back() -> None:
    opened = open_it(TAKEN)
    assert opened.providers[0] == PLUGIN
    assert opened.nodes == {PLUGIN: 3}
    assert opened.executed_on == "onnxruntime: cpu_ep (3 nodes)"
    x = np.linspace(0.1, 1.4, 16, dtype=np.float32).reshape(1, 4, 4)
    np.testing.assert_allclose(opened.session.run(None, {"v0": x})[0], np.sqrt(np.cos(x)), rtol=1e-5)


def test_partial_assignment_is_refused_by_a_strict_session() -> None:
    with pytest.raises(RunError, match="does not take every operator") as caught:
        open_it(MIXED)
    assert "--allow-fallback" in str(caught.value.fix)


def test_partial_assignment_is_counted_where_the_cpu_may_help() -> None:
    opened = open_it(MIXED, allow_fallback=True)
    assert opened.nodes == {PLUGIN: 1, CPU: 1}
    assert opened.executed_on == f"onnxruntime: {CPU} (1 node), cpu_ep (1 node)"


def test_provider_present_but_no_device() -> None:
    with pytest.raises(TargetUnavailable, match="cpu_ep is there, but no GPU for it") as caught:
        open_it(TAKEN, provider=MIGRAPHX)
    assert "it offers CPU" in str(caught.value.why)
    assert caught.value.exit_code == 7


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(RunError, match="device_id=7: there are 1 devices"):
        open_it(TAKEN, options={"device_id": 7})


def test_a_missing_library(tmp_path: Path) -> None:
    with pytest.raises(TargetUnavailable, match=r"libmigraphx_plugin.so does not exist"):
        open_it(TAKEN, library=tmp_path / "libmigraphx_plugin.so")


def test_a_library_that_is_no_provider() -> None:
    (library,) = Path(ort.__file__).parent.glob("capi/libonnxruntime_providers_shared.*")
    with pytest.raises(TargetUnavailable, match="is no plug-in provider") as caught:
        open_it(TAKEN, library=library)
    assert "CreateEpFactories" in str(caught.value.why)


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "libtext.so").write_text("no ELF")
    with pytest.raises(TargetUnavailable, match="cannot be loaded"):
        open_it(TAKEN, library=tmp_path / "libtext.so")


def test_a_library_is_registered_once_a_process() -> None:
    assert open_it(TAKEN).nodes == open_it(TAKEN).nodes


def test_a_damaged_model_is_a_run_error() -> None:
    with pytest.raises(RunError, match="cpu_ep cannot load the model"):
        open_it(b"no model")


def test_the_probe_runs_a_tiny_model_and_checks_its_result() -> None:
    assert probe.run_probe(ProviderChoice(STAND_IN, LIBRARY)) == PLUGIN
    onnx.checker.check_model(onnx.load_from_string(probe.MODEL), full_check=True)


def test_the_probe_fails_where_there_is_no_gpu() -> None:
    with pytest.raises(EdgexError, match="no GPU for it"):
        probe.ask_probe({"do": "run", "provider": MIGRAPHX.name, "library": str(LIBRARY)})


def test_the_classic_route_says_that_the_stock_wheel_has_no_provider() -> None:
    with pytest.raises(
        TargetUnavailable, match="neither MIGraphXExecutionProvider nor ROCMExecutionProvider"
    ) as caught:
        open_it(TAKEN, library=None)
    assert CPU in str(caught.value.why) and "docs/reference/targets/onnx-rocm.md" in str(caught.value.fix)


class OldBuild:
    """ONNX Runtime as an AMD wheel that lists its provider and quietly gives a CPU session.

    Nothing of the real package is replaced but the list of providers, which such wheels get wrong in this way.
    """

    __version__ = ort.__version__

    def get_available_providers(self) -> list[str]:
        return ["MIGraphXExecutionProvider", CPU]

    def InferenceSession(self, content: bytes, options: object, **arguments: object) -> object:  # noqa: N802
        self.asked = arguments
        return ort.InferenceSession(content, options, **arguments)


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_the_guards_turn_a_quiet_cpu_session_into_an_error() -> None:
    build = OldBuild()
    with pytest.raises(RunError, match="MIGraphXExecutionProvider does not take every operator"):
        open_on_provider(build, TAKEN, ort.SessionOptions(), ProviderChoice(MIGRAPHX, options={"fp16_enable": True}))
    assert build.asked["enable_fallback"] == 0
    assert build.asked["providers"] == [("MIGraphXExecutionProvider", {"migraphx_fp16_enable": "1"})]


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_with_fallback_the_label_is_the_provider_that_truly_ran() -> None:
    opened = open_on_provider(OldBuild(), TAKEN, ort.SessionOptions(), ProviderChoice(MIGRAPHX, allow_fallback=True))
    assert opened.nodes == {CPU: 3}
    assert opened.executed_on == f"onnxruntime: {CPU} (3 nodes)"


def test_what_the_session_says_is_compared_with_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were both guards to fail one day, the read-back still refuses."""
    from edgex.runtime.engines.onnxruntime.provider import sessions

    monkeypatch.setattr(sessions, "_DISABLE_FALLBACK", "session.unknown_key")
    with pytest.raises(RunError, match="was to run on cpu_ep alone and does not"):
        open_it(MIXED)


class SilentSession:
    """A session of a build that cannot tell the assignment."""

    def get_providers(self) -> list[str]:
        return ["ROCMExecutionProvider", CPU]


class SilentBuild(OldBuild):
    def InferenceSession(self, content: bytes, options: object, **arguments: object) -> object:  # noqa: N802
        return SilentSession()

    def get_available_providers(self) -> list[str]:
        return ["ROCMExecutionProvider", CPU]


def test_a_build_that_cannot_tell_may_not_fall_back() -> None:
    with pytest.raises(RunError, match="cannot tell which provider runs which node"):
        open_on_provider(SilentBuild(), TAKEN, ort.SessionOptions(), ProviderChoice(MIGRAPHX, allow_fallback=True))
    strict = open_on_provider(SilentBuild(), TAKEN, ort.SessionOptions(), ProviderChoice(MIGRAPHX))
    assert strict.nodes is None and "does not count them" in strict.executed_on


def test_the_cpu_reference_counts_too() -> None:
    assert open_cpu(ort, TAKEN, ort.SessionOptions(), "CPU reference").executed_on == (
        f"onnxruntime: {CPU} (3 nodes); CPU reference"
    )


def test_option_names_of_both_forms() -> None:
    given = {"fp16_enable": True, "model_cache_dir": "d", "device_id": 1}
    assert MIGRAPHX.option_texts(given, "classic") == {
        "migraphx_fp16_enable": "1", "migraphx_model_cache_dir": "d", "device_id": "1",
    }  # fmt: skip
    assert MIGRAPHX.option_texts(given, "plugin") == {"fp16_enable": "1", "cache_dir": "d", "device_id": "1"}
    with pytest.raises(RunError, match=r"plug-in form .* has no option 'mem_limit'"):
        MIGRAPHX.option_texts({"mem_limit": 5}, "plugin")
    with pytest.raises(RunError) as caught:
        MIGRAPHX.option_texts({"fp16_enabel": True}, "classic")
    assert "did you mean 'fp16_enable'" in str(caught.value)
    with pytest.raises(RunError, match="expected bool"):
        MIGRAPHX.option_texts({"fp16_enable": 1}, "classic")
    assert len(MIGRAPHX.options) == 10


STAMP = {"artifact": "a" * 64, "onnxruntime": "1.31.1", "device": "0"}


def test_a_cache_is_stamped_and_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        prepare_cache(tmp_path / "cache", STAMP)
    assert (tmp_path / "cache" / STAMP_FILE).is_file()


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"artifact": "b"}'])
def test_a_stale_cache_is_refused(tmp_path: Path, text: str) -> None:
    prepare_cache(tmp_path, STAMP)
    (tmp_path / STAMP_FILE).write_text(text)
    with pytest.raises(RunError, match="is stale") as caught:
        prepare_cache(tmp_path, STAMP)
    assert "it was compiled for" in str(caught.value.why) and "rm -r" in str(caught.value.fix)


def test_compiled_models_of_unknown_origin_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.mxr").touch()
    with pytest.raises(RunError, match="did not put there"):
        prepare_cache(tmp_path, STAMP)


def test_a_cache_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(RunError, match="cannot be used"):
        prepare_cache(tmp_path / "cache", STAMP)
