"""What `MODEL` on the command line names, as far as the text tells: paths are checked before anything is imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgex.errors import UsageError, nearest_names


@dataclass(frozen=True)
class ModelName:
    """The parts of `file.py[:name]`, `package.module:name` or `file.pt2`.

    Attributes:
        path: The file, or None for a module.
        module: The importable module, or None for a file.
        attribute: The given `:name`, or None.
    """

    path: Path | None
    module: str | None
    attribute: str | None

    @property
    def artifact_name(self) -> str:
        """NAME in `NAME.TARGET.edgex`: the given `:name`, else the file's stem."""
        if self.attribute:
            return self.attribute.rpartition(".")[2]
        return self.path.stem if self.path else str(self.module).rpartition(".")[2]


# What is looked for in a file anyway; see `edgex.export.source.source`.
_FOUND_UNASKED = ("get_model", "model", "get_eager_model")


def command_name(description: str, folder: Path | None = None) -> str:
    """`MODEL` for a command that is told to the user: `net.py` for `net.py:get_model`, which is found unasked.

    A model that Python code handed over has no such name: it is `MODEL` then.

    Args:
        description: What a `ModelSource` says of itself.
        folder: Where the file lies: one below the current folder is named with the way to it.
    """
    if ":" not in description and not description.endswith(".pt2"):
        return "MODEL"
    here = Path.cwd().resolve()
    if folder is not None and folder.is_relative_to(here) and (folder / description.partition(":")[0]).is_file():
        description = str(folder.relative_to(here) / description)
    head, _, attribute = description.rpartition(":")
    return head if head.endswith(".py") and attribute in _FOUND_UNASKED else description


def parse_model_name(text: str) -> ModelName:
    """Split `MODEL`, and check that a file that it names is there.

    Raises:
        UsageError: There is no such file, or the text is none of the three forms.
    """
    forms = "file.py, file.py:name, package.module:name or file.pt2"
    head, separator, attribute = text.rpartition(":")
    if not separator:
        head, attribute = text, ""
    path = Path(head)
    if path.suffix == ".pt2" and separator:
        raise UsageError(f"{text}: a .pt2 holds one program and takes no :name", fix=f"edgex export {head} …")
    if path.suffix in (".py", ".pt2") or path.exists():
        if path.is_dir():
            raise UsageError(f"{head} is a folder", why=f"a model is given as {forms}")
        if not path.is_file():
            raise UsageError(f"no such file: {head}", why=f"a model is given as {forms}", fix=_similar_files(path))
        if path.suffix not in (".py", ".pt2"):
            raise UsageError(f"{head} is neither .py nor .pt2", why=f"a model is given as {forms}")
        return ModelName(path, None, attribute or None)
    if separator and attribute.isidentifier() and all(part.isidentifier() for part in head.split(".")):
        return ModelName(None, head, attribute)
    raise UsageError(f"no such file: {text}", why=f"a model is given as {forms}")


def _similar_files(path: Path) -> str | None:
    names = [entry.name for entry in path.parent.glob("*") if entry.suffix in (".py", ".pt2")]
    close = [str(path.with_name(name)) for name in nearest_names(path.name, names)]
    return f"did you mean {' or '.join(close)}?" if close else None
