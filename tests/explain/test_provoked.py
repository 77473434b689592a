"""Every entry of the dictionary without a quote is provoked in the real engine, and found in what the engine says."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from coreai_support import needs_coreai
from onnx import TensorProto, helper
from torch import nn

from edgex.explain.dictionary import DICTIONARY
from edgex.explain.search import find_in_log
from edgex.runtime.engines.executorch.errors import ERROR_CODES
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime
from edgex.runtime.support.native_stderr import capture_native_stderr

ort = import_onnxruntime()
X = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 7
export = torch.export.export


class Run(nn.Module):
    """A module around a function of one or two tensors."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


class Lookup(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids)


class Remembers(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x + 1
        return self.last


class ReadsFile(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with open(__file__) as stream:  # noqa: PTH123
            return x + len(stream.read())


class Foreign:
    """Something that no engine knows."""


@torch.library.custom_op("edgex_explain::increment", mutates_args=())
def increment(x: torch.Tensor) -> torch.Tensor:
    return x + 1


increment.register_fake(torch.empty_like)


@contextlib.contextmanager
def everything_said() -> Iterator[list[str]]:
    """Collects exceptions with their causes, warnings, log records and what native code wrote."""
    said: list[str] = []
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    talker = logging.getLogger("torch.onnx")
    talker.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught, capture_native_stderr() as native:
            warnings.simplefilter("always")
            try:
                yield said
            except Exception as error:  # whatever the engine raises is what is looked at
                chain: BaseException | None = error
                while chain is not None:
                    said.append(f"{type(chain).__module__}.{type(chain).__name__}: {chain}")
                    chain = chain.__cause__
        said += [f"{type(w.message).__name__}: {w.message}" for w in caught]
        said.append(native.tail())
    finally:
        talker.removeHandler(handler)
    said.append(stream.getvalue())


@pytest.fixture(scope="module")
def pte() -> dict[str, bytes]:
    """Programs for ExecuTorch by name."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge, to_edge_transform_and_lower

    linear = export(nn.Linear(4, 4), (X,))
    return {
        "add": to_edge(export(Run(lambda x: x + 1), (X,))).to_executorch().buffer,
        "sort": to_edge(export(Run(lambda x: x.sort()[0]), (X,))).to_executorch().buffer,
        "lookup": to_edge(export(Lookup(), (torch.tensor([1]),))).to_executorch().buffer,
        "xnnpack": to_edge_transform_and_lower(linear, partitioner=[XnnpackPartitioner()]).to_executorch().buffer,
    }


def run_pte(program: bytes, *inputs: torch.Tensor, method: str = "forward") -> None:
    from executorch.extension.pybindings import _C

    _C._load_for_executorch_from_buffer(bytes(program)).run_method(method, list(inputs))


def lower_edge(function: Callable) -> None:
    from executorch.exir import to_edge

    to_edge(export(Run(function), (X,))).to_executorch()


def load_missing_pte() -> None:
    from executorch.extension.pybindings import _C

    _C._load_for_executorch("/nowhere/model.pte")


EXECUTORCH: dict[str, Callable[[dict[str, bytes]], object]] = {
    "missing-operator": lambda pte: run_pte(pte["sort"], X),
    "0x14": lambda pte: run_pte(pte["sort"], X),
    "missing-out-variants": lambda pte: lower_edge(torch.ops.edgex_explain.increment),
    "not-core-aten": lambda pte: lower_edge(lambda x: torch.linalg.svd(x)[0]),
    "static-tensor-resized": lambda pte: run_pte(pte["add"], torch.ones(7, 4)),
    "0x10": lambda pte: run_pte(pte["add"], torch.ones(7, 4)),
    "rank-changed": lambda pte: run_pte(pte["add"], torch.ones(4)),
    "scalar-type": lambda pte: run_pte(pte["add"], X.double()),
    "0x12": lambda pte: run_pte(pte["add"], X.double()),
    "backend-not-registered": lambda pte: run_pte(pte["xnnpack"].replace(b"XnnpackBackend", b"MissingBackend"), X),
    "0x20": lambda pte: run_pte(pte["xnnpack"].replace(b"XnnpackBackend", b"MissingBackend"), X),
    "backend-init-failed": lambda pte: run_pte(pte["xnnpack"].replace(b"XN01", b"XN99"), X),
    "xnnpack-format-version": lambda pte: run_pte(pte["xnnpack"].replace(b"XN01", b"XN99"), X),
    "0x30": lambda pte: run_pte(pte["xnnpack"].replace(b"XN01", b"XN99"), X),
    "method-not-found": lambda pte: run_pte(pte["add"], X, method="backward"),
    "too-many-inputs": lambda pte: run_pte(pte["add"], X, X),
    "index-out-of-range": lambda pte: run_pte(pte["lookup"], torch.tensor([77])),
    "pte-not-found": lambda pte: load_missing_pte(),
    "0x22": lambda pte: load_missing_pte(),
    "magic-header": lambda pte: run_pte(b"x" * 400, X),
    "0x23": lambda pte: run_pte(b"x" * 400, X),
}

BATCH = torch.export.Dim("batch", min=1, max=8)


class Fixed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3, 4)


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.shape[0] > 4 else -x


def load_foreign(folder: Path) -> None:
    torch.save(Foreign(), folder / "model.pt")
    torch.load(folder / "model.pt")


def to_onnx(module: nn.Module, opset: int = 18) -> None:
    torch.onnx.export(module.eval(), (X,), dynamo=True, opset_version=opset, verbose=False)


TORCH: dict[str, Callable[[Path], object]] = {
    "data-dependent-guard": lambda _: export(Run(lambda x: x if x.sum() > 0 else -x), (X,)),
    "data-dependent-integer": lambda _: export(Run(lambda x: torch.zeros(int(x.sum().item()))), (X,)),
    "dynamic-specialized": lambda _: export(Fixed(), (X,), dynamic_shapes={"x": {0: BATCH}}),
    "constraints-violated": lambda _: export(Branching(), (torch.ones(6, 4),), dynamic_shapes={"x": {0: BATCH}}),
    "dynamic-shapes-mismatch": lambda _: export(Fixed(), (X,), dynamic_shapes={"y": {0: BATCH}}),
    "fake-data-pointer": lambda _: export(Run(lambda x: x + x.data_ptr()), (X,)),
    "numpy-in-forward": lambda _: export(Run(lambda x: x + float(np.sum(x.numpy()))), (X,)),
    "dynamo-unsupported": lambda _: export(ReadsFile(), (X,), strict=True),
    "script-module": lambda _: export(torch.jit.script(nn.Linear(4, 4)), (X,)),
    "args-not-a-tuple": lambda _: export(nn.Linear(4, 4), [X]),
    "attribute-assigned": lambda _: export(Remembers(), (X,)),
    "output-not-a-tensor": lambda _: export(Run(lambda x: Foreign()), (X,)),
    "weights-only": load_foreign,
    "no-onnx-function": lambda _: to_onnx(Run(lambda x: torch.linalg.svd(x)[0])),
    "onnx-conversion": lambda _: to_onnx(Run(lambda x: torch.linalg.svd(x)[0])),
    "opset-raised": lambda _: to_onnx(nn.Linear(4, 4), opset=13),
}


def value(name: str, kind: int = TensorProto.FLOAT, shape: tuple | None = (2, 2)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    op: str = "Relu",
    inputs: tuple[str, ...] = ("x",),
    kind: int = TensorProto.FLOAT,
    shape: tuple | None = (2, 2),
    opset: int = 18,
    ir: int = 10,
    domain: str = "",
    extra: tuple = (),
    weights: tuple = (),
) -> bytes:
    """A model of one node."""
    known = {v.name for v in extra} | {w.name for w in weights}
    node = helper.make_node(op, list(inputs), ["y"], name="n", domain=domain)
    entries = [value(name, kind, shape) for name in dict.fromkeys(inputs) if name not in known]
    graph = helper.make_graph([node], "g", [*entries, *extra], [value("y", kind, None)], list(weights))
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir).SerializeToString()


def session(content: bytes | str, providers: tuple = ("CPUExecutionProvider",), **config: str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    for key, text in config.items():
        options.add_session_config_entry(key.replace("__", "."), text)
    return ort.InferenceSession(content, options, providers=list(providers), enable_fallback=1)


def run(x: np.ndarray, name: str = "x", content: bytes | None = None, **more: np.ndarray) -> None:
    session(content or model()).run(None, {name: x, **more})


def lose_external_data(folder: Path) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2, 2], np.ones(4, np.float32).tobytes(), raw=True)
    proto = onnx.load_from_string(model("Add", ("x", "w"), weights=(weight,)))
    path = folder / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="model.data", size_threshold=0)
    (folder / "model.data").unlink()
    session(str(path))


def register_twice() -> None:
    nxrt = pytest.importorskip("nxrt_ep_cpu")
    try:
        for _ in range(2):
            ort.register_execution_provider_library("edgex_explain", nxrt.get_library_path())
    finally:
        ort.unregister_execution_provider_library("edgex_explain")


ONES = np.ones((2, 2), np.float32)
SIZES = value("s", TensorProto.INT64, (1,))

ONNXRUNTIME: dict[str, Callable[[Path], object]] = {
    "ir-version": lambda _: session(model(ir=99)),
    "opset-too-new": lambda _: session(model(opset=99)),
    "not-implemented": lambda _: session(model("Conv", ("x", "x"), TensorProto.DOUBLE, (1, 1, 2, 2))),
    "invalid-graph": lambda _: session(model("Add")),
    "type-error": lambda _: session(model("Conv", ("x", "x"), TensorProto.BFLOAT16, (1, 1, 2, 2))),
    "no-op-registered": lambda _: session(model("Gelu")),
    "custom-op-not-registered": lambda _: session(model("Foo", domain="mine")),
    "protobuf": lambda _: session(b"version https://git-lfs.github.com/spec/v1"),
    "no-such-file": lambda folder: session(str(folder / "model.onnx")),
    "external-data": lose_external_data,
    "invalid-dimensions": lambda _: run(np.ones((3, 2), np.float32)),
    "input-type": lambda _: run(np.ones((2, 2))),
    "input-missing": lambda _: run(ONES, "z"),
    "node-failed": lambda _: run(ONES, content=model("Reshape", ("x", "s"), extra=(SIZES,)), s=np.array([3])),
    "indices-out-of-bounds": lambda _: run(ONES, content=model("Gather", ("x", "s"), extra=(SIZES,)), s=np.array([3])),
    "shape-inference": lambda _: session(model("MatMul", ("x", "z"), extra=(value("z", shape=(3, 2)),))),
    "provider-not-available": lambda _: session(model(), ("MIGraphXExecutionProvider",)),
    "cpu-fallback-disabled": lambda _: session(
        model(), ("MIGraphXExecutionProvider",), session__disable_cpu_ep_fallback="1"
    ),
    "provider-library-missing": lambda folder: ort.register_execution_provider_library("a", str(folder / "libep.so")),
    "not-a-provider": lambda _: ort.register_execution_provider_library(
        "b", str(next(Path(ort.__file__).parent.glob("capi/libonnxruntime_providers_shared.*")))
    ),
    "provider-registered-twice": lambda _: register_twice(),
    "rocm-provider-gone": lambda _: ort.InferenceSession(
        model(), providers=["ROCMExecutionProvider"], enable_fallback=0
    ),
    "assignment-not-recorded": lambda _: session(model()).get_provider_graph_assignment_info(),
}


def find_compiler(name: str) -> None:
    from torch._inductor import config, cpp_builder

    with config.patch({"cpp.cxx": (None, name)}):
        cpp_builder.get_cpp_compiler()


def compile_nothing() -> None:
    from torch._inductor import cpp_builder

    cpp_builder.run_compile_cmd("g++ /nowhere/model.cpp", cwd=".")


def load_package(path: Path) -> None:
    from torch._C._aoti import AOTIModelPackageLoader

    AOTIModelPackageLoader(str(path), "model", False, 1, -1)


AOTI: dict[str, Callable[[Path], object]] = {
    "no-cxx-compiler": lambda _: find_compiler("no-such-compiler"),
    "cxx-compile-error": lambda _: compile_nothing(),
    "aoti-package-unreadable": lambda folder: load_package(folder / "model.pt2"),
}


def convert_to_coreai() -> None:
    from coreai_torch import TorchConverter, get_decomp_table

    class Odd(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.qr(x)[1]

    program = torch.export.export(Odd(), (torch.rand(3, 3),)).run_decompositions(get_decomp_table())
    TorchConverter().add_exported_program(program).to_coreai()


COREAI: dict[str, Callable[[Path], object]] = {"coreai-unsupported-operator": lambda _: convert_to_coreai()}


def assert_found(code: str, said: list[str]) -> None:
    found = {match.entry.code: match for match in find_in_log("\n".join(said).splitlines())}
    assert code in found, f"the engine says nothing that fits {code}:\n" + "\n".join(said)[:3000]
    assert found[code].text


@pytest.mark.parametrize("code", EXECUTORCH)
def test_executorch(code: str, pte: dict[str, bytes]) -> None:
    with everything_said() as said:
        EXECUTORCH[code](pte)
    assert_found(code, said)


@pytest.mark.parametrize("code", TORCH)
def test_torch(code: str, tmp_path: Path) -> None:
    with everything_said() as said:
        TORCH[code](tmp_path)
    assert_found(code, said)


@pytest.mark.parametrize("code", ONNXRUNTIME)
def test_onnxruntime(code: str, tmp_path: Path) -> None:
    with everything_said() as said:
        ONNXRUNTIME[code](tmp_path)
    assert_found(code, said)


@pytest.mark.parametrize("code", AOTI)
def test_aoti(code: str, tmp_path: Path) -> None:
    with everything_said() as said:
        AOTI[code](tmp_path)
    assert_found(code, said)


@needs_coreai
@pytest.mark.parametrize("code", COREAI)
def test_coreai(code: str, tmp_path: Path) -> None:
    with everything_said() as said:
        COREAI[code](tmp_path)
    assert_found(code, said)


def test_a_provider_that_fails_becomes_a_cpu_session_with_a_word_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    made = session(model(), (("CPUExecutionProvider", 3),))
    assert made.get_providers() == ["CPUExecutionProvider"]
    assert_found("ep-error-fallback", capfd.readouterr().out.splitlines())


PROVOKED = {*EXECUTORCH, *TORCH, *ONNXRUNTIME, *AOTI, *COREAI, "ep-error-fallback"}
BARE_CODES = {f"0x{number:02x}" for number in ERROR_CODES}


def test_every_entry_is_provoked_or_quoted() -> None:
    for entry in DICTIONARY:
        if entry.code in BARE_CODES:
            continue  # those of the runtime's header that this machine can provoke are among EXECUTORCH
        assert (entry.code in PROVOKED) != bool(entry.quote), entry.code
    assert len(PROVOKED - BARE_CODES) >= 25


def test_every_quote_is_found_and_names_its_thread() -> None:
    for entry in DICTIONARY:
        if entry.quote:
            assert entry.issues, entry.code
            assert entry.code in {match.entry.code for match in find_in_log([entry.quote])}, entry.code
