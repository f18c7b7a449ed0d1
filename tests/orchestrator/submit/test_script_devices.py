"""A job script uses only the GPUs of its run."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.hardware.cluster import Cluster
from orchestrator.run.model import Run
from orchestrator.submit.scripts import job_script
from parsers.summary.warmup import Warmup


@pytest.mark.train
def test_deepspeeds_launcher_takes_the_gpus_that_were_given(
    run_of: Callable[..., Run], tmp_path: Path
) -> None:
    """DeepSpeed's launcher uses the GPUs that its run was given.

    By default it would use the first GPUs of the machine. The test sets LOCAL_SIZE, the number of
    accelerators that DeepSpeed assumes on a machine without any.
    """
    pytest.importorskip("deepspeed")
    program = tmp_path / "program.py"
    program.write_text(
        "import os, pathlib\n"
        "took = pathlib.Path('took-' + os.environ['RANK'])\n"
        "took.write_text(os.environ['CUDA_VISIBLE_DEVICES'])\n"
    )
    cluster = Cluster(name="here", scheduler="local", gpus_per_node=4, python=sys.executable)
    run = run_of(framework="deepspeed", script=program.name, gpus_per_node=2, launcher="deepspeed")
    planned = PlannedRun(run, "0123456789ab", "label", ())
    campaign = Campaign(tmp_path / "c.yaml", "name", cluster, Warmup(), (planned,), ())
    given = {"CUDA_VISIBLE_DEVICES": "1,3", "LOCAL_SIZE": "4", "DS_ACCELERATOR": "cpu"}
    done = subprocess.run(
        ["bash", "-c", job_script(planned, campaign, tmp_path)],
        env={**os.environ, **given},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    took = {path.name: path.read_text() for path in tmp_path.glob("took-*")}
    assert took == {"took-0": "1,3", "took-1": "1,3"}, done.stderr
