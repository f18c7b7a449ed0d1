"""A run's GPUs are sampled with nvidia-smi while it trains; the report's table has the results."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.frameworks.base import Logged
from orchestrator.frameworks.gpu_usage import GPU_SAMPLES, busy_percent
from orchestrator.measure.gpu_samples import GpuSamples, read_gpu_samples
from orchestrator.measure.summary import Summary
from orchestrator.run.model import Run
from parsers.scan.reader import read_records

HEADER = "timestamp, index, utilization.gpu [%], memory.used [MiB]\n"
ROW = "2026/01/02 03:04:{second:02}.000, {gpu}, {percent}, {memory}\n"

# The GPU is idle before the training and after it; its memory stays in use for a while.
TICKS = [("0 %", "3 MiB"), ("70 %", "400 MiB"), ("0 %", "512 MiB"), ("90 %", "512 MiB")]
IDLE = ("0 %", "2 MiB")


def written(folder: Path, host: str, ticks: list[tuple[str, str]]) -> None:
    """Write a file with nvidia-smi's samples of a node with two GPUs, of which GPU 1 is idle.

    ticks: for each time of sampling, the utilization and the used memory of GPU 0.
    """
    rows = [
        ROW.format(second=5 * number, gpu=gpu, percent=percent, memory=memory)
        for number, tick in enumerate(ticks)
        for gpu, (percent, memory) in enumerate((tick, IDLE))
    ]
    (folder / f"gpus-{host}.csv").write_text(HEADER + "".join(rows))


def test_the_highest_memory_and_the_median_use_while_busy_are_reported(tmp_path: Path):
    """The result has the highest memory and the median utilization of a run's GPUs.

    The median is over the samples from the first to the last busy one. It includes idle samples
    between these two.
    """
    written(tmp_path, "node1", [*TICKS, IDLE])
    assert read_gpu_samples(tmp_path) == GpuSamples(memory_gib=0.5, utilization_percent=70)


def test_samples_in_a_log_are_taken_as_those_next_to_it(tmp_path: Path, run_of: Callable[..., Run]):
    """Samples in a log give the same utilization as samples in a separate file."""
    written(tmp_path, "node1", [*TICKS, IDLE])
    log = tmp_path / "gpus-node1.csv"
    run, records = run_of(), list(read_records(log, GPU_SAMPLES))
    assert busy_percent(Logged(run, records, Summary())) == 70


def test_every_node_has_a_file_and_its_own_device_0(tmp_path: Path):
    """The samples of all nodes count; device 0 of one node is not the device 0 of another node."""
    written(tmp_path, "node1", TICKS)
    written(tmp_path, "node2", [("100 %", "1024 MiB"), ("100 %", "[N/A]")])
    assert read_gpu_samples(tmp_path) == GpuSamples(memory_gib=1.0, utilization_percent=90)


@pytest.mark.parametrize(
    ("text", "samples"),
    [
        ("", None),
        ("No devices were found\n", None),
        (HEADER, None),
        (HEADER + "2026/01/02 03:04:05.000, 0, [N/A], [N/A]\n", None),
        (HEADER + "2026/01/02 03:04:05.000, 0, 0 %, 8 MiB\n", GpuSamples(8 / 1024, None)),
        (HEADER + "2026/01/02 03:04:05.000, 0, 7 %, 8 MiB\n2026/01", GpuSamples(8 / 1024, 7)),
    ],
    ids=["empty", "no GPU", "only the header", "nothing known", "never busy", "cut off"],
)
def test_unknown_values_are_absent(tmp_path: Path, text: str, samples: GpuSamples | None):
    """A value that the samples do not contain is None, never 0."""
    (tmp_path / "gpus-here.csv").write_text(text)
    assert read_gpu_samples(tmp_path) == samples


# Answers as nvidia-smi does, only faster than every 5 s.
NVIDIA_SMI = f"""\
#!/bin/bash
echo "$$ $*" >> {{calls}}
echo "{HEADER.strip()}"
for ((i = 0; ; i++)); do
  echo "2026/01/02 03:04:05.000, 0, $((i ? 80 : 0)) %, 2048 MiB"
  echo "2026/01/02 03:04:05.000, 1, $((i ? 60 : 0)) %, 1024 MiB"
  sleep 0.1
