"""Provide a folder with campaigns of simulated runs."""

from pathlib import Path

import pytest
from made_up_runs import INTERLEAVED, Folder, by_layers


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return Folder(tmp_path)


@pytest.fixture
def layers(folder: Folder) -> Folder:
    """Six blocks of 1, 2 and 9 layers, the latter out of memory."""
    folder.campaign(INTERLEAVED, by_layers)
    return folder
