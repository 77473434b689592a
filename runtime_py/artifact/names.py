"""What may be the name of an artifact, a tensor or a file in it: printable, on one line, and no path."""

from __future__ import annotations

from edgex.runtime.support.json.shapes import Text

# NAME in NAME.TARGET.edgex. It becomes a folder, a line of a shell script, a label of an app.
NAME = Text(r"(?![-. ])[^/\\]{1,200}(?<! )", "no name of an artifact: it is a path, or begins with - or a dot")
# A target, an engine, a precision, an instruction set, a package.
WORD = Text(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", "no word of letters, digits and _.+-")
# A version as PEP 440 writes it.
VERSION = Text(
    r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,5}(?:(?:a|b|rc)[0-9]{1,9})?(?:\.(?:post|dev)[0-9]{1,9})*(?:\+[a-z0-9.]{1,50})?",
    "no version",
)
# A leaf's path in the call (`batch.mask`), a buffer's path in the model, a case: data, quoted where it is used.
LABEL = Text(max_letters=2000)
# A file below the artifact's folder, with `/`.
PATH = Text(
    r"(?!/)(?!.*(?:^|/)\.{1,2}(?:/|$))(?!.*//)[^\\]{1,1000}(?<!/)",
    "outside the artifact, or not written as a path in it",
)


def check_name(name: str) -> str | None:
    """Why a text cannot be the NAME of an artifact; None where it can."""
    try:
        NAME.check(name, "the name")
    except ValueError as error:
        return str(error)
    return None
