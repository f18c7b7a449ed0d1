"""Check that job scripts train on a real Slurm, on one node and on two."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from practice.jobs import wait_for
from practice.running import Cluster

pytestmark = [pytest.mark.slurm, pytest.mark.train]

PROFILE = """\
nodes: 4
gpus_per_node: 4
gpu: V100-SXM2-32GB
cores_per_rank: 10
partition: v100
constraint: v100-32g
hint: nomultithread
"""
# The nodes only pose as having GPUs, so torch takes the CPU. DeepSpeed's own launcher counts what
# is really there, and so finds no second GPU on one node.
CAMPAIGN = """\
name: practice
cluster: v100.yaml
defaults:
  framework: gpt
  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
  micro_batch_size: 4
  train_iters: 4
  time_limit: 5
include:
  - {launcher: torchrun, nodes: 1, gpus_per_node: 2}
  - {launcher: torchrun, nodes: 2, gpus_per_node: 1}
  - {launcher: srun, nodes: 1, gpus_per_node: 2}
  - {launcher: srun, nodes: 2, gpus_per_node: 1}
  # FusedAdam, which clusters with GPUs get, would be compiled for the CPU.
  - {launcher: deepspeed, strategy: zero1, nodes: 2, gpus_per_node: 1,
      deepspeed: {optimizer: {params: {torch_adam: true}}}}
"""


def test_every_launcher_trains_the_same_model_on_one_node_and_on_two(
    slurm: Cluster, tmp_path: Path
) -> None:
    """A job script, submitted by hand, trains on two ranks; one node or two give the same loss."""
    pytest.importorskip("deepspeed")
    (tmp_path / "v100.yaml").write_text(PROFILE)
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    teralog = Path(sys.executable).parent / "teralog"
    subprocess.run([teralog, "render", "campaign.yaml"], cwd=tmp_path, check=True, timeout=60)
    scripts = sorted((tmp_path / "results" / "practice").glob("*/job.sh"))
    assert len(scripts) == 5
    submitted = {
        slurm.run("sbatch", "--parsable", str(script), cwd=tmp_path).stdout.strip(): script.parent
        for script in scripts
    }
    losses = set()
    for job, folder in submitted.items():
        ended = wait_for(slurm, job, "COMPLETED|FAILED|TIMEOUT|CANCELLED", seconds=300)
        log = (folder / f"slurm-{job}.out").read_text()
        assert ended == "COMPLETED", f"{json.loads((folder / 'run.json').read_text())}\n{log}"
        assert re.search(r"^\[teralog\] start .* world_size 2 \| backend gloo", log, re.MULTILINE)
        match = re.search(
            r"^\[teralog\] finished \| iterations 4 .* final_loss (\S+)", log, re.MULTILINE
        )
        assert match, log
        losses.add(match[1])
    assert len(losses) == 1
