"""`debug/`: what the profiler needs to lead from an operator to the user's module, line and weight.

```
source_map.json    the delegate's: native node or handle -> operator, module path, source line
source_text.json   [{"file": "net.py", "first_line": 12, "lines": ["def forward(self, x):", …]}, …]
quantization.json  bytes by layer and dtype, what stayed in floating point, clipped activations, dead channels
weights.json       [{"name": "conv.weight", "module": "conv", "dtype": "float32", "shape": [8, 3], "bytes": 96}, …]
```

Where an artifact has several methods, each has these in a folder of its name: `debug/encode/weights.json`.

Only files below the folder of the user's file are quoted, and of them only the functions that operators come from.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.export.source.user_code.user_line import is_installed

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram


DEBUG_FOLDER = "debug"


def write_debug(
    folder: Path,
    source_map: Mapping[str, Any],
    program: CapturedProgram,
    compression: Mapping[str, Any] | None = None,
) -> None:
    """Write the folder `debug/`, or that of one method in it.

    Args:
        folder: Made here.
        source_map: What the delegate gave.
        program: What it was given, for the weights and the folder of the user's file.
        compression: Of a quantized program: what quantizing did to it.
    """
    folder.mkdir(parents=True)
    files = {
        "source_map": source_map,
        "source_text": quote_sources((item["source"] for item in source_map.get("ops", ())), program.source_root),
        "weights": list_weights(program),
    }
    if compression is not None:
        files["quantization"] = compression
    for name, document in files.items():
        text = json.dumps(document, indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def quote_sources(places: Iterable[str | None], source_root: Path) -> list[dict[str, Any]]:
    """The functions around these lines, as they are on disk now.

    Args:
        places: `net.py:12`, relative to `source_root`; others are left out.
        source_root: Folder of the user's file.
    """
    by_file: dict[str, set[int]] = {}
    for place in places:
        file, _, line = (place or "").rpartition(":")
        if file and line.isdigit():
            by_file.setdefault(file, set()).add(int(line))
    found = []
    for file, lines in sorted(by_file.items()):
        path = source_root / file
        if not path.is_file() or is_installed(path.resolve()):
            continue
        try:
            text = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue  # a model may come from a file that is gone or not text; its lines are then not quoted
        for first, last in _functions_around("\n".join(text), {line for line in lines if line <= len(text)}):
            found.append({"file": file, "first_line": first, "lines": text[first - 1 : last]})
    return found


def list_weights(program: CapturedProgram) -> list[dict[str, Any]]:
    """Parameters and constant buffers that are used, by their names in the model; state is none of them."""
    signature = program.exported.graph_signature
    nodes = {node.name: node for node in program.exported.graph.find_nodes(op="placeholder")}
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    state = {spec.name for spec in program.state}
    rows = []
    for placeholder, name in names.items():
        tensor = nodes[placeholder].meta["val"]
        if name in state or not nodes[placeholder].users:
            continue
        rows.append(
            {
                "name": name,
                "module": name.rpartition(".")[0],
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": [int(size) for size in tensor.shape],
                "bytes": tensor.numel() * tensor.element_size(),
            }
        )
    return rows


def _functions_around(text: str, lines: set[int]) -> list[tuple[int, int]]:
    """First and last line of each outermost function, or of the statement outside of any, that holds one of `lines`."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    spans = []
    for node in _outermost(tree):
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        last = node.end_lineno or node.lineno
        if any(first <= line <= last for line in lines):
            spans.append((first, last))
    return sorted(set(spans))


def _outermost(tree: ast.AST) -> Iterable[ast.stmt]:
    """Functions that lie in no other function, and statements that lie in neither function nor class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _outermost(node)
        elif isinstance(node, ast.stmt):
            yield node
