"""Check that a false or incomplete answer of Slurm changes no record.

Slurm forgets jobs, reuses their ids and sometimes does not answer; its accounting is late.
"""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from practice.jobs import wait_until

pytestmark = pytest.mark.slurm

WAIT = 'while ! test -e "$LEDGER.go"; do sleep 0.1; done'
SILENT = "echo 'Unable to contact slurm controller' >&2; exit 1"
# Records the call, and does not answer until the caller gives up.
HANGING = 'echo "$0" >> "$LEDGER.asked"; exec sleep 600'


def instead(play, **commands: str) -> None:
    """Write scripts that replace commands of Slurm: same names, but first on the PATH.

    commands: for each command, the lines of its script.
    """
    folder = play.path / "bin"
    folder.mkdir(exist_ok=True)
    for name, lines in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o755)
    play.environment["PATH"] = f"{folder}{os.pathsep}{play.environment['PATH']}"


def test_a_forgotten_job_is_unknown_and_its_log_shows_the_end(bare, slurm) -> None:
    """If Slurm does not know a run's job, its state is UNKNOWN, and its log shows how it ended."""
    bare.write_slurm_campaign(
        "echo 'CUDA out of memory. Tried to allocate 2.00 GiB'; exit 1", matrix="seed: [1]"
    )
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["FAILED"])
    [receipt] = bare.path.glob("results/play/submissions/*/receipt.json")
    receipt.write_text(json.dumps({**json.loads(receipt.read_text()), "job_id": "999999"}))
    next(bare.path.glob("results/play/*/attempt-1/ended.json")).unlink()
    [run] = bare.status()
    assert (run["state"], run["outcome"], run["outcome_by"]) == ("UNKNOWN", "oom", "log")
    assert bare.teralog("submit", "campaign.yaml").stdout == ""


def test_another_job_with_the_same_id_is_not_taken_for_the_run(bare, slurm) -> None:
    """A job with the id of a run's job, but another name, is not the job of this run.

    A cluster that is set up again uses the same job ids again.
    """
    other = slurm.run(
        "sbatch", "--parsable", "--mem=100M", "--output=/dev/null", "--hold", "--wrap", "true"
    ).stdout.strip()
    bare.write_slurm_campaign("true", matrix="seed: [1]")
    bare.teralog("submit", "campaign.yaml", "--hold")
    [receipt] = bare.path.glob("results/play/submissions/*/receipt.json")
    mine = json.loads(receipt.read_text())
    receipt.write_text(json.dumps({**mine, "job_id": other}))
    assert bare.states() == ["UNKNOWN"]
    receipt.write_text(json.dumps(mine))
    assert bare.states() == ["PENDING"]
    slurm.run("scancel", other, mine["job_id"])


def test_slurm_is_asked_again_if_it_briefly_forgets_all_jobs(bare, slurm) -> None:
    """If squeue once lists no job, teralog asks again, and the running runs stay RUNNING.

    Slurm may list no job for a moment, while it changes an array.
    """
    bare.write_slurm_campaign(WAIT, matrix="seed: [1, 2]")
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["RUNNING", "RUNNING"])
    asked = bare.path / "asked"
    instead(
        bare,
        squeue=f'test -e "{asked}" || {{ touch "{asked}"; exit 0; }}\n'
        f'exec {shutil.which("squeue")} "$@"',
    )
    assert bare.states() == ["RUNNING", "RUNNING"]
    assert asked.exists()
    bare.environment |= slurm.environment
    bare.go()
    bare.wait_for(["COMPLETED", "COMPLETED"])


def test_records_stay_unchanged_while_slurm_does_not_answer(bare, slurm) -> None:
    """If Slurm does not answer, a message reports this, and the recorded states stay.

    No run starts twice.
    """
    bare.write_slurm_campaign(WAIT, matrix="seed: [1]")
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["RUNNING"])
    instead(bare, squeue=SILENT, sacct=SILENT, scontrol=SILENT, sbatch=SILENT)
    result = bare.teralog("status", "campaign.yaml")
    assert "RUNNING" in result.stdout
    assert "Slurm gave no answer: squeue" in result.stderr
    assert bare.teralog("submit", "campaign.yaml").stdout == ""
    bare.environment |= slurm.environment
    bare.go()
    bare.wait_for(["COMPLETED"])
    assert list(bare.starts().values()) == [1]


def asked(play) -> list[str]:
    """Return which of Slurm's commands were called since this function was last called."""
    path = play.path / "ledger.asked"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [line.rpartition("/")[2] for line in lines]


ASKING = [
    ["status", "campaign.yaml"],
    ["watch", "campaign.yaml", "--once"],
    ["cancel", "campaign.yaml", "--all"],
    ["submit", "campaign.yaml"],
    ["retry", "campaign.yaml"],
    ["report", "campaign.yaml"],
    ["collect", "campaign.yaml"],
]


