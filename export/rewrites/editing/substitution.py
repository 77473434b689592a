"""Write an operator in terms of others: a rule is a plain PyTorch function, traced and put in the operator's place.

```
RULES = {torch.ops.aten.log_sigmoid.default: lambda x: -F.softplus(-x)}

before:  y = aten.log_sigmoid.default(x)
after:   neg      = aten.neg.default(x)
         softplus = aten.softplus.default(neg)
         y        = aten.neg.default(softplus)
```

A rule is called with every argument that the operator's schema declares, in order: fake tensors of the program's sizes
and dtypes, and literals. It gives the result, None in place of a result of several that nothing may use, or
`NotImplemented` where it does not apply. What of the traced operators depends on weights alone is computed here.
Operators that are alike (the layers of a network, the steps of a recurrence) are traced once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import is_tuple, leaves_of, named_arguments, overload_of, schema_of
from edgex.export.rewrites.base import Rewrite, locations_of
from edgex.export.rewrites.editing.building import KEEPS_FLOAT, Replacement
from edgex.export.rewrites.editing.editor import FakeMode, ProgramEditor, constant_tensors
from edgex.export.rewrites.editing.mutation import mutated_nodes

Write = Callable[..., Any]


@dataclass(frozen=True)
class Rule:
    """How an operator is written in terms of others.

    Attributes:
        write: The function; see this file's beginning.
        apart: Take composite operators apart (`linear` to `addmm`), for operators that are composite themselves.
        where: Further condition on the operator in its program.
        operands: The arguments of `write`, where they are not the operator's own.
    """

    write: Write
    apart: bool = False
    where: Callable[[Node], bool] = lambda _: True
    operands: Callable[[Node], tuple[Any, ...]] | None = None

    def arguments(self, node: Node) -> tuple[Any, ...]:
        """What `write` is called with: nodes and literals."""
        return tuple(named_arguments(node).values()) if self.operands is None else self.operands(node)


# Rules by operator.
Rules = Mapping[Any, Rule | Write]


@dataclass(frozen=True)
class _Traced:
    node: Node
    rule: Rule
    module: GraphModule
    tensors: tuple[Node, ...]  # what the placeholders of `module` stand for, in the original program


def substitute(
    program: CapturedProgram, name: str, rules: Rules, detail: str, *, keeps_float: bool = False
) -> tuple[CapturedProgram, Rewrite | None]:
    """Apply rules wherever their operators stand; the same program comes back where none applies.

    Args:
        program: It is not changed.
        name: The pass, for the report.
        rules: By operator.
        detail: One sentence for the user; `{count}` and `{operators}` are filled in.
        keeps_float: Recipes leave the new operators alone: they compute what recipes leave in floating point.
    """
    candidates = [node for node in program.exported.graph.nodes if node.op == "call_function" and node.target in rules]
    # What is written to later may be a view: the copy that takes its place would take the write.
    written = mutated_nodes(program.exported) if candidates else set()
    alike: dict[Hashable, GraphModule | None] = {}
    traced = [
        found
        for node in candidates
        if node not in written or _makes_new(node)
        if (found := _trace(node, rules[node.target], alike)) and (node not in written or _gives_new(found.module))
    ]
    if not traced:
        return program, None
    constants = constant_tensors(program)
    editor = ProgramEditor(program)
    shared: dict[Hashable, Node] = {}
    for found in traced:
        _put_in(editor, found, constants, shared, keeps_float)
    nodes = [found.node for found in traced]
    names = ", ".join(dict.fromkeys(_name(node) for node in nodes))
    sentence = detail.format(count=len(nodes), operators=names)
    return editor.finish(), Rewrite(name, len(nodes), sentence, locations_of(nodes, program.source_root))


def _makes_new(node: Node) -> bool:
    """Whether an operator's results are memory of their own, whatever is written into them afterwards."""
    overload = overload_of(node)
    return (
        overload is not None
        and not schema_of(overload).is_mutable
        and torch.Tag.maybe_aliasing_or_mutating not in overload.tags
        and all(result.alias_info is None for result in schema_of(overload).returns)
    )


def _gives_new(module: GraphModule) -> bool:
    """Whether the results of a traced rule are too, each of another operator, and nothing else reads them."""
    found = [leaf for leaf in leaves_of(module.graph.output_node().args[0]) if isinstance(leaf, Node)]
    makers = [leaf.args[0] if leaf.target is operator.getitem else leaf for leaf in found]
    own = all(isinstance(maker, Node) and maker.op == "call_function" and _makes_new(maker) for maker in makers)
    return own and len(set(found)) == len(found) and all(len(leaf.users) == 1 for leaf in found)


