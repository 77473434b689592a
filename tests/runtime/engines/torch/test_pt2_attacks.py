"""A `.pt2` of a stranger: nothing in it executes, whatever torch would evaluate."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pt2_support import rehash, rewrite_json, rewrite_members
from torch.export import Dim

import edgex
from edgex.errors import ArtifactError, EdgexError, RunError, UsageError
from edgex.export.source.source import find_model
from edgex.runtime.engines.torch.pt2.archive import load_program
from edgex.runtime.engines.torch.pt2.document import REFUSED, TEXTS
from edgex.runtime.engines.torch.pt2.expressions import check_guard, check_size
from edgex.runtime.engines.torch.pt2.operators import check_operator

OwnCopy = Callable[[str, str], Path]
MODEL = "models/model.json"


class Affine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0] // 2
        return torch.nn.functional.gelu(self.linear(x.reshape(rows, 2, 4)), approximate="tanh")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a size that varies, as torch writes it."""
    path = tmp_path_factory.mktemp("pt2") / "affine.pt2"
    program = torch.export.export(Affine().eval(), (torch.randn(6, 4),), dynamic_shapes=({0: Dim.AUTO},))
    torch.export.save(program, path)
    return path


def code(marker: Path) -> str:
    """An expression whose evaluation leaves a file."""
    return f"__import__('pathlib').Path({str(marker)!r}).touch()"


def first_size(document: Any) -> Any:
    for meta in document["graph_module"]["graph"]["tensor_values"].values():
        for size in meta["sizes"]:
            if "as_expr" in size:
                return size["as_expr"]
    raise AssertionError("no size varies")


def nodes(document: Any) -> Any:
    return document["graph_module"]["graph"]["nodes"]


def call_system(document: Any, marker: Path) -> None:
    command = {"name": "", "arg": {"as_string": f"touch {marker}"}, "kind": 1}
    nodes(document).insert(0, {**nodes(document)[0], "target": "torch.os.system", "inputs": [command], "name": "evil"})


def rename_input(document: Any, marker: Path) -> None:
    text = json.dumps(document)
    document.update(json.loads(text.replace('"x"', json.dumps(f"x={code(marker)}"))))


def rename_parameter(document: Any, marker: Path) -> None:
    text = json.dumps(document)
    name = f'linear.we" + str({code(marker)}) + "ight'
    document.update(json.loads(text.replace('"linear.weight"', json.dumps(name))))


def tree(kind: str, context: Any) -> str:
    inner = {"type": kind, "context": context, "children_spec": []}
    return json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": [inner]}])


def import_factory(document: Any, marker: Path) -> None:
    factory = {"default_factory_module": "antigravity", "default_factory_name": "x", "dict_context": []}
    signature = document["graph_module"]["module_call_graph"][0]["signature"]
    signature["out_spec"] = tree("collections.defaultdict", factory)


def import_enumeration(document: Any, marker: Path) -> None:
    key = json.dumps([{"__enum__": True, "fqn": "antigravity:x", "name": "y"}])
    document["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = tree("builtins.dict", key)


def open_file(document: Any, marker: Path) -> None:
    text = {"name": "filename", "arg": {"as_string": str(marker)}, "kind": 1}
    shared = {"name": "shared", "arg": {"as_bool": True}, "kind": 1}
    size = {"name": "size", "arg": {"as_int": 16}, "kind": 1}
    target = "torch.ops.aten.from_file.default"
    nodes(document).insert(0, {**nodes(document)[0], "target": target, "inputs": [text, shared, size]})


ATTACKS: dict[str, Callable[[Any, Path], object]] = {
    "guards_code": lambda d, marker: d.update(guards_code=[f"{code(marker)} is None"]),
    "guard in a key": lambda d, marker: d.update(guards_code=[f"L['x'][{code(marker)}] == 1"]),
    "expr_str": lambda d, marker: first_size(d).update(expr_str=code(marker)),
    "expr_str in a call": lambda d, marker: first_size(d).update(expr_str=f"Max(Integer(1), {code(marker)})"),
    "expr_str in a symbol": lambda d, marker: first_size(d).update(expr_str=f"Symbol({code(marker)})"),
    "range_constraints": lambda d, marker: d["range_constraints"].update(
        {code(marker): next(iter(d["range_constraints"].values()))}
    ),
    "target of a node": call_system,
    "name of an input": rename_input,
    "path of a parameter": rename_parameter,
    "argument names": lambda d, marker: d["graph_module"]["module_call_graph"][0]["signature"].update(
        forward_arg_names=[f"x={code(marker)}"]
    ),
    "container that imports": import_factory,
    "enumeration that imports": import_enumeration,
    "operator that opens files": open_file,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_in_the_program_does_not_run(attack: str, saved: Path, tmp_path: Path) -> None:
    marker, path = tmp_path / "executed", tmp_path / "model.pt2"
    path.write_bytes(saved.read_bytes())
    rewrite_json(path, MODEL, lambda document: ATTACKS[attack](document, marker))
    with pytest.raises(ArtifactError, match="could execute code") as caught:
        load_program(path).module()(torch.randn(6, 4))
    assert not marker.exists() and caught.value.why
    with pytest.raises(UsageError, match="cannot be read as an exported program"):
        find_model(str(path))
    assert not marker.exists()


@pytest.mark.parametrize("attack", ["guards_code", "range_constraints", "target of a node"])
def test_an_artifact_with_such_a_program_is_refused(attack: str, own_copy: OwnCopy, tmp_path: Path) -> None:
    artifact, marker = own_copy("convnet", "reference"), tmp_path / "executed"

    def change(document: Any) -> None:
        document["range_constraints"]["s0"] = {"min_val": 0, "max_val": 9}
        ATTACKS[attack](document, marker)

    rewrite_json(artifact / "model.pt2", MODEL, change)
    rehash(artifact)
    with pytest.raises(ArtifactError, match="could execute code"):
        edgex.load(artifact)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("member", "why"),
    [
        ("data/aotinductor/model/model.so", "no member"),
        ("models/other.json", "no member"),
        ("data/weights/model.pt", "no member"),
        ("data/constants/opaque_obj_0", "no member"),
        ("MODELS/model.json", "two members of one name"),
    ],
)
def test_members_that_torch_would_load_are_refused(member: str, why: str, saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(saved.read_bytes())
    rewrite_members(path, lambda name, content: content, {member: b"\x7fELF"})
    with pytest.raises(ArtifactError, match="could execute code") as caught:
        load_program(path)
    assert why in str(caught.value.why)


def test_two_archives_in_one_file_are_refused(saved: Path, tmp_path: Path) -> None:
    """Python's reader and torch's need not agree on which directory is the last."""
    path = tmp_path / "model.pt2"
    path.write_bytes(saved.read_bytes() * 2)
    try:
        load_program(path)
    except EdgexError as error:
        assert isinstance(error, (ArtifactError, RunError))


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "Pow(Integer(9), Pow(Integer(9), Integer(9)))",
        "Pow(Integer(2), Integer(100000000))",
        "(" * 300 + "s0" + ")" * 300,
        "lambda: 1",
        "[1 for s0 in s1]",
        "s0.__class__",
        "N",
        "Symbol('a b')",
        "Function('f')(s0)",
        "Integer(10000000000000000000000000000)",
        "Float('1', precision='x')",
        "S('1')",
        "s0 if s1 else s2",
        "'text'",
        "f'{s0}'",
        "exec",
    ],
)
def test_expressions_that_torch_never_writes(text: str) -> None:
    with pytest.raises(ValueError):
        check_size(text)


