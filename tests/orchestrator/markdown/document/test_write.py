"""Replace a file completely or not at all; its mode, owner and links stay."""

import resource
from pathlib import Path

import pytest

from orchestrator.markdown.document.write import overwrite


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o444])
def test_the_mode_is_kept(mode: int, tmp_path: Path) -> None:
    """The same users may read and write the file as before."""
    file = tmp_path / "page.md"
    file.write_bytes(b"old")
    file.chmod(mode)
    overwrite(file, b"new\xff")
    assert file.read_bytes() == b"new\xff"
    assert file.stat().st_mode & 0o7777 == mode
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """If the file is a symbolic link, the link stays, and its target is replaced."""
    (tmp_path / "docs").mkdir()
    real, link = tmp_path / "docs" / "page.md", tmp_path / "link.md"
    real.write_bytes(b"old")
    link.symlink_to("docs/page.md")
    overwrite(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_a_full_disk_leaves_the_old_bytes(tmp_path: Path) -> None:
    """If writing fails, the file keeps its old bytes, and no other file is left."""
    file = tmp_path / "page.md"
    file.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            overwrite(file, b"new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_gone_is_not_made(tmp_path: Path) -> None:
    """If the file does not exist, FileNotFoundError is raised, and no file is created."""
    with pytest.raises(FileNotFoundError):
        overwrite(tmp_path / "page.md", b"new")
    assert not list(tmp_path.iterdir())