def static(*sizes: object) -> bool:
    """Whether all sizes are numbers, known now: asking a dynamic one anything would fix it."""
    return all(isinstance(size, int) for size in sizes)


def used_results(node: Node) -> frozenset[int]:
    """Which results of an operator with several are used."""
    return frozenset(user.args[1] for user in node.users if user.target is operator.getitem and user.users)  # type: ignore[misc]


def _trace(node: Node, given: Rule | Write, alike: dict[Hashable, GraphModule | None]) -> _Traced | None:
    """The operators of a rule at a node; None where the rule does not apply.

    Args:
        node: The operator.
        given: Its rule.
        alike: What rules gave before, by `_likeness`; added to.
    """
    rule = given if isinstance(given, Rule) else Rule(given)
    if not rule.where(node):
        return None
    arguments = rule.arguments(node)
    tensors = tuple(leaf for leaf in leaves_of(arguments) if isinstance(leaf, Node))
    places: dict[Node, int] = {}
    likeness = _likeness(arguments, places)
    key = None if likeness is None else (node.target, likeness)
    if key is None or key not in alike:
        module = _write(node, rule, arguments, tensors)
        if key is not None:
            alike[key] = module
    else:
        module = alike[key]
    return None if module is None or not _gives_all(module, node) else _Traced(node, rule, module, tensors)


def _likeness(argument: Any, places: dict[Node, int]) -> Hashable | None:
    """What a rule sees of its arguments; None where sizes are dynamic, whose symbols belong to one place.

    Args:
        argument: A node, a literal, or a list of such.
        places: The nodes seen so far: a rule may look whether two are the same.
    """
    if isinstance(argument, list | tuple):
        parts = [_likeness(element, places) for element in argument]
        return None if None in parts else tuple(parts)
    if not isinstance(argument, Node):
        dynamic = isinstance(argument, torch.SymInt | torch.SymFloat | torch.SymBool)
        return None if dynamic else (type(argument), repr(argument))
    value = argument.meta["val"]
    if not isinstance(value, torch.Tensor) or not static(*value.shape, *value.stride()):
        return None
    place = places.setdefault(argument, len(places))
    return place, value.dtype, tuple(value.shape), value.stride(), value.requires_grad


def _write(node: Node, rule: Rule, arguments: Any, tensors: tuple[Node, ...]) -> GraphModule | None:
    """Trace a rule; None where it does not apply."""
    applies = True

    def write(*values: Any) -> Any:
        nonlocal applies
        given = iter(values)
        result = rule.write(*(_filled(argument, given) for argument in arguments))
        applies = result is not NotImplemented
        return () if not applies else result

    try:
        with torch.no_grad(), FakeMode(leaves_of(node.meta["val"])):
            module = make_fx(write, pre_dispatch=not rule.apart)(*(tensor.meta["val"] for tensor in tensors))
    except GuardOnDataDependentSymNode:  # the rule asks for a size that only a run finds
        return None
    return _without_strides(_without_writes(module)) if applies else None


def _without_writes(module: GraphModule) -> GraphModule:
    """What PyTorch takes apart may write to what it made (`nanmean`): operators that return something new instead.

    ```
    before:  a = aten.ne.Tensor(x, x); b = aten.logical_not_.default(a); c = aten.sum.default(a)
    after:   a = aten.ne.Tensor(x, x); b = aten.logical_not.default(a); c = aten.sum.default(b)
    ```
    """
    nodes = list(module.graph.nodes)
    for at, node in enumerate(nodes):
        overload = overload_of(node)
        if overload is None or not schema_of(overload).is_mutable:
            continue
        name, _, variant = str(overload).removeprefix("aten.").partition(".")
        new = getattr(getattr(torch.ops.aten, name[:-1], None), variant, None) if name.endswith("_") else None
        written = node.args[0]
        if new is None or not isinstance(written, Node) or not (written.op == "call_function" and _makes_new(written)):
            continue
        # A view of it would keep the old values, and what is written keeps the dtype.
        if not all(map(_makes_new, written.users.keys() - {node})) or not _is_of_floats_or_truths(node, name):
            continue
        node.target = new
        for later in nodes[at + 1 :]:
            later.replace_input_with(written, node)
    return module