@pytest.mark.parametrize("silence", [HANGING, f'echo "$0" >> "$LEDGER.asked"; {SILENT}'])
def test_each_command_asks_a_silent_daemon_once(bare, silence: str) -> None:
    """If Slurm's daemon does not answer, each command of teralog asks it only once.

    The message explains how to wait longer. Recorded states stay.
    """
    bare.write_slurm_campaign(WAIT, matrix="seed: [1]")
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["RUNNING"])
    commands = ("squeue", "scontrol", "scancel", "sbatch")
    instead(bare, **dict.fromkeys(commands, silence))
    late = "gave no answer within 0.5 s; to wait longer, add `--slurm-timeout SECONDS`"
    message = late if silence == HANGING else "Unable to contact slurm controller"
    for command in ASKING:
        done = bare.teralog(*command, "--slurm-timeout", "0.5")
        assert (command, asked(bare)) == (command, ["squeue"])
        assert (command, done.stderr.count(message)) == (command, 1), done.stderr
    assert "RUNNING" in bare.teralog("status", "campaign.yaml", "--slurm-timeout", "0.5").stdout


def test_the_controller_is_asked_even_if_accounting_is_silent(bare) -> None:
    """If slurmdbd does not answer, teralog asks it only once, and still asks slurmctld."""
    bare.write_slurm_campaign(WAIT, matrix="seed: [1]")
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["RUNNING"])
    instead(bare, sacct=HANGING)
    done = bare.teralog("status", "campaign.yaml", "--slurm-timeout", "0.5")
    assert (done.stderr, asked(bare)) == ("", ["sacct"])
    assert "RUNNING" in done.stdout


def test_scontrol_answers_for_an_squeue_that_does_not_work(bare) -> None:
    """If squeue fails, teralog reads the states of jobs from `scontrol`.

    squeue fails e.g. if a site replaced it by a wrapper that refuses options.
    """
    bare.write_slurm_campaign(WAIT, matrix="seed: [1]")
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["RUNNING"])
    instead(bare, squeue="echo 'squeue: unrecognized option -O' >&2; exit 2")
    [run] = bare.status()
    assert (run["state"], run["scheduler_state_by"]) == ("RUNNING", "scontrol")


@pytest.mark.parametrize("others", [{}, {"squeue": SILENT, "scontrol": SILENT}])
@pytest.mark.parametrize("rest", ["_[0-3%2]", ""])
def test_running_tasks_stay_running_though_accounting_reports_their_array_as_cancelled(
    playground, slurm_with_accounting, rest: str, others: dict[str, str]
) -> None:
    """If sacct only reports that an array is cancelled, the array's running tasks stay RUNNING.

    On a busy machine, sacct printed such a line before accounting knew that two tasks had started.
    In the test, a script in place of sacct prints this line. In some cases squeue and scontrol do
    not answer.
    """
    playground.environment |= slurm_with_accounting.environment
    playground.write_slurm_campaign(WAIT)
    playground.teralog("submit", "campaign.yaml", "--throttle", "2")
    runs = playground.wait_for(["RUNNING", "RUNNING", "PENDING", "PENDING"])
    slurm_with_accounting.run("scancel", *(run["job_id"] for run in runs[2:]))
    [receipt] = playground.path.glob("results/play/submissions/*/receipt.json")
    job, name = json.loads(receipt.read_text())["job_id"], receipt.parent.name
    late = f"{job}{rest}|{name}|CANCELLED by 0|0:0|None|2026-11-22T05:12:44|0|None assigned|"
    instead(playground, sacct=f"echo '{late}JobArrayTaskLimit'", **others)
    rest_is = "PENDING" if others else "CANCELLED"
    assert playground.states() == ["RUNNING", "RUNNING", rest_is, rest_is]
    playground.environment |= slurm_with_accounting.environment
    playground.go()
    playground.wait_for(["COMPLETED", "COMPLETED", "CANCELLED", "CANCELLED"])
    assert set(playground.starts().values()) == {1}


@pytest.mark.parametrize(
    ("state", "forgotten"),
    [("COMPLETED", ["ended.json"]), ("UNKNOWN", ["ended.json", "job.json"])],
    ids=["by its own record", "no record"],
)
def test_a_completed_task_stays_completed_though_its_array_is_cancelled(
    bare, state: str, forgotten: list[str]
) -> None:
    """If squeue reports only that an array is cancelled, its completed tasks stay COMPLETED.

    teralog knows this from files in which the jobs recorded their ends. If the test deletes these
    files, the tasks are UNKNOWN.
    """
    bare.write_slurm_campaign("true", matrix="seed: [1, 2]")
    bare.teralog("submit", "campaign.yaml")
    bare.wait_for(["COMPLETED", "COMPLETED"])
    for attempt in bare.path.glob("results/play/*/attempt-1"):
        for name in forgotten:
            (attempt / name).unlink()
    [receipt] = bare.path.glob("results/play/submissions/*/receipt.json")
    job, name = json.loads(receipt.read_text())["job_id"], receipt.parent.name
    instead(bare, squeue=f"echo '{job}|{name}|CANCELLED|N/A|2026-11-22T05:12:44||0|None|0|'")
    assert bare.states() == [state, state]


