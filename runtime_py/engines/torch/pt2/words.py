"""What each text in a `.pt2` may be: names that torch writes into generated Python, types of containers, comments.

torch builds the source of `forward` from the names of nodes, parameters and arguments and executes it; a name that is
no name would be code.
"""

from __future__ import annotations

import json
import re
from typing import Any

from edgex.runtime.engines.torch.pt2.expressions import check_symbol
from edgex.runtime.support.json.reading import parse_json

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,999}")
# An attribute's path in the module. torch writes a part that is no identifier into double quotes, unescaped.
_PATH = re.compile(r"(?!__)[\w +/:#@<>=,()\[\]*-]{1,500}(?:\.(?!__)[\w +/:#@<>=,()\[\]*-]{1,500}){0,100}")
_DEVICE = re.compile(r"[a-z]{1,20}")
_WORD = re.compile(r"[\w .,<>=+-]{0,200}")
_PAYLOAD = re.compile(r"(?:weight|tensor)_[0-9]{1,9}")
_OF_PYTHON = re.compile(r"[\w.,;:<>\[\]() @/-]{0,20000}")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")

# Containers of arguments and results. Others name a Python type, which torch would import
# (`collections.defaultdict`: its factory; enumerations: their class).
_CONTAINERS = frozenset({"builtins.tuple", "builtins.list"})
_MAPPINGS = frozenset({"builtins.dict", "collections.OrderedDict", "torch.fx.immutable_collections.immutable_dict"})
_LISTS = frozenset({"torch.fx.immutable_collections.immutable_list"})
_MAX_TREE_DEPTH = 40


def check_name(text: str) -> None:
    """Let an identifier through, or no name at all.

    Raises:
        ValueError: It is anything else.
    """
    if text and not _NAME.fullmatch(text):
        raise ValueError("it is no name")


def check_path(text: str) -> None:
    """Let a module's or a tensor's path through, such as `layers.0.weight`; the root's is empty.

    Raises:
        ValueError: It is anything else.
    """
    if text and not _PATH.fullmatch(text):
        raise ValueError("it is no path of a module")


def check_device(text: str) -> None:
    """Let a kind of device through.

    Raises:
        ValueError: It is anything else.
    """
    if not _DEVICE.fullmatch(text):
        raise ValueError("it is no device")


def check_word(text: str) -> None:
    """Let a version, a dialect or a library's name through.

    Raises:
        ValueError: It is anything else.
    """
    if not _WORD.fullmatch(text):
        raise ValueError("it holds letters that do not belong there")


def check_payload(text: str) -> None:
    """Let the name of a plain tensor's member through.

    Raises:
        ValueError: It names a pickled object, or a path.
    """
    if not _PAYLOAD.fullmatch(text):
        raise ValueError("it is no plain tensor")


def check_text(text: str) -> None:
    """Let a text through that is data: an argument of an operator, a stack trace.

    Raises:
        ValueError: It holds control characters.
    """
    if _CONTROL.search(text):
        raise ValueError("it holds control characters")


def check_metadata(key: str, text: str) -> None:
    """Let what torch notes about a node through.

    Raises:
        ValueError: It is nothing that torch writes there.
    """
    check_text(text)
    if key == "source_fn_stack" and not _OF_PYTHON.fullmatch(text):
        raise ValueError("it holds letters that do not belong there")
    if key in ("custom", "from_node") and text:
        parse_json(text, max_depth=200)


def check_container(text: str) -> None:
    """Let the containers of arguments or results through: torch's `treespec_dumps`, `[1, {"type": …}]`.

    Raises:
        ValueError: It is something else, or names a type that torch would have to import.
    """
    document = parse_json(text, max_depth=3 * _MAX_TREE_DEPTH)
    if not isinstance(document, list) or len(document) != 2 or document[0] != 1:
        raise ValueError("it is no container")
    _check_tree(document[1], _MAX_TREE_DEPTH)


def _check_tree(tree: Any, depth: int) -> None:
    if depth == 0:
        raise ValueError("it is nested too deeply")
    if not isinstance(tree, dict) or set(tree) != {"type", "context", "children_spec"}:
        raise ValueError("it is no container")
    kind, context, children = tree["type"], tree["context"], tree["children_spec"]
    if not isinstance(children, list) or not (kind is None or isinstance(kind, str)):
        raise ValueError("it is no container")
    if kind is None:
        good = context is None and not children
    elif not isinstance(context, str):
        good = False
    elif kind in _MAPPINGS:
        good = _are_keys(parse_json(context))
    elif kind in _CONTAINERS or kind in _LISTS:
        good = json.loads(context) is None
    elif kind == "collections.namedtuple":
        # torch looks the class up among those that the process registered.
        good = bool(_OF_PYTHON.fullmatch(context))
    else:
        raise ValueError(f"{kind!r} is no container of Python's own")
    if not good:
        raise ValueError("it is no container")
    for child in children:
        _check_tree(child, depth - 1)


def _are_keys(found: Any) -> bool:
    """Keys become names of arguments and parts of messages in generated code."""
    return isinstance(found, list) and all(
        type(key) is int or (isinstance(key, str) and bool(_PATH.fullmatch(key))) for key in found
    )


__all__ = [
    "check_container",
    "check_device",
    "check_metadata",
    "check_name",
    "check_path",
    "check_payload",
    "check_symbol",
    "check_text",
    "check_word",
]
