"""Files are written whole or not at all."""

import os
import stat

import pytest

from evr._basics import atomic


def test_new_file(tmp_path):
    atomic.write_text(tmp_path / "a.txt", "δ\n")
    assert (tmp_path / "a.txt").read_bytes() == "δ\n".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_permissions_are_those_of_a_plain_open_and_are_kept(tmp_path):
    (tmp_path / "plain").touch()
    atomic.write_text(tmp_path / "new", "1")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "new").chmod(0o640)
    atomic.write_text(tmp_path / "new", "2")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    atomic.write_text(tmp_path / "link", "1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "1"


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch, broken):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*arguments):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="No space left") as caught:
        atomic.write_text(path, "new")
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_missing_folder_is_named_as_given(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        atomic.write_text(tmp_path / "none" / "a.txt", "1")
    assert caught.value.filename == str(tmp_path / "none" / "a.txt")


def test_what_is_no_file_is_written_directly():
    atomic.write_text(os.devnull, "gone")
    assert not os.path.isfile(os.devnull)