def test_accounting_names_no_user_for_a_job_cancelled_by_a_dependency(
    playground, slurm_with_accounting
) -> None:
    """If a user cancelled a job, sacct names this user.

    If Slurm cancelled the job because of a dependency, sacct names no user.
    """
    playground.environment |= slurm_with_accounting.environment
    run = slurm_with_accounting.run
    submit = ("sbatch", "--parsable", "--mem=100M", "--output=/dev/null")
    failed = run(*submit, "--wait", "--array=0", "--wrap", "exit 3").stdout.strip()
    chain = (f"--dependency=aftercorr:{failed}", "--kill-on-invalid-dep=yes", "--array=0")
    for_another = run(*submit, *chain, "--wrap", "true").stdout.strip()
    by_a_person = run(*submit, "--hold", "--array=0", "--wrap", "true").stdout.strip()
    run("scancel", by_a_person)
    states: list[str] = []

    # Slurm may take a while to cancel the job, and to record it.
    def is_written_down() -> bool:
        both = ("-j", f"{for_another},{by_a_person}")
        states[:] = run("sacct", "-XPn", "-o", "JobName,State", *both).stdout.splitlines()
        text = "".join(states)
        return len(states) == 2 and "allocation" not in text and "PENDING" not in text

    wait_until(is_written_down, lambda: str(states))
    assert states == ["wrap|CANCELLED", f"wrap|CANCELLED by {os.getuid()}"]


def test_another_user_s_job_of_the_same_name_is_not_taken_for_the_run(bare, slurm) -> None:
    """Neither the search for a lost job nor `cancel` picks another user's job of the same name."""
    if os.getuid() != 0:
        pytest.skip("only root submits for another user")
    bare.write_slurm_campaign("true", matrix="seed: [1]")
    instead(bare, sbatch="exit 1")
    bare.teralog("submit", "campaign.yaml")
    [batch] = bare.path.glob("results/play/submissions/*")
    nobody = slurm.run(
        *("sbatch", "--parsable", "--uid=nobody", "--hold", "--mem=100M", "--chdir=/"),
        *("--output=/dev/null", f"--job-name={batch.name}", "--wrap", "true"),
    )
    assert nobody.returncode == 0, nobody.stderr
    (batch / "receipt.json").unlink()
    [ended] = bare.path.glob("results/play/*/attempt-1/ended.json")
    ended.unlink()
    assert bare.states() == ["SUBMITTING"]
    bare.environment |= slurm.environment
    assert bare.teralog("submit", "campaign.yaml").returncode == 0
    bare.wait_for(["COMPLETED"])
    assert slurm.run("squeue", "-h", "-o", "%i").stdout == nobody.stdout
    slurm.run("scancel", nobody.stdout.strip())


def test_a_job_is_found_though_the_submit_s_clock_was_ahead(
    playground, slurm_with_accounting
) -> None:
    """A job is found in accounting even if the clock of `submit` was an hour ahead."""
    playground.environment |= slurm_with_accounting.environment
    playground.write_slurm_campaign("true", matrix="seed: [1]")
    playground.teralog("submit", "campaign.yaml")
    playground.wait_for(["COMPLETED"])
    ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
    for name in ("submissions/*/batch.json", "*/attempt-1/intent.json"):
        [path] = playground.path.glob(f"results/play/{name}")
        path.write_text(json.dumps({**json.loads(path.read_text()), "created_at": ahead}))
    for name in ("submissions/*/receipt.json", "submissions/*/job-*.sh", "*/attempt-1/ended.json"):
        next(playground.path.glob(f"results/play/{name}")).unlink()
    # This happens if the controller has forgotten a job that accounting still has.
    instead(playground, squeue="exit 0")
    assert playground.states() == ["COMPLETED"]


def test_a_task_that_has_gone_from_its_array_is_cancelled_only_if_it_never_began(
    playground, hasty_slurm
) -> None:
    """A task that squeue no longer lists is CANCELLED only if no file shows that it began."""
    play = playground
    play.environment |= hasty_slurm.environment
    logs = play.path / "logs"
    play.write_slurm_campaign(
        f'case "$SLURM_ARRAY_TASK_ID" in 0) ;; *) {WAIT} ;; esac',
        matrix="seed: [1, 2, 3]",
        profile=f"log_folder: {json.dumps(str(logs))}",
    )
    submitted = play.teralog("submit", "campaign.yaml", "--throttle", "1")
    job = submitted.stdout.partition(":")[0]
    wait_until(lambda: len(play.starts()) == 2, lambda: str(play.events()))
    hasty_slurm.run("scancel", f"{job}_2")
    queue = ("squeue", "-h", "-t", "all", "-r", "-o", "%K")
    wait_until(
        lambda: "0" not in hasty_slurm.run(*queue).stdout.split(),
        lambda: hasty_slurm.run(*queue).stdout,
        seconds=180,
    )
    shutil.rmtree(logs)
    assert play.states() == ["COMPLETED", "RUNNING", "CANCELLED"]
    play.go()
