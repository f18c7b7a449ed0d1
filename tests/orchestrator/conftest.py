"""Runs and campaigns made of a few values, as a campaign file would give them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.campaign import Campaign, load_campaign
from orchestrator.errors import UserError
from orchestrator.expansion import Entry, make_run
from orchestrator.model import Run

SMALL = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "seq_length": 64,
}


@pytest.fixture(scope="session")
def run_of() -> Callable[..., Run]:
    """Return a function that makes a run of a small GPT from a campaign file's parameters."""

    def make(cluster: str = "local", repeat: int = 1, **values: Any) -> Run:
        given = {"framework": "gpt", "model": SMALL, **values}
        return make_run(Entry("defaults", given), cluster, repeat)

    return make


@pytest.fixture
def campaign_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Campaign]:
    """Return a function that loads a campaign of YAML text, on this machine without its GPUs."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def load(text: str) -> Campaign:
        path = tmp_path / "campaign.yaml"
        path.write_text(text)
        return load_campaign(path)

    return load


@pytest.fixture
def problems_of(
    campaign_of: Callable[[str], Campaign], tmp_path: Path
) -> Callable[[str], list[str]]:
    """Return a function that gives what is wrong with a campaign file, without the file's name."""

    def sentences(text: str) -> Iterator[str]:
        with pytest.raises(UserError) as caught:
            campaign_of(text)
        for problem in caught.value.problems:
            assert problem.startswith(str(tmp_path / "campaign.yaml"))
            yield problem.removeprefix(str(tmp_path / "campaign.yaml")).removeprefix(": ")

    return lambda text: list(sentences(text))
