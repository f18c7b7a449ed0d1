"""Check that `teralog cancel` works during a submit, and on a full or read-only disk."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from practice.jobs import wait_until
from small_disk import Disk, small_disk

pytestmark = pytest.mark.slurm

FULL = (
    "No space left on device; free some space, or use --results with a folder that you can write to"
)
WAIT = 'while ! test -e "$LEDGER.go"; do sleep 0.1; done'
# Records the call, waits until the test allows it, calls the real sbatch, then runs the rest.
HELD_SBATCH = """\
#!/bin/bash
echo called >> "$LEDGER.sbatch"
while ! test -e "$LEDGER.sbatch-may"; do sleep 0.1; done
{sbatch} "$@"
code=$?
{after}
exit $code
"""


def hold_sbatch(play, after: str = "", *, held: bool = True) -> None:
    """Put a wrapper of sbatch first on the PATH. The wrapper waits for `let_sbatch_go_on`.

    after: bash lines that the wrapper executes after sbatch.
    held: if false, the wrapper does not wait.
    """
    folder = play.path / "bin"
    folder.mkdir(exist_ok=True)
    path = play.environment["PATH"].removeprefix(f"{folder}{os.pathsep}")
    real = shutil.which("sbatch", path=path)
    (folder / "sbatch").write_text(HELD_SBATCH.format(sbatch=real, after=after))
    (folder / "sbatch").chmod(0o755)
    play.environment["PATH"] = f"{folder}{os.pathsep}{path}"
    if not held:
        let_sbatch_go_on(play)


def let_sbatch_go_on(play) -> None:
    """Let all wrappers made by `hold_sbatch` call sbatch."""
    play.ledger.with_name("ledger.sbatch-may").touch()


def sbatch_calls(play) -> int:
    """Return how often sbatch was called."""
    path = play.ledger.with_name("ledger.sbatch")
    return len(path.read_text().splitlines()) if path.exists() else 0


def start_until_sbatch(play, *command: str) -> "subprocess.Popen[str]":
    """Start a teralog command, and wait until it has called sbatch."""
    before = sbatch_calls(play)
    process: subprocess.Popen[str] = play.start(*command)
    wait_until(lambda: sbatch_calls(play) > before, lambda: f"sbatch is not called: {process}")
    return process


def start_cancel(play, *options: str) -> "subprocess.Popen[str]":
    """Start `teralog cancel`, and wait until it prints that it waits for a submit."""
    cancel: subprocess.Popen[str] = play.start("cancel", "campaign.yaml", "--all", *options)
    assert cancel.stderr is not None
    line = next(line for line in cancel.stderr if not line.startswith("results: "))
    assert "a submit is working on this campaign; waiting until that submit stops" in line
    return cancel


def queue(play) -> str:
    """Return the name and the state of each waiting or running job, one job per line."""
    environment = {**os.environ, **play.environment}
    command = ["squeue", "-h", "-o", "%j %T", "-t", "PENDING,RUNNING"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_cancel_ends_a_job_that_is_being_submitted(bare) -> None:
    """`cancel` waits for an active sbatch, and then cancels its job."""
    bare.write_slurm_campaign(WAIT)
    hold_sbatch(bare)
    submit = start_until_sbatch(bare, "submit", "campaign.yaml")
    assert bare.states() == ["SUBMITTING"] * 4
    cancel = start_cancel(bare)
    let_sbatch_go_on(bare)
    errors = cancel.communicate(timeout=120)[1]
    assert (cancel.returncode, errors.count("CANCELLED")) == (0, 4)
    submit.communicate(timeout=120)
    assert submit.returncode == 0
    assert (queue(bare), bare.states()) == ("", ["CANCELLED"] * 4)


def test_a_submit_stops_calling_sbatch_after_a_cancel(bare) -> None:
    """If `cancel` runs during the first sbatch of three, the submit skips the other two.

    The submit explains why.
    """
    bare.write_slurm_campaign(
        WAIT, matrix="seed: [1, 2, 3, 4, 5, 6]", profile="max_array_size: 2\n"
    )
    hold_sbatch(bare)
    submit = start_until_sbatch(bare, "submit", "campaign.yaml")
    cancel = start_cancel(bare)
    let_sbatch_go_on(bare)
    assert cancel.wait(timeout=120) == 0
    errors = submit.communicate(timeout=120)[1]
    assert (submit.returncode, sbatch_calls(bare)) == (1, 1)
    assert "4 runs were not submitted, because `teralog cancel` cancelled them" in errors
    assert bare.states() == ["CANCELLED"] * 6
    # The mark that the cancel left does not stop a later submit.
    bare.go()
    assert bare.teralog("retry", "campaign.yaml").returncode == 0
    bare.wait_for(["COMPLETED"] * 6)


def test_a_retry_stops_before_it_submits_cancelled_runs(bare) -> None:
    """If `cancel` runs during the first sbatch of a retry, the retry submits no other runs.

    The runs that it did not submit stay FAILED.
    """
    bare.write_slurm_campaign(
        f'test -e "$LEDGER.retry" || exit 3; {WAIT}', profile="max_array_size: 2\n"
    )
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["FAILED"] * 4)
    bare.ledger.with_name("ledger.retry").touch()
    hold_sbatch(bare)
    retry = start_until_sbatch(bare, "retry", "campaign.yaml")
    cancel = start_cancel(bare)
    let_sbatch_go_on(bare)
    assert cancel.wait(timeout=120) == 0
    errors = retry.communicate(timeout=120)[1]
    assert (retry.returncode, sbatch_calls(bare)) == (1, 1)
    assert (
        "`teralog cancel` has stopped this submit: 2 runs were submitted, and 2 were not"
    ) in errors
    assert bare.states() == ["CANCELLED"] * 2 + ["FAILED"] * 2


def test_a_cancel_of_one_run_leaves_the_others_to_the_submit(bare) -> None:
    """`cancel` of a run that an active submit has not submitted yet ends at once, without waiting.

    The submit then skips this run, and starts all others.
    """
    bare.write_slurm_campaign("true", profile="max_array_size: 2\n")
    hold_sbatch(bare)
    submit = start_until_sbatch(bare, "submit", "campaign.yaml")
    last = bare.status()[-1]["run_id"]
    cancel = bare.teralog("cancel", "campaign.yaml", last)
    assert (cancel.returncode, cancel.stderr) == (0, f"{last} seed=4: CANCELLED\n")
    let_sbatch_go_on(bare)
    errors = submit.communicate(timeout=120)[1]
    assert submit.returncode == 1
    assert "1 run was not submitted, because `teralog cancel` cancelled it" in errors
    bare.wait_for(["COMPLETED"] * 3 + ["CANCELLED"])


def test_cancel_closes_the_attempts_of_a_killed_submit(bare) -> None:
    """If a submit and its sbatch were killed, `cancel` closes the attempts that have no job."""
    bare.write_slurm_campaign("true")
    hold_sbatch(bare)
    submit = start_until_sbatch(bare, "submit", "campaign.yaml")
    submit.kill()
    submit.communicate()
    for process in bare.processes():
        # A process may end by itself when another one is killed.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    cancel = bare.teralog("cancel", "campaign.yaml", "--all")
    assert (cancel.returncode, cancel.stderr.count("CANCELLED")) == (0, 4), cancel.stderr
    assert bare.states() == ["CANCELLED"] * 4
    hold_sbatch(bare, held=False)
    assert bare.teralog("retry", "campaign.yaml").returncode == 0
    bare.wait_for(["COMPLETED"] * 4)


def test_an_old_cancel_mark_does_not_stop_a_later_submit(bare) -> None:
    """A mark file that a killed `cancel` left does not stop the next submit, which removes it.

    With a mark file, `cancel` asks the active submit to skip the named runs.
    """
    bare.write_slurm_campaign("true", matrix="seed: [1]")
    run = bare.status()[0]["run_id"]
    marks = bare.path / "results" / "play" / "cancels"
    marks.mkdir(parents=True)
    (marks / "left.json").write_text(f'{{"runs": ["{run}"], "created_at": ""}}')
    assert bare.teralog("submit", "campaign.yaml").returncode == 0
    bare.wait_for(["COMPLETED"])
    assert not marks.exists()


def wait_until_two_run(play) -> None:
    """Wait until Slurm reports two running runs, and both have begun to train.

    Slurm reports a job as running before the job's log is open. If the disk became read-only in
    between, the job would fail.
    """
    wait_until(
        lambda: queue(play).count("RUNNING") == play.starts().total() == 2,
        lambda: "they do not start",
    )


@pytest.fixture
def disk(bare) -> Iterator[Disk]:
    """Yield a small disk for the results of a campaign, whose two runs do not end by themselves."""
    bare.write_slurm_campaign(WAIT, matrix="seed: [1, 2]")
    with small_disk(bare) as disk:
        yield disk


def fill(disk: Disk) -> str:
    """Fill a disk, and return the error message of a full disk."""
    disk.fill()
    return "No space left on device"


def make_read_only(disk: Disk) -> str:
    """Make a disk read-only, and return the error message of a read-only disk."""
    disk.make_read_only()
    return "Read-only file system"


@pytest.mark.parametrize("trouble", [fill, make_read_only])
def test_without_a_writable_folder_status_and_cancel_still_work(disk: Disk, trouble: Any) -> None:
    """If the disk is full or read-only, `status` and `cancel` still work.

    They print why they cannot save Slurm's answer.
    """
    play = disk.playground
    assert disk.teralog("submit").returncode == 0
    wait_until_two_run(play)
    reason = trouble(disk)
    # sacct reports the state some seconds after squeue.
    wait_until(
        lambda: disk.teralog("status").stdout.count("RUNNING") >= 2,
        lambda: str(disk.teralog("status")),
    )
    sentence = f"Slurm's answer cannot be recorded: {reason}; the answer is shown, but not saved"
    for command in (["status"], ["watch", "--once"], ["status", "--format", "csv"]):
        shown = disk.teralog(*command)
        assert (shown.returncode, shown.stdout.count("RUNNING") >= 2) == (0, True), shown
        assert "SUBMITTED" not in shown.stdout
        assert shown.stderr.count(sentence) == 1
    assert not [path for path in disk.files() if path.endswith(("slurm.json", "ended.json"))]
    cancelled = disk.teralog("cancel", "--all")
    assert (cancelled.returncode, cancelled.stderr.count(": CANCELLED")) == (0, 2)
    assert cancelled.stderr.count(sentence) == 1
    assert queue(play) == ""


def test_on_a_full_disk_unmarked_runs_are_reported_and_jobs_are_cancelled(
    disk: Disk,
) -> None:
    """On a full disk, `cancel` ends jobs, but cannot mark unstarted runs as cancelled.

    It reports how many runs it cannot mark.
    """
    play = disk.playground
    assert disk.teralog("submit").returncode == 0
    wait_until_two_run(play)
    play.write_slurm_campaign(WAIT, matrix="seed: [1, 2, 3]")
    disk.fill()
    names = ("seed=1", "seed=2", "seed=3")
    cancelled = disk.teralog("cancel", *names)
    assert cancelled.returncode == 1
    assert "1 run that has not started cannot be marked as cancelled: " in cancelled.stderr
    assert cancelled.stderr.endswith(f"{FULL}\n")
    assert queue(play) == ""
    (disk.path / "ballast").unlink()
    assert disk.teralog("cancel", *names).returncode == 0
    shown = disk.teralog("status")
    assert (shown.stdout.count(" CANCELLED "), shown.stderr) == (3, "")


def test_a_disk_that_fills_as_sbatch_answers_hides_no_job(disk: Disk) -> None:
    """If the disk fills during sbatch, the message names the folder and the job.

    No run is submitted twice.
    """
    play = disk.playground
    hold_sbatch(play, f"dd if=/dev/zero of={disk.path}/ballast 2> /dev/null", held=False)
    submitted = disk.teralog("submit")
    job = submitted.stdout.partition(":")[0]
    assert (submitted.returncode, submitted.stdout) == (1, f"{job}: 2 runs\n")
    assert f"{disk.path}/play/submissions/play-array-" in submitted.stderr
    assert FULL in submitted.stderr
    assert (
        f"2 runs were submitted before this error as job {job}, and stay submitted"
        in submitted.stderr
    )
    wait_until_two_run(play)
    assert disk.teralog("status").stdout.count("RUNNING") == 2
    (disk.path / "ballast").unlink()
    assert disk.teralog("submit").stdout == ""
    assert sbatch_calls(play) == 1
    assert disk.teralog("cancel", "--all").returncode == 0
    assert queue(play) == ""


def test_cancel_waits_for_a_submit_also_if_no_mark_can_be_left(disk: Disk) -> None:
    """If the disk is full, `cancel` waits for the active submit, and then cancels its job.

    `cancel` cannot write the mark file that would stop the submit earlier.
    """
    play = disk.playground
    hold_sbatch(play)
    results = ("--results", str(disk.path))
    submit = start_until_sbatch(play, "submit", "campaign.yaml", *results)
    disk.fill()
    cancel = start_cancel(play, *results)
    let_sbatch_go_on(play)
    errors = cancel.communicate(timeout=120)[1]
    assert (cancel.returncode, errors.count(": CANCELLED")) == (0, 2), errors
    submit.communicate(timeout=120)
    assert submit.returncode == 1
    assert queue(play) == ""
