"""Simulated campaigns: folders with attempts and logs as real runs would leave them."""

import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from orchestrator.campaign.campaign import PlannedRun, load_campaign
from orchestrator.campaign.interleaving import interleaved
from orchestrator.cli.main import main
from orchestrator.store.campaign_store import campaign_store
from orchestrator.store.folders import RunFolder, write_ended, write_started
from orchestrator.store.record_files import utc_now
from orchestrator.store.records import Ended, Position, Started
from orchestrator.submit.render import render_runs

CAMPAIGN = """\
name: {name}
defaults:
  framework: gpt
  model: {{hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}}
  num_layers: 2
  train_iters: 10
  micro_batch_size: 2
"""

LINE = (
    "[teralog] iteration {step}/10 | step_seconds {seconds:.9f} | samples_per_second 1 | loss 6 | "
    "memory_allocated_gib 0.1 | max_memory_allocated_gib 0.2\n"
)

OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"

INTERLEAVED = "matrix: {num_layers: [1, 2, 9]}\nrepeats: 12\norder: interleaved\n"

Speeds = Callable[[PlannedRun], float | None]


def log(seconds: float) -> str:
    """Return the log of a run with ten steps.

    seconds: the mean duration of steps 2 to 10, which vary by 0.1 %. Step 1 takes 9 s; it is the
    warm-up.
    """
    times = [9.0, *(seconds * (1 + 0.001 * (step % 3 - 1)) for step in range(2, 11))]
    return "".join(LINE.format(step=step, seconds=time) for step, time in enumerate(times, 1))


def ran(folder: RunFolder, seconds: float | None, position: Position | None) -> None:
    """Write the record and the log of an attempt, as a finished run leaves them.

    folder: the folder of the run. seconds: the mean duration of a step; None if the run ran out of
    memory. position: the run's allocation, place and block; None if they are not recorded.
    """
    attempt = folder.new_attempt()
    where = (
        {}
        if position is None
        else {
            "allocation": position.allocation,
            "place": position.place,
            "block": position.block,
        }
    )
    write_started(attempt.folder, Started(1, "here", "t", utc_now(), 60, ("0",), **where))
    attempt.log.write_text(OUT_OF_MEMORY if seconds is None else log(seconds))
    write_ended(attempt.folder, Ended("FAILED" if seconds is None else "COMPLETED", utc_now(), 1.0))


def by_layers(planned: PlannedRun) -> float | None:
    """Return the step time of a run in seconds; None for 9 layers, which run out of memory.

    The step time is about 1.1 s for 1 layer and 1.2 s for 2 layers, and 2 % more per repeat. Noise
    of 0.5 % is added.
    """
    assert planned.run.model is not None
    layers = planned.run.model.num_layers
    noise = random.Random(planned.run_id).gauss(0, 0.005)
    return None if layers == 9 else (1 + layers / 10) * math.exp(0.02 * planned.run.repeat + noise)


class Folder:
    """A folder with campaigns of simulated runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def campaign(
        self,
        lines: str,
        seconds: Speeds,
        positions: Mapping[str, Position] | None = None,
        name: str = "made-up",
    ) -> None:
        """Write a campaign and one attempt of each run.

        lines: further lines of the campaign file. seconds: a function that returns the step time of
        a run. positions: the allocation, place and block of each run, by its id; not needed for an
        interleaved campaign, because this function computes them.
        """
        file = self.path / f"{name}.yaml"
        file.write_text(CAMPAIGN.format(name=name) + lines)
        campaign = load_campaign(file)
        store = campaign_store(self.path / "results", name)
        render_runs(campaign, campaign.runs, store)
        if campaign.order_seed is not None:
            positions = {
                placed.planned.run_id: Position("submit-1", placed.place, placed.block)
                for placed in interleaved(campaign.runs, campaign.order_seed)
            }
        for planned in campaign.runs:
            where = (positions or {}).get(planned.run_id)
            ran(store.run(planned.run_id), seconds(planned), where)
        store.save_submission(campaign)

    def teralog(self, *arguments: str) -> Result:
        """Run a teralog command in the folder."""
        return CliRunner().invoke(main, [*arguments, "--results", str(self.path / "results")])

    def compared(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the output of `teralog compare --json` as Python objects, one per comparison."""
        done = self.teralog("compare", *arguments, "--json")
        assert done.exit_code == 0, done.output
        record: list[dict[str, Any]] = json.loads(done.stdout)
        return record
