"""Read Run objects from the run.json files of a campaign."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.campaign.campaign import Campaign, load_campaign
from orchestrator.collect.collected import collect_campaign, collect_runs
from orchestrator.common.errors import UserError
from orchestrator.run.model import sizes
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.recorded_runs import recorded_campaign, recorded_run
from orchestrator.submit.render import render_runs

ROOT = Path(__file__).parents[3]
CAMPAIGNS = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "tests/scripts").glob("*.yaml")])


@pytest.fixture
def record_of(campaign_of: Callable[[str], Campaign], tmp_path: Path) -> Callable[[str], Any]:
    """Return a function that returns the content of the run.json of a small GPT.

    The function takes more lines of the campaign file, with further parameters of the run.
    """

    def make(lines: str) -> Any:
        campaign = campaign_of(
            "name: one\ndefaults:\n  framework: gpt\n  num_layers: 2\n  hidden_size: 64\n"
            f"  num_attention_heads: 4\n  vocab_size: 512\n  seq_length: 64\n{lines}"
        )
        store = CampaignStore(tmp_path / "results")
        folder = store.save_run(campaign.runs[0], store.run_record(campaign.runs[0], campaign))
        return json.loads((folder.path / "run.json").read_text())

    return make


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_the_runs_of_every_campaign_are_those_in_their_files(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is made from its run.json has the id and the sizes of the original run.

    The test checks the runs of all example campaigns and of those in tests/scripts.
    """
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    campaign = load_campaign(path)
    store = CampaignStore(tmp_path)
    for planned in campaign.runs:
        if planned.problems:
            continue
        folder = store.save_run(planned, store.run_record(planned, campaign))
        made = recorded_run(json.loads((folder.path / "run.json").read_text()))
        assert made is not None
        assert sizes(made) == json.loads(json.dumps(sizes(planned.run)))


@pytest.mark.parametrize("seconds", [60, 3600, 86400 * 14])
def test_a_time_limit_of_any_length_is_taken(record_of: Callable[[str], Any], seconds: int) -> None:
    """A run is made from its run.json with its time limit, e.g. a minute or two weeks."""
    run = recorded_run(record_of(f"  time_limit: {seconds // 60}\n"))
    assert run is not None
    assert run.resources.time_limit_seconds == seconds


def test_a_parameter_that_was_added_since_has_its_default(record_of: Callable[[str], Any]) -> None:
    """A parameter that an older version's run.json lacks has its default.

    So the identity of the run stays the same.
    """
    record = record_of("")
    for name in ("launcher", "context_parallel_size", "activation_checkpointing"):
        del record[name]
    assert recorded_run(record) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"framework": "gone"},
        {"strategy": "zero9"},
        {"hidden_size": 128},
        {"hidden_size": "wide"},
        {"run_id": "000000000000"},
        {"repeat": None},
    ],
    ids=str,
)
def test_a_record_that_this_version_reads_as_another_run_is_refused(
    record_of: Callable[[str], Any], change: dict[str, Any]
) -> None:
    """No run is made from a run.json whose values do not give the identity that it contains."""
    assert recorded_run({**record_of(""), **change}) is None


def test_a_folder_shows_what_its_campaign_file_shows(
    reported: Callable[..., Any], tmp_path: Path
) -> None:
    """From a results folder alone, teralog can read the started runs and the campaign's warm-up.

    The runs are in the order of the campaign file, and have the same results as with this file.
    """
    log = "[teralog] iteration 2/4 | step_seconds 0.5 | samples_per_second 16 | loss 1 "
    log += "| memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
    campaign, _, _ = reported(
        "matrix: {seed: [3, 1, 2]}\n", {"log": log, "state": "COMPLETED"}, {"log": log}, None
    )
    store = CampaignStore(tmp_path / "results")
    render_runs(campaign, campaign.runs, store)
    store.save_submission(campaign)
    runs, warmup = recorded_campaign(store)
    assert [run.label for run in runs] == ["seed=3", "seed=1"]
    assert warmup == campaign.warmup
    recorded, whole = collect_runs(runs, warmup, store), collect_campaign(campaign, store)[:2]
    for shown, collected in zip(recorded, whole, strict=True):
        assert shown == replace(collected, planned=shown.planned)
        assert shown.planned.run == collected.planned.run


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    """If no run was started in a results folder, one sentence reports that."""
    with pytest.raises(UserError, match="contains no run that was started"):
        recorded_campaign(CampaignStore(tmp_path))