def _without_strides(module: GraphModule) -> GraphModule:
    """A view of what PyTorch lays out itself as a reshape: quantized later, say, its operand may lie otherwise.

    ```
    before:  z = aten._unsafe_view.default(y, [28, 56, 96])
    after:   z = aten.reshape.default(y, [28, 56, 96])
    ```
    """
    for node in module.graph.nodes:
        if node.target == torch.ops.aten._unsafe_view.default:
            node.target = torch.ops.aten.reshape.default
    return module


def _is_of_floats_or_truths(node: Node, name: str) -> bool:
    """Whether an operator gives the dtype of what it reads: logic gives truths, arithmetic of floats floats."""
    dtypes = {read.meta["val"].dtype for read in node.all_input_nodes}
    if name.startswith(("logical", "eq", "ne", "lt", "le", "gt", "ge")):
        return dtypes == {torch.bool}
    return len(dtypes) == 1 and dtypes.pop().is_floating_point


def _filled(argument: Any, values: Any) -> Any:
    """An argument with the traced values in the places of its nodes."""
    if isinstance(argument, list | tuple):
        return [_filled(element, values) for element in argument]
    return next(values) if isinstance(argument, Node) else argument


def _gives_all(module: GraphModule, node: Node) -> bool:
    """Whether every result that is used is there, with the dtype and sizes of the operator's own."""
    given = module.graph.output_node().args[0]
    if not is_tuple(node.meta["val"]):
        return _is_like(given, node.meta["val"])
    assert is_tuple(given)
    if any(user.target is not operator.getitem for user in node.users):
        return False
    return all(_is_like(given[index], node.meta["val"][index]) for index in used_results(node))


def _is_like(given: Any, wanted: torch.Tensor) -> bool:
    if given is None:
        return False
    found = given.meta["val"]
    assert found.dtype == wanted.dtype, f"a rule gives {found.dtype} instead of {wanted.dtype}"
    assert len(found.shape) == len(wanted.shape), f"a rule gives {found.shape} instead of {wanted.shape}"
    return True


def _put_in(
    editor: ProgramEditor,
    found: _Traced,
    constants: Mapping[Node, torch.Tensor],
    shared: dict[Hashable, Node],
    keeps_float: bool,
) -> None:
    """Put a traced rule in its operator's place.

    Args:
        editor: Of the program.
        found: The operator and its rule.
        constants: Tensors of the original program's nodes.
        shared: What weights became for operators before; added to. The steps of a loop share their weights.
        keeps_float: Mark what is new for recipes.
    """
    step = Replacement(editor, found.node)
    # Read from the copy: an argument may have been replaced already.
    sources = [leaf for leaf in leaves_of(found.rule.arguments(editor.node(found.node))) if isinstance(leaf, Node)]
    made: dict[Node, Any] = {}
    known: dict[Node, torch.Tensor] = {}
    weights = tuple(tensor.name if tensor in constants else "" for tensor in found.tensors)

    def place(node: Node) -> Any:
        """The copy of a traced node; what is known becomes a constant of the program when something reads it."""
        key = (id(found.module), node.name, weights)
        if node not in made:
            made[node] = shared.get(key) or step.constant(
                f"{node.name}_of_weights", known[node].contiguous(), is_parameter=True
            )
            shared[key] = made[node]
        return made[node]

    for node in found.module.graph.nodes:
        if node.op == "placeholder":
            at = len(made)
            made[node] = sources[at]
            if found.tensors[at] in constants and static(*found.tensors[at].meta["val"].shape):
                known[node] = constants[found.tensors[at]]
        elif node.op == "get_attr":
            known[node] = getattr(found.module, str(node.target))
        elif node.op == "call_function" and known and _is_known(node, known):
            with torch.no_grad():
                known[node] = node.target(*torch.fx.map_arg(node.args, known.get), **node.kwargs)
        elif node.op == "call_function":
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), place)
            made[node] = step.insert(node.target, args, kwargs, node.meta.get("val"))
            if keeps_float:
                made[node].meta[KEEPS_FLOAT] = True
    result: Any = torch.fx.map_arg(found.module.graph.output_node().args[0], place)
    step.finish(result)


def _is_known(node: Node, known: Mapping[Node, torch.Tensor]) -> bool:
    return bool(node.all_input_nodes) and all(source in known for source in node.all_input_nodes)


def _name(node: Node) -> str:
    overload = overload_of(node)
    return str(node.target) if overload is None else str(overload).removesuffix(".default")
