"""Rehearse every framework on nodes of a real Slurm, through its real launcher."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from practice.running import Cluster

from orchestrator.campaign.campaign import Campaign, load_campaign
from orchestrator.campaign.user_paths import user_paths
from orchestrator.common.text import counted
from orchestrator.frameworks.table import FRAMEWORKS

pytestmark = [pytest.mark.slurm, pytest.mark.train, pytest.mark.timeout(1800)]

SCRIPTS = Path(__file__).parents[1] / "scripts"
NODES = 2
# One framework for each way to start the ranks: what a framework adds is the same on each node.
# torchrun loads torch on each of its nodes; real trainings start it on one and on sixteen.
ON_MORE = {"megatron": 4, "oneflow_gpt": 16}
# Each branch of a checkout has other programs, so the files that a run opens lack them.
PROGRAMS = {"megatron_deepspeed_3d": ("pretrain_gpt2.py", "pretrain_gpt.py")}


def write_campaign(folder: Path, framework: str, nodes: Sequence[int]) -> Campaign:
    """Write a campaign of a framework, a cluster profile, and empty files that the runs name.

    The settings are those of the framework's campaign in tests/scripts, made for V100 GPUs.
    An empty file stands for e.g. the training program. nodes: the node counts of the runs.
    """
    recorded = yaml.safe_load((SCRIPTS / f"{framework}-v100.yaml").read_text())
    defaults = recorded["defaults"] | {"time_limit": 20}
    given = [name for name in FRAMEWORKS[framework].start.paths if defaults.get(name)]
    defaults |= {name: str(folder / "programs of others" / name) for name in given}
    defaults |= {
        name: values[0] for name, values in recorded.get("matrix", {}).items() if name != "nodes"
    }
    if "launcher" in defaults:
        # Programs of 2021 refuse the option that torch.distributed.launch adds to each rank.
        defaults["launcher"] = "torchrun"
    campaign = {
        "name": framework,
        "cluster": "practice.yaml",
        "defaults": defaults,
        "matrix": {"nodes": [*nodes]},
    }
    (folder / f"{framework}.yaml").write_text(json.dumps(campaign))
    (folder / "practice.yaml").write_text(
        "gpus_per_node: 4\ngpu: V100-SXM2-32GB\ncores_per_rank: 10\nconstraint: v100-32g\n"
        f"hint: nomultithread\nmodules: [pytorch-gpu]\npython: {json.dumps(sys.executable)}\n"
    )
    loaded = load_campaign(folder / f"{framework}.yaml")
    for planned in loaded.runs:
        assert not planned.problems
        paths = user_paths(planned.run, folder)
        programs = [f"{paths['source']}/{name}" for name in PROGRAMS.get(framework, ())]
        for path in (*programs, *FRAMEWORKS[framework].start.files(paths)):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).touch()
    return loaded


def rehearse(playground: Any, cluster: Cluster, framework: str) -> list[tuple[str, str]]:
    """Rehearse a framework's campaign; return the outcome and the log of each run."""
    playground.environment |= cluster.environment
    campaign = f"{framework}.yaml"
    submitted = playground.teralog("submit", campaign, "--rehearse")
    assert submitted.returncode == 0, submitted.stderr
    # A script waits while another process compiles DeepSpeed's extensions.
    watch = ("watch", campaign, "--rehearsed", "--interval", "2")
    watched = playground.teralog(*watch, seconds=1000)
    assert watched.returncode in (0, 1), watched.stderr
    status = playground.teralog("status", campaign, "--rehearsed", "--json")
    return [(run["outcome"], Path(run["log"]).read_text()) for run in json.loads(status.stdout)]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_rank_of_every_framework_would_start(playground, sixteen_nodes, framework) -> None:
    """A rehearsal completes with all ranks on the right number of nodes, and trains nothing."""
    pytest.importorskip("deepspeed")
    counts = [NODES, ON_MORE[framework]] if framework in ON_MORE else [NODES]
    campaign = write_campaign(playground.path, framework, counts)
    ends = rehearse(playground, sixteen_nodes, framework)
    for nodes, planned, (outcome, log) in zip(counts, campaign.runs, ends, strict=True):
        assert outcome == "completed", log
        a_node = getattr(planned.run.options, "launcher", None) == "node"
        per_node = 1 if a_node else 4
        there = re.findall(r"^\[rehearsal\] gpu\d+: rank (.*)$", log, re.MULTILINE)
        assert [rank for ranks in there for rank in map(int, ranks.split(", "))] == [
            *range(nodes * per_node)
        ]
        together = f"{counted(nodes * per_node, 'rank')} on {counted(nodes, 'node')}"
        assert f"[rehearsal] {together}" in log
        assert "would start: nothing was trained" in log


def test_a_file_that_is_missing_fails_the_rehearsal(playground, sixteen_nodes) -> None:
    """If a file is missing, the rehearsal fails, and its log shows the program's own error."""
    pytest.importorskip("torch")
    write_campaign(playground.path, "deepspeed", [NODES])
    (script,) = (playground.path / "programs of others").iterdir()
    script.unlink()
    [(outcome, log)] = rehearse(playground, sixteen_nodes, "deepspeed")
    assert outcome == "failed"
    assert f"FileNotFoundError: [Errno 2] No such file or directory: '{script}'" in log
