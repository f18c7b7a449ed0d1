"""Find step times of a campaign's runs in the results of other campaigns."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.campaign.campaign import Campaign
from orchestrator.status.slow_runs import kind_of
from orchestrator.status.step_times import EarlierRuns
from orchestrator.store.campaign_store import campaign_store
from orchestrator.store.records import Attempt

CAMPAIGN = "name: now\ndefaults: {framework: gpt, model: s, train_iters: 9}\nwarmup: 2\n"
STEP = (
    "[teralog] iteration {number}/9 | step_seconds {seconds} | samples_per_second 648.04"
    " | loss 6.5 | memory_allocated_gib 0.391 | max_memory_allocated_gib 0.402\n"
)


@pytest.mark.parametrize("name", ["attempt.json", "ended.json"])
def test_a_damaged_file_of_another_campaign_leaves_its_run_out(
    campaign_of: Callable[[str], Campaign],
    attempt_in: Callable[..., Attempt],
    tmp_path: Path,
    name: str,
) -> None:
    """If a run in another campaign has a damaged file, its step times are left out.

    The step times of other runs are still found.
    """
    campaign = campaign_of(CAMPAIGN)
    (planned,) = campaign.runs
    for other, seconds in (("whole", 0.2), ("damaged", 0.3)):
        store = campaign_store(tmp_path / "results", other)
        log = "".join(STEP.format(number=number, seconds=seconds) for number in range(1, 10))
        attempt = attempt_in(store.run(planned.run_id), log=log, state="COMPLETED")
        if other == "damaged":
            (attempt.folder / name).write_text("{")
    earlier = EarlierRuns(campaign, campaign_store(tmp_path / "results", "now"))
    (times,) = earlier.times(kind_of(planned.run))
    assert times.median_seconds == pytest.approx(0.2)
