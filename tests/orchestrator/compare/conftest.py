"""Fixtures with campaigns of simulated runs."""

from pathlib import Path

import pytest
from made_up_runs import INTERLEAVED, Folder, by_layers


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Return an empty folder for simulated campaigns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return Folder(tmp_path)


@pytest.fixture
def layers(folder: Folder) -> Folder:
    """Write six blocks of runs with 1, 2 and 9 layers; the runs with 9 layers run out of memory."""
    folder.campaign(INTERLEAVED, by_layers)
    return folder
