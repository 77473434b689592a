"""Files and folders appear whole or not at all."""

import os

import pytest

from edgex.errors import RunError
from edgex.runtime.support.publish import (
    disk_errors,
    publish_folder,
    remove_leftovers,
    replacing,
    staged_folder,
    write_text,
)


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "report.json"
    write_text(path, "old")
    write_text(path, "new")
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_file_that_fails_leaves_the_old_one_and_nothing_else(tmp_path):
    path = tmp_path / "report.json"
    write_text(path, "old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_folder_appears_at_the_end(tmp_path):
    path = tmp_path / "deep" / "app"
    with staged_folder(path) as folder:
        (folder / "a").write_text("a")
        assert not path.exists()
        publish_folder(folder, path)
    assert (path / "a").read_text() == "a"
    assert [entry.name for entry in path.parent.iterdir()] == ["app"]


def test_a_folder_that_fails_leaves_nothing_of_its_parents(tmp_path):
    with pytest.raises(ZeroDivisionError), staged_folder(tmp_path / "deep" / "app") as folder:
        (folder / "a").write_text("a")
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_a_folder_is_replaced_only_where_that_is_asked_for(tmp_path):
    path = tmp_path / "app"
    path.mkdir()
    (path / "old").write_text("old")
    with pytest.raises(OSError), staged_folder(path) as folder:
        (folder / "a").write_text("a")
        publish_folder(folder, path)
    assert (path / "old").is_file()
    with staged_folder(path) as folder:
        (folder / "a").write_text("a")
        publish_folder(folder, path, replace=True)
    assert [entry.name for entry in path.iterdir()] == ["a"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["app"]


def test_leftovers_of_a_killed_process_are_told_by_its_number(tmp_path):
    for name in (".a.edgex.tmp-41", ".a.edgex.tmp-41-old", ".a.edgex.tmp-7", "a.edgex"):
        (tmp_path / name).mkdir()
    remove_leftovers(tmp_path, ".edgex", 41)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".a.edgex.tmp-7", "a.edgex"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to the administrator")
def test_a_read_only_folder_is_an_error_for_the_user(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="cannot write") as caught, disk_errors(RunError, "cannot write it", fix="move"):
        write_text(tmp_path / "a", "a")
    assert caught.value.why == "Permission denied" and caught.value.fix == "move"


def test_a_missing_folder_is_an_error_for_the_user(tmp_path):
    with pytest.raises(RunError) as caught, disk_errors(RunError, "cannot write it"):
        write_text(tmp_path / "missing" / "a", "a")
    assert "No such file" in str(caught.value.why)
