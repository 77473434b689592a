"""The pages are true: their commands are run, their links lead somewhere, the code that they show is the real code."""

import re
import shutil
from importlib.metadata import metadata
from pathlib import Path

import pytest
from doc_blocks import (
    PACKAGES,
    Command,
    find_difference,
    find_missing_module,
    install_package,
    read_blocks,
    read_commands,
    run_command,
    write_files,
)

pytestmark = pytest.mark.long_file

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "tests" / "plugins" / "edgex-numpy-plugin"
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
GUIDE = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "json.md")]
COMMANDS = [
    pytest.param(page, command, id=f"{page.name}:{command.line}:{command.text[:40]}")
    for page in PAGES
    if page.name != "json.md"  # test_json_docs.py runs that page
    for block in read_blocks(page)
    if block.language == "console"
    for command in read_commands(block)
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Page -> folder in which its commands run, one after the other: the samples and the files that the page shows.

    The guide, README.md and docs/*.md, shares one: its pages go on with the artifacts of the README. The page of
    plug-ins has one of its own, in which the package lies that it installs.
    """
    made = {}

    def folder_of(page):
        name = "guide" if page in GUIDE and page.name != "plugins.md" else page.stem
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            shutil.copytree(ROOT / "samples", made[name] / "samples", ignore=shutil.ignore_patterns("__pycache__"))
            if name == "plugins":
                shutil.copytree(PLUGIN, made[name] / PLUGIN.name, ignore=shutil.ignore_patterns("__pycache__"))
            for shown in GUIDE if name == "guide" else (page,):
                write_files(read_blocks(shown), made[name])
        return made[name]

    return folder_of


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_command(page, command, folders):
    first = command.text.split()[0]
    if first == "make":
        # What these do is tested elsewhere: running `make test` in here would run this test again.
        target = command.text.split()[1]
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M), f"the Makefile has no {target}"
        return
    if command.text.startswith("pip install ./"):
        install_package(folders(page) / command.text.split("/")[1], folders(page) / PACKAGES)
        return
    if first == "pip":
        extras = metadata("edgex-toolchain").get_all("Provides-Extra")
        for extra in re.search(r"\.\[(.*)\]", command.text)[1].split(","):
            assert extra in extras
        return
    assert first in ("edgex", "python"), f"who runs {command.text!r}?"
    if missing := find_missing_module(command, folders(page)):
        pytest.skip(f"the example needs {missing}, which is not installed")
    done = run_command(command, folders(page))
    printed = done.stdout + done.stderr
    assert done.returncode == command.exit_code, printed
    missing = find_difference(command.shown, printed)
    assert missing is None, f"{page.name} shows a line that is not printed:\n{missing}\n\nprinted:\n{printed}"


def test_the_readme_stays_short_and_the_guide_has_a_page_a_task():
    assert len((ROOT / "README.md").read_text().splitlines()) < 200
    for folder in (ROOT / "docs", ROOT / "docs" / "reference", ROOT / "docs" / "benchmarks"):
        assert len([path for path in folder.iterdir() if path.is_file() and path.name != "README.md"]) <= 12, folder
    index = (ROOT / "docs" / "README.md").read_text()
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]:
        assert page.name == "README.md" or f"]({page.relative_to(ROOT / 'docs')})" in index, (
            f"{page.name} is not listed"
        )


# Phrases of earlier versions; docs/reference/glossary.md has what replaces them.
REPLACED = re.compile(
    r"held against|holds? .{0,40} against|\b(?:lets?|letting) go\b|\bways? out\b|\brungs?\b|in the making"
    r"|\bdoubts?\b|\bluck\b|\bladders?\b|let through|\btold\b|\blaid\b|\bmended\b|\bborders?\b|turned round|left float",
    re.I,
)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "glossary.md"], ids=lambda page: page.name)
def test_pages_use_the_words_of_the_glossary(page):
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.S | re.M)
    found = [line for line in text.splitlines() if REPLACED.search(line)]
    assert not found, found


def test_the_comparison_can_fail():
    printed = "a  1.5 ms\nb 2\nc"
    assert find_difference(("a 7 ms", "c"), printed) is None
    assert find_difference(("a 7 …",), printed) is None
    assert find_difference(("a 7 µs",), printed) is None
    assert find_difference(("a 7 s",), printed) == "a 7 s"
    assert find_difference(("c", "b 2"), printed) == "b 2"
    printed = "5 of 6 operators in 2 calls, 98.0% of the work\n10 pass; max error 2e-06"
    assert find_difference(("5 of 6 operators in 2 calls, 99.0% …", "10 pass; …1e-06"), printed) is None
    for wrong in ("5 of 5 operators …", "5 of 6 operators in 1 call, …", "9 pass; …"):
        assert find_difference((wrong,), printed) == wrong


def test_every_page_has_its_commands_read():
    assert sum(param.values[0] == ROOT / "README.md" for param in COMMANDS) >= 5 and len(COMMANDS) >= 25
    assert all(isinstance(param.values[1], Command) for param in COMMANDS)


def test_the_page_of_plug_ins_shows_the_package_as_it_is():
    blocks = [block.text for block in read_blocks(ROOT / "docs" / "plugins.md")]
    shown = [PLUGIN / "pyproject.toml", *(PLUGIN / "edgex_numpy").glob("[!_]*.py")]
    assert len(shown) > 5
    for path in shown:
        assert path.read_text() in blocks, path.name


def test_readme_lists_the_targets_that_exist():
    rows = re.findall(r"^\| `([\w-]+)` \| .*\| (fp(?:32|16).*?) \|", (ROOT / "README.md").read_text(), re.M)
    from edgex.delegates.registry import delegate_names, get_delegate

    assert {name: tuple(precisions.split(", ")) for name, precisions in rows} == {
        name: get_delegate(name).precisions for name in delegate_names()
    }


def test_exit_codes_are_those_of_the_errors():
    import edgex.errors

    page = ROOT / "docs" / "errors.md"

    raised = {
        kind.exit_code
        for kind in vars(edgex.errors).values()
        if isinstance(kind, type) and issubclass(kind, edgex.errors.EdgexError)
    }
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page.read_text(), re.M)}
    assert documented == raised | {0}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_in_the_text_exist(page):
    from edgex.cli.main import COMMANDS as VERBS

    for verb in re.findall(r"`edgex (\w[\w-]*)", page.read_text()):
        assert verb in VERBS, f"{page.name} speaks of edgex {verb}"
