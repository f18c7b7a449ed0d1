"""Crowded runs, with more ranks than cores or next to other runs, are refused or marked."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.hardware.machine import cores
from orchestrator.local.neighbours import Neighbours
from orchestrator.store.records import Attempt, Ended, Started

MANY = cores() + 1
PROBLEM = f"gpus_per_node={MANY} starts {MANY} ranks, and this machine has {cores()} core"


@pytest.fixture
def strict(playground, monkeypatch: pytest.MonkeyPatch):
    """Return a playground in which TERALOG_OVERSUBSCRIBE is not set.

    Its run has more ranks than this machine has cores.
    """
    monkeypatch.delenv("TERALOG_OVERSUBSCRIBE")
    playground.write_campaign("true", matrix="seed: [1]", gpus_per_node=MANY)
    return playground


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Return a dict for each attempt of the campaign's runs, in the order of their folders.

    It has the values of the attempt's two records, attempt.json and ended.json.
    """
    return [
        json.loads(path.read_text()) | json.loads(path.with_name("ended.json").read_text())
        for path in sorted(folder.glob("results/play/*/attempt-*/attempt.json"))
    ]


def test_plan_and_submit_refuse_more_ranks_than_cores(strict) -> None:
    """`plan` and `submit` refuse a run with more ranks than cores.

    The message of `submit` has the option that starts the run anyway.
    """
    plan = strict.teralog("plan", "campaign.yaml")
    assert plan.returncode == 1
    assert PROBLEM in plan.stderr
    refused = strict.teralog("submit", "campaign.yaml")
    assert refused.returncode == 1
    assert PROBLEM in refused.stderr
    assert "--oversubscribe" in refused.stderr
    assert strict.events() == []
    assert strict.teralog("render", "campaign.yaml").returncode == 0


def test_oversubscribed_runs_start_and_are_marked(strict) -> None:
    """With `--oversubscribe`, a run with more ranks than cores starts and is marked as crowded.

    The attempt records its ranks and cores; the report and its JSON mark the run. A retry needs the
    option too.
    """
    strict.write_campaign("exit 1", matrix="seed: [1]", gpus_per_node=MANY)
    strict.teralog("submit", "campaign.yaml", "--oversubscribe")
    refused = strict.teralog("retry", "campaign.yaml")
    assert refused.returncode == 1
    assert PROBLEM in refused.stderr
    strict.teralog("retry", "campaign.yaml", "--oversubscribe")
    counts = [
        (record["ranks"], record["cores"], record["other_runs"]) for record in recorded(strict.path)
    ]
    assert counts == [(MANY, cores(), 0)] * 2
    shown = json.loads(strict.teralog("report", "campaign.yaml", "--json").stdout)
    assert shown["runs"][0]["crowded"].startswith(f"{MANY} ranks on {cores()} core")
    assert "crowded: more ranks than cores" in shown["provenance"]


@pytest.mark.parametrize(("value", "refused"), [("1", False), ("0", True), ("", True)])
def test_a_variable_allows_oversubscription_too(strict, value: str, refused: bool) -> None:
    """TERALOG_OVERSUBSCRIBE allows more ranks than cores, unless its value is 0 or empty."""
    strict.environment["TERALOG_OVERSUBSCRIBE"] = value
    done = strict.teralog("submit", "campaign.yaml")
    assert (PROBLEM in done.stderr) == refused
    assert (strict.events() == []) == refused


def test_a_rehearsal_may_have_more_ranks_than_cores(strict) -> None:
    """A rehearsal may have more ranks than cores, because its ranks are not timed."""
    done = strict.teralog("submit", "campaign.yaml", "--rehearse")
    assert PROBLEM not in done.stderr


@pytest.mark.skipif(cores() < 2, reason="two runs at once need two cores")
def test_runs_at_once_count_each_other(playground) -> None:
    """If two runs run at the same time, the report shows that each had one other run next to it.

    A run that starts after all others have ended counts no other run.
    """
    meet = 'touch "$LEDGER.$run.here"; until [[ $(ls "$LEDGER".*.here | wc -l) -ge 2 ]]; do :; done'
    playground.write_campaign(f"{meet}; sleep 1", matrix="seed: [1]")
    text = (playground.path / "campaign.yaml").read_text()
    (playground.path / "other.yaml").write_text(
        text.replace("seed: [1]", "seed: [2]").replace("name: play", "name: other")
    )
    submits = [playground.start("submit", name) for name in ("campaign.yaml", "other.yaml")]
    assert [submit.wait(60) for submit in submits] == [0, 0]
    playground.write_campaign("true", matrix="seed: [1, 3]")
    playground.teralog("submit", "campaign.yaml", "--accept-changes")
    by_run = {run["run"]: run["crowded"] for run in playground_report(playground)}
    assert list(by_run.values()) == ["1 other run at the same time", None]


def playground_report(playground) -> list[dict[str, Any]]:
    """Return a dict for each run in the report of the playground's campaign.

    run: its label. crowded: a text that shows how the run is crowded, or None if it is not.
    """
    runs = json.loads(playground.teralog("report", "campaign.yaml", "--json").stdout)["runs"]
    return [{"run": run["label"], "crowded": run["crowded"]} for run in runs]


CROWDED: dict[str, tuple[int | None, int | None, int | None, str | None]] = {
    "alone": (2, 2, 0, None),
    "more ranks than cores": (8, 2, 0, "8 ranks on 2 cores"),
    "next to a run": (1, 2, 1, "1 other run at the same time"),
    "both": (3, 1, 2, "3 ranks on 1 core, 2 other runs at the same time"),
    "not counted": (1, 2, None, None),
    "on GPUs": (8, None, None, None),
    "of an earlier version": (None, None, None, None),
}


@pytest.mark.parametrize(("ranks", "core_count", "others", "text"), CROWDED.values(), ids=CROWDED)
def test_an_attempt_records_which_runs_shared_its_cores(
    ranks: int | None, core_count: int | None, others: int | None, text: str | None
) -> None:
    """An attempt is crowded if its ranks exceed the cores, or if other runs ran at the same time.

    An attempt is not crowded if its record has no number of cores. This is so for attempts on GPUs,
    and in records of earlier versions.
    """
    started = Started(1, "here", "t", "2026", 60, (), ranks=ranks, cores=core_count)
    attempt = Attempt(1, Path(), started, Ended("COMPLETED", "2026", other_runs=others))
    assert attempt.crowded == text


def test_a_run_that_was_killed_counts_no_more(tmp_path: Path) -> None:
    """A killed run is not counted by other runs.

    The kernel frees the lock of the killed run. When another run counts the active runs, it removes
    the lock file of the killed run.
    """
    first, second = Neighbours.join(tmp_path, "a"), Neighbours.join(tmp_path, "b")
    assert first is not None
    assert second is not None
    first.look()
    assert first.most == 1
    os.close(second.descriptor)
    third = Neighbours.join(tmp_path, "c")
    assert third is not None
    third.look()
    assert third.most == 1
    third.leave()
    first.leave()
    assert list(tmp_path.iterdir()) == []
