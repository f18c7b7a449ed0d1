"""Check that campaigns on a real Slurm finish despite deleted folders and full disks."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from practice.jobs import wait_until

pytestmark = pytest.mark.slurm

TERALOG = str(Path(sys.executable).parent / "teralog")
CLUSTER = Path(__file__).parents[2] / "tools" / "practice_cluster.py"
WAIT = 'while ! test -e "$LEDGER.go"; do sleep 0.1; done'


@pytest.fixture
def play(playground, slurm) -> Any:
    """Return a playground (a folder with a small campaign) on a cluster."""
    playground.environment |= slurm.environment
    return playground


def wait_for_ends(play, count: int) -> list[dict[str, Any]]:
    """Wait until this many runs have ended, and return the status."""
    collected: list[dict[str, Any]] = []

    def have_ended() -> bool:
        collected[:] = play.status()
        return sum(run["outcome"] is not None for run in collected) == count

    wait_until(have_ended, lambda: str(collected), 120)
    return collected


def test_a_deleted_folder_of_logs_loses_only_the_logs(play) -> None:
    """If the log folder is deleted, a running run still completes, without its log.

    A waiting run fails, and a retry completes it.
    """
    logs = play.path / "logs"
    play.write_slurm_campaign(
        f"echo hello; {WAIT}", matrix="seed: [1, 2]", profile=f"log_folder: {json.dumps(str(logs))}"
    )
    play.teralog("submit", "campaign.yaml", "--throttle", "1")
    play.wait_for(["RUNNING", "PENDING"])
    wait_until(play.events, lambda: "it has not begun")
    shutil.rmtree(logs)
    play.go()
    first, second = wait_for_ends(play, 2)
    assert (first["state"], first["log"]) == ("COMPLETED", None)
    assert (second["outcome"], second["log"]) == ("failed", None)
    assert play.teralog("collect", "campaign.yaml").returncode == 0
    assert "Traceback" not in play.teralog("report", "campaign.yaml").stderr
    assert play.teralog("retry", "campaign.yaml").returncode == 0
    _, second = play.wait_for(["COMPLETED", "COMPLETED"])
    assert "hello" in Path(second["log"]).read_text()


def test_a_run_whose_folder_is_deleted_is_not_run_twice_at_once(play) -> None:
    """If an active run's folder is deleted, the next submit does not start the run again.

    It finds the run's job, and creates the folder.
    """
    play.write_slurm_campaign(WAIT, matrix="seed: [1, 2, 3]")
    play.teralog("submit", "campaign.yaml", "--throttle", "1")
    runs = play.wait_for(["RUNNING", "PENDING", "PENDING"])
    wait_until(play.events, lambda: "it has not begun")
    for run in runs[:2]:
        shutil.rmtree(play.path / "results" / "play" / run["run_id"])
    assert play.states() == ["NOT_STARTED", "NOT_STARTED", "PENDING"]
    again = play.teralog("submit", "campaign.yaml")
    assert (again.returncode, again.stdout) == (0, "")
    now = play.status()
    assert [run["state"] for run in now] == ["RUNNING", "PENDING", "PENDING"]
    assert [run["job_id"] for run in now] == [run["job_id"] for run in runs]
    play.go()
    play.wait_for(["COMPLETED"] * 3)
    assert sorted(play.starts().values()) == [1, 1, 1]


def test_a_run_whose_folder_is_deleted_after_its_end_is_run_again(play) -> None:
    """If a user deletes the folder of an ended run, the next submit runs it again."""
    play.write_slurm_campaign("true", matrix="seed: [1, 2]")
    play.teralog("submit", "campaign.yaml")
    first, _ = play.wait_for(["COMPLETED"] * 2)
    shutil.rmtree(play.path / "results" / "play" / first["run_id"])
    assert first["run_id"] in play.teralog("submit", "campaign.yaml").stdout
    play.wait_for(["COMPLETED"] * 2)
    assert sorted(play.starts().values()) == [1, 2]


# Commands of a user on a cluster whose disk a run fills and that is emptied afterwards.
ON_A_FULL_DISK = """\
#!/bin/bash
say() {{ {teralog} "$@" campaign.yaml; }}
say submit
until [[ -e "$LEDGER.full" && -z "$(squeue -h)" ]]; do sleep 0.2; done
say status > full.out 2> full.err
echo "$?" > full.code
rm results/play/*/attempt-1/big
touch "$LEDGER.go"
say status --json > emptied.json
say retry
until [[ "$(say status)" == *COMPLETED* ]]; do sleep 0.2; done
say status --json > retried.json
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a cluster that sees its mounts")
def test_a_run_that_fills_the_disk_has_failed_and_can_still_be_shown(playground, slurm) -> None:
    """If a run fills the disk, `status` prints a message that it cannot record Slurm's answer.

    Once the disk has space again, `status` shows that the run failed, and a retry completes it.
    """
    play = playground
    play.write_slurm_campaign(
        'test -e "$LEDGER.go" || { cat /dev/zero > big; touch "$LEDGER.full"; exit 1; }',
        matrix="seed: [1]",
    )
    (play.path / "results").mkdir()
    typed = play.path / "typed"
    typed.write_text(ON_A_FULL_DISK.format(teralog=TERALOG))
    typed.chmod(0o755)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        command = (
            f"mount -t tmpfs -o size=1m none results && exec {sys.executable} {CLUSTER} shell "
            f"--folder={folder}/cluster --nodes=1 --nodes-16g=0"
        )
        done = subprocess.run(
            ["unshare", "--mount", "bash", "-c", command],
            cwd=play.path,
            env={**os.environ, **play.environment, "SHELL": str(typed)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(f"no file system may be mounted here: {done.stderr}")
    assert "Traceback" not in done.stderr + (play.path / "full.err").read_text()
    assert (play.path / "full.code").read_text() == "0\n"
    assert (
        "Slurm's answer cannot be recorded: No space left" in (play.path / "full.err").read_text()
    )
    [run] = json.loads((play.path / "emptied.json").read_text())
    assert (run["state"], run["outcome"]) == ("FAILED", "failed")
    [run] = json.loads((play.path / "retried.json").read_text())
    assert (run["state"], run["attempts"]) == ("COMPLETED", 2)
