"""Two folders change their names in one step, or not at all."""

import threading

import pytest

from edgex.runtime.support import publish
from edgex.runtime.support.disk.exchange import swap
from edgex.runtime.support.publish import publish_folder, staged_folder


def make(folder, content):
    folder.mkdir()
    (folder / "content").write_text(content)
    return folder


def test_two_folders_are_swapped(tmp_path):
    one, other = make(tmp_path / "one", "1"), make(tmp_path / "other", "2")
    assert swap(one, other)
    assert (one / "content").read_text() == "2" and (other / "content").read_text() == "1"


def test_a_missing_one_is_an_error_and_changes_nothing(tmp_path):
    one = make(tmp_path / "one", "1")
    with pytest.raises(FileNotFoundError):
        swap(one, tmp_path / "other")
    assert (one / "content").read_text() == "1"


def test_a_folder_that_is_replaced_is_never_missing(tmp_path):
    path, gaps, done = make(tmp_path / "net", "old"), [], threading.Event()

    def look():
        while not done.is_set():
            gaps.extend([1] if not path.exists() else [])

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for number in range(300):
            with staged_folder(path) as folder:
                (folder / "content").write_text(str(number))
                publish_folder(folder, path, replace=True)
    finally:
        done.set()
        watcher.join()
    assert not gaps and (path / "content").read_text() == "299"


def test_where_the_file_system_cannot_swap_the_older_one_is_renamed_before(tmp_path, monkeypatch):
    """A stand-in for such a file system."""
    monkeypatch.setattr(publish, "swap", lambda one, other: False)
    path = make(tmp_path / "net", "old")
    with staged_folder(path) as folder:
        (folder / "content").write_text("new")
        publish_folder(folder, path, replace=True)
    assert (path / "content").read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["net"]


def test_a_link_that_is_replaced_leaves_what_it_meant(tmp_path):
    kept = make(tmp_path / "kept", "old")
    path = tmp_path / "net"
    path.symlink_to(kept)
    with staged_folder(path) as folder:
        (folder / "content").write_text("new")
        publish_folder(folder, path, replace=True)
    assert not path.is_symlink() and (path / "content").read_text() == "new"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["kept", "net"]
    assert (kept / "content").read_text() == "old"
