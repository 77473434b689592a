"""Calls and comments of Kotlin, on as many lines as they need."""

from __future__ import annotations

MAX_LINE = 130


def wrap_call(head: str, arguments: list[str], tail: str) -> str:
    """`head(a, b)tail` on one line, or an argument a line where that is too long."""
    line = f"{head}({', '.join(arguments)}){tail}"
    if len(line) <= MAX_LINE:
        return line
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    return "\n".join([f"{head}(", *(f"{indent}{argument}," for argument in arguments), f"{indent[4:]}){tail}"])


def wrap_doc(text: str, indent: str) -> str:
    """A KDoc comment, on one line or on several."""
    if len(line := f"{indent}/** {text} */") <= MAX_LINE:
        return line
    lines, current = [], ""
    for word in text.split():
        if current and len(indent) + 3 + len(current) + 1 + len(word) > MAX_LINE:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}".strip()
    return "\n".join([f"{indent}/**", *(f"{indent} * {line}" for line in [*lines, current]), f"{indent} */"])