def test_expressions_that_torch_writes() -> None:
    for text in (
        "Max(Integer(1), TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s25', positive=True)))))",
        "Add(Mul(Integer(8), PythonMod(Mul(Integer(-1), Symbol('s1', integer=True)), Integer(4))), Integer(32))",
        "FloorDiv(Symbol('s10', positive=True, integer=True), Pow(Symbol('s9', integer=True), Integer(2)))",
        "LessThan(Symbol('u0', integer=True), Integer(5))",
        "2*s0 + s1//2 - 1",
    ):
        check_size(text)
    for text in (
        "(L['a'][0].size()[0] // (L['a'][0].size()[0] // 2)) != 1",
        "math.trunc(0.5*torch.sym_float(L['a'][0].size()[0])) == 3",
        "torch.sym_float(L['a'].size()[1]) ** (-0.5) == 0.35",
    ):
        check_guard(text)
    for text in ("L['a'].__class__", "torch.load('x')", "L['a'].size(L)", 'L["a\'b"]', "open('x')"):
        with pytest.raises(ValueError):
            check_guard(text)


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system",
        "torch.load",
        "torch.hub.load",
        "torch.ops.load_library",
        "torch.ops.aten.save.default",
        "torch.ops.aten.from_file.out",
        "torch.ops.aten.add.__class__",
        "torch.ops.aten.__class__.mro",
        "torch.ops.aten.__and__.__class__",
        "torch.ops.aten.__reduce__.Tensor",
        "torch.ops.aten.format.default",
        "torch.ops.aten.set_.source_Storage",
        "torch.ops.c10d.barrier.default",
        "torch.ops.higher_order.executorch_call_delegate",
        "torch.ops.higher_order.triton_kernel_wrapper_mutation",
        "_operator.attrgetter",
        "_operator.methodcaller",
        "math.__loader__.load_module",
        "#delegate:x",
        "aten.add",
        "torch.sym_int.__globals__",
    ],
)
def test_functions_that_no_program_may_call(target: str) -> None:
    with pytest.raises(ValueError):
        check_operator(target)


@pytest.mark.parametrize("target", ["__and__.Tensor", "__or__.Scalar", "__ior__.Tensor", "__lshift__.Scalar"])
def test_pythons_operators_on_tensors_may_be_called(target: str) -> None:
    check_operator(f"torch.ops.aten.{target}")


def test_every_text_of_torchs_schema_has_a_grammar() -> None:
    """A field that a later torch adds stays closed, and this says that someone must look at it."""
    from torch._export.serde import schema

    found: set[str] = set()

    def visit(kind: Any, field: str) -> None:
        if typing.get_origin(kind) is dict:
            found.add(f"{field}{{}}")
        if kind is str and field not in ("Node.metadata", "GraphModule.metadata"):
            found.add(field)
        for argument in typing.get_args(kind):
            if typing.get_origin(kind) is not dict or argument is typing.get_args(kind)[1]:
                visit(argument, field)
        if dataclasses.is_dataclass(kind) and kind not in REFUSED and kind not in seen:
            seen.add(kind)
            for name, hint in typing.get_type_hints(kind).items():
                if not name.startswith("_"):
                    visit(hint, f"{kind.__name__}.{name}")  # type: ignore[union-attr]

    seen: set[Any] = set()
    visit(schema.ExportedProgram, "")
    visit(schema.PayloadConfig, "")
    assert found == set(TEXTS)


def test_torch_would_have_run_it(saved: Path, tmp_path: Path) -> None:
    """The attack is real: if torch closes it one day, this says so."""
    marker, path = tmp_path / "executed", tmp_path / "model.pt2"
    path.write_bytes(saved.read_bytes())
    rewrite_json(path, MODEL, lambda document: ATTACKS["expr_str"](document, marker))
    with contextlib.suppress(Exception):  # what sympify returns is no expression: the harm is done before torch minds
        torch.export.load(path)
    assert marker.exists()
