"""Shared fixtures that build runs and campaigns from a few keys of a campaign file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.campaign.campaign import Campaign, load_campaign
from orchestrator.campaign.entry_problems import entry_problems
from orchestrator.campaign.expansion import Entry, make_run
from orchestrator.collect.collected import Collected, collect_campaign
from orchestrator.common.errors import UserError
from orchestrator.report.report import Report, make_report
from orchestrator.run.model import Run
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.folders import RunFolder, write_ended, write_started
from orchestrator.store.records import Attempt, Ended, Started

SMALL = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "seq_length": 64,
}

STAGES = """\
name: stages
defaults:
  framework: gpt
  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
  gpus_per_node: 2
  micro_batch_size: 4
  train_iters: 4
warmup: 1
"""


@pytest.fixture(scope="session")
def run_of() -> Callable[..., Run]:
    """Return a function that makes a run of a small GPT from a campaign file's parameters."""

    def make(cluster: str = "local", repeat: int = 1, **values: Any) -> Run:
        given = {"framework": "gpt", "model": SMALL, **values}
        entry = Entry("defaults", given)
        assert entry_problems([entry]) == []
        return make_run(entry, cluster, repeat)

    return make


@pytest.fixture
def campaign_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Campaign]:
    """Return a function that loads a campaign from YAML text, as if this machine had no GPUs."""
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
    """Return a function that loads a campaign text and returns its errors.

    The errors do not contain the file's name.
    """

    def sentences(text: str) -> Iterator[str]:
        with pytest.raises(UserError) as caught:
            campaign_of(text)
        for problem in caught.value.problems:
            assert problem.startswith(str(tmp_path / "campaign.yaml"))
            yield problem.removeprefix(str(tmp_path / "campaign.yaml")).removeprefix(": ")

    return lambda text: list(sentences(text))


@pytest.fixture(scope="session")
def attempt_in() -> Callable[..., Attempt]:
    """Return a function that makes an attempt in a run's folder.

    log: the text of the attempt's log. ended: the values of its ended.json, e.g. the state. If no
    value is given, the attempt has not ended.
    """

    def make(folder: RunFolder, log: str | None = None, **ended: Any) -> Attempt:
        attempt = folder.new_attempt()
        started = Started(
            pid=1,
            host="here",
            token="t",
            started_at="2026-01-02T03:04:05+00:00",
            time_limit_seconds=60,
            devices=(),
        )
        write_started(attempt.folder, started)
        if log is not None:
            attempt.log.write_text(log)
        if ended:
            write_ended(attempt.folder, Ended(ended_at="2026-01-02T03:05:05+00:00", **ended))
        return folder.attempts()[-1]

    return make


@pytest.fixture
def reported(
    campaign_of: Callable[[str], Campaign], attempt_in: Callable[..., Attempt], tmp_path: Path
) -> Callable[..., tuple[Campaign, list[Collected], Report]]:
    """Return a function that makes a campaign with attempts, and returns it with its report.

    The campaign file is the text STAGES and the given lines. For each run, the function takes the
    arguments of `attempt_in`, or None for a run that has not started. It returns the campaign, the
    collected runs and the report.
    """

    def make(
        text: str, *attempts: dict[str, Any] | None
    ) -> tuple[Campaign, list[Collected], Report]:
        campaign = campaign_of(STAGES + text)
        store = CampaignStore(tmp_path / "results")
        for planned, attempt in zip(campaign.runs, attempts, strict=True):
            if attempt is not None:
                attempt_in(store.run(planned.run_id), **attempt)
        runs = collect_campaign(campaign, store)
        return campaign, runs, make_report(campaign, runs, "2026-01-02")

    return make
