"""Check that a GPU sampler ends with its run, even if the allocation goes on."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from practice.jobs import wait_until

pytestmark = pytest.mark.slurm

# Prints samples until it receives a signal to end.
NVIDIA_SMI = """\
#!/bin/bash
echo "timestamp, index, utilization.gpu [%], memory.used [MiB]"
while true; do
  echo "2026/01/02 03:04:05.000, 0, 75 %, 3072 MiB"
  sleep 0.2
done
"""
SAMPLED = "until (( $(cat gpus-*.csv 2> /dev/null | wc -l) > 5 )); do sleep 0.1; done"
NODES = 2


@contextmanager
def script_in_allocation(play: Any, body: str) -> Iterator[int]:
    """Start a job script in an allocation that outlives the script; yield the script's pid."""
    folder = play.path / "programs"
    folder.mkdir()
    smi = folder / "nvidia-smi"
    smi.write_text(NVIDIA_SMI)
    smi.chmod(0o755)
    play.write_slurm_campaign(
        body,
        matrix="seed: [1]",
        profile=f"exclusive: true\nsetup: ['export PATH={folder}:\"$PATH\"']\n",
        framework="hf_deepspeed",
        zero_stage=1,
        nodes=NODES,
        gpus_per_node=2,
        launcher="torchrun",
    )
    assert play.teralog("render", "campaign.yaml").returncode == 0
    [script] = play.path.glob("results/play/*/job.sh")
    work = script.parent / "work"
    work.mkdir()
    line = play.teralog("salloc", "campaign.yaml").stdout.strip()
    pid = play.path / "pid"
    command = (
        f"bash {shlex.quote(str(script))} & echo $! > {pid}.new; mv {pid}.new {pid}; "
        f"until test -e {pid}.leave; do sleep 0.2; done"
    )
    salloc = subprocess.Popen(
        [*shlex.split(line), "bash", "-c", command],
        cwd=work,
        env={**os.environ, **play.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(pid.exists, lambda: "the script has not started")
        yield int(pid.read_text())
        assert salloc.poll() is None
    finally:
        Path(f"{pid}.leave").touch()
        salloc.wait(timeout=60)


def samples(play: Any) -> int:
    """Return how many GPU samplers are active now; each node of a run has one."""
    return sum(name == "nvidia-smi" for name in play.process_names())


def ended(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("end", ["exit 0", "exit 3"])
def test_sampler_ends_with_the_job_script(bare: Any, end: str) -> None:
    """However a run ends, its sampler ends too, after it has sampled every node."""
    body = f'{SAMPLED}; until test -e "$LEDGER.go"; do sleep 0.1; done; {end}'
    with script_in_allocation(bare, body) as pid:
        wait_until(lambda: samples(bare) == NODES, lambda: "not all nodes are sampled")
        bare.go()
        wait_until(lambda: ended(pid), lambda: "the script goes on")
        wait_until(lambda: samples(bare) == 0, lambda: f"{samples(bare)} nodes are still sampled")
    files = [*bare.path.glob("results/play/*/work/gpus-*.csv")]
    assert len(files) == NODES


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_sampler_ends_with_a_script_that_is_killed(bare: Any, number: signal.Signals) -> None:
    """If a user or a lost terminal kills a job script, its samplers end too."""
    with script_in_allocation(bare, "sleep 600") as pid:
        wait_until(lambda: samples(bare) == NODES, lambda: "not all nodes are sampled")
        os.kill(pid, number)
        wait_until(lambda: samples(bare) == 0, lambda: f"{samples(bare)} nodes are still sampled")


def test_no_sampler_starts_after_a_script_that_ends_at_once(bare: Any) -> None:
    """If a job script ends at once, its sampler, which waits three seconds, does not start."""
    with script_in_allocation(bare, "true") as pid:
        wait_until(lambda: ended(pid), lambda: "the script goes on")
        left = [name for name in bare.process_names() if name in {"timeout", "srun"}]
        assert not left
    assert not list(Path(bare.path).glob("results/play/*/work/gpus-*.csv"))
