"""Read the code blocks of a Markdown page, run its commands, and compare what they print with what the page shows.

- A `python` block whose first line is `# name.py` is that file.
- A `console` block holds commands, `$ ` before each, what they print, and `[exit N]` where that is not 0.
- Shown lines are compared in order with digits left out, since figures differ from run to run, but for counts that do
  not: operators, calls, cases that pass. `…` stands for anything, a line of it for any lines. The page may leave lines
  out.
- Which of two artifacts was faster is a figure too: a shown verdict stands for any, "too noisy to decide" among them.
"""

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from warm_processes import write_commands

# Below a page's folder: what its commands installed.
PACKAGES = ".packages"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
# On a slower machine microseconds are milliseconds.
_MILLISECONDS = re.compile(r"# µs\b")
# Letters in place of digits are compared.
_COUNT = re.compile(r"\b\d+ of \d+ operators\b|\b\d+ calls?\b|\b\d+ pass\b")
_LETTERS = str.maketrans("0123456789", "abcdefghij")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")
# What `edgex compare` answers first; a test never fails because the machine was busy.
_VERDICT = re.compile(r"(?:too (?:noisy|few rounds) to decide: |no difference within |\S.* is (?:faster|slower) than )")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the line of the page on which it starts."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """One command of a page with what the page says it prints."""

    text: str
    shown: tuple[str, ...]
    exit_code: int
    line: int


def read_blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in _FENCE.finditer(text)]


def read_commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    commands = []
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        text, *shown = part.rstrip().splitlines()
        code = 0
        if shown and (match := re.fullmatch(r"\[exit (\d+)\]", shown[-1])):
            code = int(match[1])
            shown.pop()
        commands.append(Command(text, tuple(shown), code, block.line))
    return commands


def write_files(blocks: list[Block], folder: Path) -> None:
    """Write the files that the page shows."""
    for block in blocks:
        if block.language == "python" and (match := re.match(r"# (\w+\.py)\n", block.text)):
            (folder / match[1]).write_text(block.text)


def find_missing_module(command: Command, folder: Path) -> str | None:
    """The first module that a shown file imports and that is neither installed nor beside it; None where there is none.

    Looks at the `.py` files of the command that lie in the folder itself.
    """
    for name in re.findall(r"(?<![\w/])(\w+\.py)\b", command.text):
        if not (folder / name).is_file():
            continue
        for module in re.findall(r"^(?:import|from) (\w+)", (folder / name).read_text(), re.M):
            if not (folder / f"{module}.py").exists() and importlib.util.find_spec(module) is None:
                return module
    return None


def install_package(source: Path, target: Path) -> None:
    """Install the package in a folder into another one: nothing is fetched, and no environment changes."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(source)], check=True)


def run_command(command: Command, folder: Path) -> subprocess.CompletedProcess:
    """Run one command as a reader would, with this environment's programs first on the path."""
    programs = [str(Path(sys.executable).parent)]
    if warm := write_commands():
        programs.insert(0, str(warm))
    env = {**os.environ, "PATH": os.pathsep.join([*programs, os.environ["PATH"]]), "NO_COLOR": "1"}
    env["COLUMNS"] = "120"  # as wide as a page
    if (folder / PACKAGES).is_dir():
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder / PACKAGES), os.environ.get("PYTHONPATH"))))
    env["XDG_CACHE_HOME"] = str(folder / ".cache")  # what a page's commands keep is not the user's
    return subprocess.run(
        ["bash", "-c", command.text], cwd=folder, env=env, capture_output=True, text=True, timeout=500
    )


def find_difference(shown: tuple[str, ...], printed: str) -> str | None:
    """The first shown line that is not among the printed ones, in order; None when all are."""
    rest = iter(printed.splitlines())
    for line in shown:
        if line.strip() in ("", "…"):
            continue
        pattern = ".*".join(re.escape(_normalise(part)) for part in line.split("…"))
        if _VERDICT.match(line):
            pattern = _VERDICT.pattern + ".*"
        if not any(re.fullmatch(pattern, _normalise(candidate)) for candidate in rest):
            return line
    return None


def _normalise(line: str) -> str:
    """Figures as `#`, blanks as one."""
    line = _COUNT.sub(lambda count: count[0].translate(_LETTERS), line)
    return re.sub(r"\s+", " ", _MILLISECONDS.sub("# ms", _NUMBER.sub("#", line))).strip()