done
"""


@pytest.fixture
def calls(playground: Any) -> Path:
    """Put a stand-in for nvidia-smi on the PATH; return the file in which it records its calls."""
    calls_file = playground.path / "calls"
    folder = playground.path / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text(NVIDIA_SMI.format(calls=calls_file))
    (folder / "nvidia-smi").chmod(0o755)
    playground.environment |= {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "GPUS": "2",
    }
    return calls_file


def write_campaign(playground: Any, body: str) -> None:
    """Write a campaign of one run of the deepspeed framework, on two GPUs."""
    playground.write_campaign(
        body, matrix="seed: [1]", framework="deepspeed", script="train.py", gpus_per_node=2
    )


WAIT_FOR_SAMPLES = 'until [[ "$(cat gpus-*.csv | wc -l)" -gt 20 ]]; do sleep 0.1; done'


def wait_for(file: Path) -> None:
    """Wait until a file exists, at most 60 s."""
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)


def assert_ended(calls: Path) -> None:
    """Assert that each sampler that was started ends within 60 s.

    calls: the file in which the stand-in for nvidia-smi records its calls.
    """
    pids = [int(line.split()[0]) for line in calls.read_text().splitlines()]
    assert pids
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(timeout=60)


def test_the_samples_of_a_run_are_in_its_table(playground: Any, calls: Path):
    """The report has the memory and the utilization of the run's own GPUs.

    The samples are not in the log. When the run has ended, its sampler has ended too.
    """
    write_campaign(playground, WAIT_FOR_SAMPLES)
    done = playground.teralog("submit", "campaign.yaml")
    assert done.returncode == 0, done.stderr
    assert_ended(calls)
    assert playground.processes() == []
    [call] = calls.read_text().splitlines()
    assert "--id=0,1 --loop=5 --format=csv" in call
    shown = playground.teralog("report", "campaign.yaml").stdout
    assert "GPU mem" in shown
    assert "nvidia-smi every 5 s" in shown
    report = json.loads((playground.path / "results" / "play" / "report.json").read_text())
    [run] = report["runs"]
    assert run["device_memory_gib"] == 2.0
    assert run["gpu_utilization_percent"] in (60, 70, 80)
    [log] = (playground.path / "results" / "play").glob("*/attempt-1/output.log")
    assert "2048 MiB" not in log.read_text()


def test_sampling_ends_with_a_run_that_is_cancelled(playground: Any, calls: Path):
    """If a run is cancelled, its sampler ends too."""
    write_campaign(playground, "sleep 100")
    submit = playground.start("submit", "campaign.yaml")
    wait_for(calls)
    playground.teralog("cancel", "campaign.yaml", "--all")
    submit.communicate(timeout=60)
    assert_ended(calls)
    assert playground.processes() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, None])
def test_sampling_ends_with_a_script_that_was_started_by_hand(
    playground: Any, calls: Path, number: signal.Signals | None
):
    """If a user starts a job script by hand, its sampler ends when the script ends.

    This holds if the script ends by itself, by SIGTERM or by SIGINT.
    """
    # If its child ends by itself at SIGINT, bash goes on, because it waits for the child first.
    began = playground.ledger.with_name("ledger.began")
    body = ': > "$LEDGER.began"; sleep 100' if number else WAIT_FOR_SAMPLES
    write_campaign(playground, body)
    playground.teralog("render", "campaign.yaml")
    [script] = (playground.path / "results" / "play").glob("*/job.sh")
    process = subprocess.Popen(
        ["bash", str(script)],
        cwd=playground.path,
        env={**os.environ, **playground.environment},
        start_new_session=True,
    )
    wait_for(calls)
    if number:
        wait_for(began)
        os.killpg(process.pid, number)
    process.wait(timeout=60)
    assert_ended(calls)


# Delays the script between the start of its sampler and the line after it.
SLOW_SCRIPT = """\
[[ "$0" != */job.sh ]] || trap '[[ "$BASH_COMMAND" != sampler=?* ]] || sleep 10' DEBUG
"""


def test_sampling_ends_with_a_script_that_ends_as_it_starts(playground: Any, calls: Path):
    """If a job script gets SIGTERM right after it started a sampler, the sampler ends too."""
    (playground.path / "slow.sh").write_text(SLOW_SCRIPT)
    playground.environment["BASH_ENV"] = str(playground.path / "slow.sh")
    write_campaign(playground, "sleep 100")
    playground.teralog("render", "campaign.yaml")
    [script] = (playground.path / "results" / "play").glob("*/job.sh")
    process = subprocess.Popen(
        ["bash", str(script)],
        cwd=playground.path,
        env={**os.environ, **playground.environment},
        start_new_session=True,
    )
    wait_for(calls)
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=60)
    assert_ended(calls)


def test_without_nvidia_smi_nothing_is_sampled(playground: Any):
    """If nvidia-smi is missing, a run on GPUs trains, and has no samples."""
    folder = playground.path / "bin"
    folder.mkdir()
    for tool in ("bash", "basename", "dirname", "flock", "hostname", "timeout", "rm", "cat", "env"):
        (folder / tool).symlink_to(Path("/usr/bin") / tool)
    playground.environment |= {"CUDA_VISIBLE_DEVICES": "0,1", "GPUS": "2", "PATH": str(folder)}
    write_campaign(playground, ":")
    done = playground.teralog("submit", "campaign.yaml")
    assert done.returncode == 0, done.stderr
    assert not list((playground.path / "results").glob("*/*/attempt-1/gpus-*"))
    report = playground.teralog("report", "campaign.yaml").stdout
    assert "GPU mem" not in report
