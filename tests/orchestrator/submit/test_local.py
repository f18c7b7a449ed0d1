"""Submit on this machine: every run ends once and no process is left, whatever is killed."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable

import psutil
import pytest

from orchestrator.common import locks

# Number of random moments at which a submit is killed; `make soak` tries more.
MOMENTS = int(os.environ.get("TERALOG_MOMENTS", "4"))


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition holds; the test fails if this takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def ends(playground) -> list[list[str]]:
    """Return a list for every run: the states in which its attempts ended, oldest first."""
    # A folder that a killed submit had not finished has a name that begins with a dot.
    runs = sorted((playground.path / "results" / "play").glob("[!.]*/run.json"))
    return [
        [json.loads(path.read_text())["state"] for path in sorted(run.parent.glob("*/ended.json"))]
        for run in runs
    ]


def test_all_runs_start_and_a_second_submit_has_nothing_to_do(playground) -> None:
    """A submit starts all runs of the campaign; a second submit starts none of them again."""
    playground.write_campaign("true")
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    assert playground.states() == ["COMPLETED"] * 4
    again = playground.teralog("submit", "campaign.yaml")
    assert (again.returncode, again.stderr) == (0, "4 runs: 4 completed\n")
    assert Counter(words[1] for words in playground.events()) == {"start": 4, "end": 4}


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_killed_submit_loses_no_run_and_starts_none_twice(playground, moment: int) -> None:
    """If a submit is killed at any moment, a second submit brings every run to exactly one end.

    The test uses kill -9.
    """
    playground.write_campaign("sleep 0.3", matrix="seed: [1, 2, 3, 4, 5]")
    submit = playground.start("submit", "campaign.yaml")
    time.sleep(random.Random(moment).uniform(0.1, 2.5))
    submit.kill()
    submit.communicate()
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    assert playground.states() == ["COMPLETED"] * 5
    assert "overlap" not in {words[1] for words in playground.events()}
    for states in ends(playground):
        assert states[-1] == "COMPLETED"
        assert set(states[:-1]) <= {"INTERRUPTED"}
    assert playground.processes() == []


def test_a_killed_submit_takes_its_runs_with_it(playground) -> None:
    """If a submit is killed, its runs end too, even without a second submit."""
    playground.write_campaign("sleep 600")
    submit = playground.start("submit", "campaign.yaml")
    wait_until(lambda: bool(playground.events()))
    submit.kill()
    submit.communicate()
    wait_until(lambda: playground.processes() == [])
    assert "INTERRUPTED" in playground.states()
    assert "RUNNING" not in playground.states()


def test_a_killed_supervisor_leaves_a_job_that_the_next_submit_ends(playground) -> None:
    """If submit and supervisor are killed, the processes of their job go on.

    The next submit finds these processes and ends them.
    """
    playground.write_campaign(
        'test -e "$LEDGER.once" || { touch "$LEDGER.once"; setsid sleep 600; }',
        matrix="seed: [1]",
    )
    submit = playground.start("submit", "campaign.yaml")
    wait_until(lambda: "sleep" in playground.process_names())
    # Stop all before killing them: a process that outlives the others would end the job.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in playground.processes():
            with contextlib.suppress(psutil.Error):
                if process.name() not in ("sleep", "bash", "stand-in"):
                    process.send_signal(number)
    submit.communicate()
    assert "sleep" in playground.process_names()
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    assert playground.processes() == []
    assert [words[1] for words in playground.events()] == ["start", "start", "end"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_submit_stops_its_runs_and_can_continue_later(playground, number: int) -> None:
    """After Ctrl-C, SIGTERM or SIGHUP no process of a submit is left.

    A second submit continues with the missing runs.
    """
    playground.write_campaign('test -e "$LEDGER.go" || sleep 600')
    submit = playground.start("submit", "campaign.yaml")
    wait_until(lambda: bool(playground.events()))
    submit.send_signal(number)
    _, err = submit.communicate(timeout=60)
    assert submit.returncode == 130
    assert "continues with the missing runs" in err
    assert "Traceback" not in err
    assert playground.processes() == []
    playground.ledger.with_name("ledger.go").touch()
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    assert playground.states() == ["COMPLETED"] * 4


def test_following_a_log_ends_quietly(playground) -> None:
    """Ctrl-C ends `logs -f`, which shows the log of an active run, and does not end the run."""
    playground.write_campaign('echo begun; test -e "$LEDGER.go" || sleep 600', matrix="seed: [1]")
    submit = playground.start("submit", "campaign.yaml")
    wait_until(lambda: bool(playground.events()))
    follow = playground.start("logs", "-f", "campaign.yaml", "gpt")
    assert follow.stdout.readline() == "begun\n"
    follow.send_signal(signal.SIGINT)
    _, err = follow.communicate(timeout=60)
    assert (follow.returncode, err) == (130, "results: results/play\n")
    assert playground.states() == ["RUNNING"]
    playground.teralog("cancel", "campaign.yaml", "--all")
    submit.communicate(timeout=60)


def test_a_run_that_takes_too_long_is_ended(playground) -> None:
    """A run is ended at its time limit.

    Its child processes end too, even if they are outside of its process group.
    """
    playground.write_campaign("setsid sleep 600 & sleep 600", matrix="seed: [1]", time_limit="0:01")
    submit = playground.teralog("submit", "campaign.yaml")
    assert submit.returncode == 1
    [run] = playground.status()
    assert (run["state"], run["outcome"]) == ("TIMEOUT", "timeout")
    assert 1 <= run["seconds"] < 10
    assert playground.processes() == []


def test_processes_left_by_a_job_are_ended(playground) -> None:
    """When a run ends, its child processes in the background are ended."""
    playground.write_campaign("setsid sleep 600 &", matrix="seed: [1]")
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    assert playground.processes() == []


def test_a_failed_run_is_run_again_only_by_retry_which_keeps_its_log(playground) -> None:
    """`submit` does not start a failed run again. `retry` does, and keeps the first log."""
    playground.write_campaign('test -e "$LEDGER.go" || exit 3', matrix="seed: [1, 2]")
    assert playground.teralog("submit", "campaign.yaml").returncode == 1
    assert playground.teralog("submit", "campaign.yaml").returncode == 1
    assert [run["exit_code"] for run in playground.status()] == [3, 3]
    playground.ledger.with_name("ledger.go").touch()
    retried = playground.teralog("retry", "campaign.yaml", "--only", "failed")
    assert retried.returncode == 0
    assert [(run["state"], run["attempts"]) for run in playground.status()] == [
        ("COMPLETED", 2),
        ("COMPLETED", 2),
    ]
    assert len(list(playground.path.glob("results/play/*/attempt-1/output.log"))) == 2


def test_retry_starts_only_runs_with_the_given_outcomes(playground) -> None:
    """`retry --only` starts only runs with the given outcomes; an unknown outcome is refused."""
    playground.write_campaign("exit 1", matrix="seed: [1]")
    playground.teralog("submit", "campaign.yaml")
    nothing = playground.teralog("retry", "campaign.yaml", "--only", "oom,timeout")
    assert nothing.returncode == 0
    assert nothing.stderr.splitlines() == [
        "nothing to start again: no run ended with oom or timeout",
        "1 run: 1 failed",
    ]
    assert playground.status()[0]["attempts"] == 1
    refused = playground.teralog("retry", "campaign.yaml", "--only", "fialed")
    assert refused.returncode == 1
    assert "did you mean 'failed'?" in refused.stderr
    limit = playground.teralog("retry", "campaign.yaml", "--only", "oom", "--time", "long")
    assert limit.returncode == 1
    assert limit.stderr.startswith("teralog: --time: 'long' is not a time limit")


def test_a_retry_before_any_failure_is_reported(playground) -> None:
    """If no run has failed, `retry` prints the command that starts the missing runs."""
    playground.write_campaign("true", matrix="seed: [1, 2]")
    before = playground.teralog("retry", "campaign.yaml")
    assert before.returncode == 0
    assert before.stderr.startswith(
        "nothing to start again: no run ended with failed, oom, timeout, cancelled, interrupted, "
        "node_fail or preempted; `teralog submit campaign.yaml` starts the missing runs\n"
    )
    playground.teralog("submit", "campaign.yaml")
    retry = playground.teralog("retry", "campaign.yaml", "seed=1", "--only", "failed")
    assert retry.stderr.startswith("nothing to start again: none of these runs ended with failed\n")


def test_cancel_reports_only_the_runs_that_it_ended(playground) -> None:
    """`cancel` names only the runs that it has ended; a run that ended before stays unchanged."""
    playground.write_campaign("true", matrix="seed: [1, 2]")
    playground.teralog("submit", "campaign.yaml")
    playground.write_campaign("true", matrix="seed: [1, 2, 3]")
    unsubmitted = playground.teralog("cancel", "campaign.yaml", "--all")
    assert (unsubmitted.returncode, unsubmitted.stderr) == (0, "nothing to cancel\n")
    result = playground.teralog("cancel", "campaign.yaml", "seed=3")
    assert [line.partition(" ")[2] for line in result.stderr.splitlines()] == ["seed=3: CANCELLED"]
    again = playground.teralog("cancel", "campaign.yaml", "--all")
    assert (again.returncode, again.stderr) == (0, "nothing to cancel\n")
    assert playground.states() == ["COMPLETED", "COMPLETED", "CANCELLED"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 1, "no run given; give ids or labels, --state STATE, or --all"),
        (("--rehearsed",), 1, "no run given; "),
        (("",), 1, "there is no run ''"),
        (("--all", "seed=1"), 1, "--all: cancels all runs; remove --all, or do not name runs"),
        (("--all",), 0, "nothing to cancel: no run of the campaign was submitted"),
        (("--state", "running"), 0, "nothing to cancel: no run of the campaign was submitted"),
    ],
)
def test_cancel_ends_only_the_given_runs(
    playground, options: tuple[str, ...], code: int, message: str
) -> None:
    """`cancel` cancels nothing if the user gives no run, an unknown run, or both --all and a run.

    It also cancels nothing if no run was submitted; then it exits with 0.
    """
    playground.write_campaign("true", matrix="seed: [1, 2]")
    result = playground.teralog("cancel", "campaign.yaml", *options)
    assert (result.returncode, message in result.stderr) == (code, True), result.stderr
    assert playground.states() == ["NOT_STARTED"] * 2


def test_cancel_ends_running_runs_and_stops_waiting_ones_from_starting(playground) -> None:
    """`cancel` ends the active run, and the runs that wait do not start; all become CANCELLED.

    The submit ends too. Only `retry` starts the runs again.
    """
    playground.write_campaign('test -e "$LEDGER.go" || sleep 600')
    submit = playground.start("submit", "campaign.yaml", "--slots", "1")
    wait_until(lambda: bool(playground.events()))
    assert playground.teralog("cancel", "campaign.yaml", "--all").returncode == 0
    submit.communicate(timeout=60)
    assert submit.returncode == 1
    assert playground.states() == ["CANCELLED"] * 4
    assert len(playground.events()) == 1
    assert playground.processes() == []
    playground.ledger.with_name("ledger.go").touch()
    playground.teralog("submit", "campaign.yaml")
    assert playground.states() == ["CANCELLED"] * 4
    assert playground.teralog("retry", "campaign.yaml", "--only", "cancelled").returncode == 0
    assert playground.states() == ["COMPLETED"] * 4


def test_a_run_is_cancelled_by_its_label_or_the_beginning_of_its_id(playground) -> None:
    """`cancel` ends only the run that the user names by its label or the beginning of its id.

    If no run has this label or id, a message reports that.
    """
    playground.write_campaign('test -e "$LEDGER.go" || sleep 600', matrix="seed: [1, 2]")
    submit = playground.start("submit", "campaign.yaml")
    wait_until(lambda: len(playground.events()) == 2)
    unknown = playground.teralog("cancel", "campaign.yaml", "seed=3")
    assert unknown.returncode == 1
    assert "there is no run 'seed=3'" in unknown.stderr
    playground.teralog("cancel", "campaign.yaml", "seed=1")
    assert playground.states() == ["CANCELLED", "RUNNING"]
    playground.teralog("cancel", "campaign.yaml", playground.status()[1]["run_id"][:6])
    submit.communicate(timeout=60)
    assert playground.states() == ["CANCELLED", "CANCELLED"]


def test_two_submits_of_one_campaign_do_not_double_anything(playground) -> None:
    """A second `submit` of a campaign reports that the first is active, and starts nothing."""
    playground.write_campaign("sleep 1")
    first = playground.start("submit", "campaign.yaml")
    wait_until(lambda: bool(playground.events()))
    second = playground.teralog("submit", "campaign.yaml")
    assert second.returncode == 1
    assert "another submit is working on this campaign" in second.stderr
    first.communicate(timeout=60)
    assert Counter(words[1] for words in playground.events()) == {"start": 4, "end": 4}


def test_slots_bound_how_many_runs_there_are_at_once(playground) -> None:
    """`submit --slots 1` starts each run only after the run before it has ended."""
    playground.write_campaign("sleep 0.1")
    playground.teralog("submit", "campaign.yaml", "--slots", "1")
    assert [words[1] for words in playground.events()] == ["start", "end"] * 4


def test_a_submit_without_a_free_gpu_reports_that_it_waits(playground) -> None:
    """If no GPU is free, `submit` reports once that it waits.

    It continues when a run of another campaign releases its GPUs.
    """
    playground.environment |= {"CUDA_VISIBLE_DEVICES": "0", "GPUS": "1"}
    playground.write_campaign("until [[ -e $(dirname $0)/go ]]; do sleep 0.1; done", "seed: [1]")
    campaign = playground.path / "campaign.yaml"
    other = playground.path / "other.yaml"
    other.write_text(campaign.read_text().replace("name: play", "name: other"))
    holder = playground.start("submit", "other.yaml")
    wait_until(lambda: bool(playground.events()))
    submit = playground.start("submit", "campaign.yaml")
    assert submit.stderr is not None
    *_, line = [submit.stderr.readline() for _ in range(3)]
    assert line.endswith(": waits for 1 GPU to be free\n"), line
    (playground.path / "go").touch()
    assert holder.wait(60) == 0
    rest = submit.communicate(timeout=60)[1]
    assert "waits" not in rest
    assert playground.states() == ["COMPLETED"]


def test_no_gpu_is_given_to_two_runs_at_once(playground) -> None:
    """On a machine with four GPUs, two runs with two GPUs each run at once, on separate GPUs."""
    playground.environment |= {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "GPUS": "4"}
    playground.write_campaign("sleep 0.4", matrix="seed: [1, 2, 3, 4, 5]", gpus_per_node=2)
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    taken: set[str] = set()
    most = 0
    for _, what, devices in playground.events():
        names = set(devices.split(","))
        assert len(names) == 2
        if what == "start":
            assert not names & taken
            taken |= names
            most = max(most, len(taken))
        else:
            taken -= names
    assert most == 4


def test_a_campaign_edited_after_it_ran_is_not_run_by_mistake(playground) -> None:
    """If the campaign file was edited, `submit` reports new and removed runs and starts nothing.

    It starts them with `--accept-changes`. All results are kept.
    """
    playground.write_campaign("true", matrix="seed: [1, 2]")
    playground.teralog("submit", "campaign.yaml")
    playground.write_campaign("true", matrix="seed: [2, 3]")
    refused = playground.teralog("submit", "campaign.yaml")
    assert refused.returncode == 1
    assert "1 new (seed=3) and 1 gone (seed=1)" in refused.stderr
    assert playground.states() == ["COMPLETED", "NOT_STARTED"]
    assert playground.teralog("submit", "campaign.yaml", "--accept-changes").returncode == 0
    assert playground.states() == ["COMPLETED", "COMPLETED"]
    assert len(list(playground.path.glob("results/play/*/run.json"))) == 3
    assert "no longer in the campaign file" in playground.teralog("status", "campaign.yaml").stdout


def test_an_out_of_memory_is_distinguished_from_another_failure(playground) -> None:
    """The last lines of the log, not the exit code, show that a run failed for lack of memory.

    `submit` and `report` quote the line about the memory.
    """
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"
    playground.write_campaign(f"echo '{message}'; exit 1", matrix="seed: [1]")
    submit = playground.teralog("submit", "campaign.yaml")
    [run] = playground.status()
    assert run["outcome"] == "oom"
    assert f": OOM: {message} ({run['log']})" in submit.stderr
    assert "OOM" in playground.teralog("report", "campaign.yaml").stdout
    page = (playground.path / "results" / "play" / "report.md").read_text()
    assert "CUDA out of memory. Tried to allocate 2.00 GiB" in page


def on_a_terminal(playground, command: str) -> subprocess.CompletedProcess[str]:
    """Run a teralog command in a terminal, which the system's program `script` provides."""
    teralog = playground.start("--version").args[0]
    words = ["script", "--quiet", "--return", "--command", f"{teralog} {command}", os.devnull]
    return subprocess.run(
        words,
        cwd=playground.path,
        env={**os.environ, **playground.environment, "TERM": "xterm-256color"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_terminal_gets_a_live_display(playground) -> None:
    """On a terminal, `submit` shows a display that rich draws again at each change."""
    playground.write_campaign("sleep 0.2", matrix="seed: [1, 2]")
    done = on_a_terminal(playground, "submit campaign.yaml")
    assert done.returncode == 0
    assert "\x1b[" in done.stdout
    assert "2/2" in done.stdout


def test_a_job_killed_by_a_signal_without_a_name_has_failed(playground) -> None:
    """If a real-time signal, which has no name, kills a job, the job has failed."""
    playground.write_campaign("kill -35 $PPID", matrix="seed: [1]")
    assert playground.teralog("submit", "campaign.yaml").returncode == 1
    [run] = playground.status()
    assert (run["state"], run["signal"]) == ("FAILED", "signal 35")


def test_a_run_started_on_another_machine_is_left_to_it(playground) -> None:
    """On a shared disk, `submit` does not touch a run that another machine started.

    The run's process id has no meaning on this machine.
    """
    playground.write_campaign("true", matrix="seed: [1]")
    playground.teralog("submit", "campaign.yaml")
    [attempt] = playground.path.glob("results/play/*/attempt-1")
    started = json.loads((attempt / "attempt.json").read_text())
    (attempt / "attempt.json").write_text(json.dumps({**started, "host": "elsewhere"}))
    (attempt / "ended.json").unlink()
    lock = locks.acquire(attempt.parent / "run.lock")
    assert lock is not None
    refused = playground.teralog("submit", "campaign.yaml")
    assert refused.returncode == 1
    assert "was started on elsewhere" in refused.stderr
    os.close(lock)
    assert playground.teralog("submit", "campaign.yaml").returncode == 0


def test_more_gpus_than_there_are_is_reported_before_anything_starts(playground) -> None:
    """If a run needs more GPUs than this machine has, `submit` reports it and starts no run."""
    playground.environment |= {"CUDA_VISIBLE_DEVICES": "0", "GPUS": "4"}
    playground.write_campaign("true", matrix="gpus_per_node: [1, 2]")
    refused = playground.teralog("submit", "campaign.yaml")
    assert refused.returncode == 1
    assert "gpus_per_node=2, but this machine has 1 GPU that runs can use" in refused.stderr
    assert playground.events() == []


def kill_supervisors(playground) -> None:
    """Kill all supervisors with a signal that they cannot handle."""
    for process, words in playground.command_lines():
        if "submitit.core._submit" in " ".join(words):
            with contextlib.suppress(psutil.Error):
                process.kill()


def test_a_job_without_its_supervisor_does_not_run_next_to_the_next(playground) -> None:
    """The processes of a killed supervisor's job are ended before another run gets its device."""
    playground.write_campaign('test -e "$LEDGER.go" || sleep 600', matrix="seed: [1, 2]")
    submit = playground.start("submit", "campaign.yaml", "--slots", "1")
    wait_until(lambda: "sleep" in playground.process_names())
    playground.go()
    kill_supervisors(playground)
    submit.communicate(timeout=60)
    assert [words[1] for words in playground.events()] == ["start", "start", "end"]
    assert playground.states() == ["INTERRUPTED", "COMPLETED"]
    assert playground.processes() == []


def test_cancel_ends_a_job_that_no_one_supervises_any_more(playground) -> None:
    """If submit and supervisor were killed and the job goes on, `cancel` ends the job."""
    playground.write_campaign("sleep 600", matrix="seed: [1]")
    submit = playground.start("submit", "campaign.yaml")
    wait_until(lambda: "sleep" in playground.process_names())
    submit.kill()
    kill_supervisors(playground)
    submit.communicate()
    playground.teralog("cancel", "campaign.yaml", "--all")
    assert playground.processes() == []
    assert playground.states() == ["CANCELLED"]


def test_a_retry_does_not_make_an_edited_campaign_the_submitted_one(playground) -> None:
    """If the campaign file was edited, `submit` starts nothing, even after `retry` was called."""
    playground.write_campaign("true", matrix="seed: [1, 2]")
    playground.teralog("submit", "campaign.yaml")
    playground.write_campaign("true", matrix="seed: [2, 3]")
    assert playground.teralog("retry", "campaign.yaml").returncode == 0
    assert playground.teralog("submit", "campaign.yaml").returncode == 1


def test_text_from_a_log_does_not_control_the_terminal(playground) -> None:
    """Control characters in a log's last lines are not sent to the terminal."""
    body = "printf 'CUDA out of memory. Tried to allocate 2.00 GiB \\033]0;p\\007\\n'; exit 1"
    playground.write_campaign(body, matrix="seed: [1]")
    submit = playground.teralog("submit", "campaign.yaml")
    assert "OOM: CUDA out of memory. Tried to allocate 2.00 GiB" in submit.stderr
    assert all(mark.isprintable() or mark == "\n" for mark in submit.stderr)


def test_submit_retry_and_cancel_have_json(playground) -> None:
    """With --json, `submit`, `retry` and `cancel` print only JSON on stdout: one object per run.

    `submit` prints all runs of the campaign; `retry` and `cancel` print those that they changed.
    """
    playground.write_campaign("true", matrix="seed: [1, 2]")
    assert playground.teralog("cancel", "campaign.yaml", "--all", "--json").stdout == "[]\n"
    submit = playground.teralog("submit", "campaign.yaml", "--json")
    assert submit.returncode == 0
    runs = json.loads(submit.stdout)
    assert [(run["label"], run["state"], run["job_id"]) for run in runs] == [
        ("seed=1", "COMPLETED", None),
        ("seed=2", "COMPLETED", None),
    ]
    playground.write_campaign("exit 1", matrix="seed: [1, 2, 3]")
    added = playground.teralog("submit", "campaign.yaml", "--json", "--accept-changes")
    assert added.returncode == 1
    assert [run["outcome"] for run in json.loads(added.stdout)] == ["completed"] * 2 + ["failed"]
    retry = playground.teralog("retry", "campaign.yaml", "--json")
    assert [(run["label"], run["state"]) for run in json.loads(retry.stdout)] == [
        ("seed=3", "FAILED")
    ]
    playground.write_campaign("true", matrix="seed: [1, 4]")
    cancel = playground.teralog("cancel", "campaign.yaml", "seed=4", "--json")
    assert [(run["label"], run["state"]) for run in json.loads(cancel.stdout)] == [
        ("seed=4", "CANCELLED")
    ]


def test_a_log_is_printed_to_a_pipe_as_it_is_and_to_a_terminal_without_escapes(playground) -> None:
    """`logs` prints a log unchanged to a pipe, and without terminal control codes to a terminal.

    `--tail` prints only its last lines. If the log is empty, a sentence reports that.
    """
    body = "printf 'first\\n\\033]0;p\\007\\033[31mlast\\033[0m\\n'"
    playground.write_campaign(body, matrix="seed: [1]")
    playground.teralog("submit", "campaign.yaml")
    printed = playground.teralog("logs", "campaign.yaml", "gpt").stdout
    assert printed == "first\n\x1b]0;p\x07\x1b[31mlast\x1b[0m\n"
    tail = playground.teralog("logs", "campaign.yaml", "gpt", "--tail", "1").stdout
    assert tail == "\x1b]0;p\x07\x1b[31mlast\x1b[0m\n"
    shown = on_a_terminal(playground, "logs campaign.yaml gpt --tail 1").stdout
    assert shown.splitlines()[-1] == "\ufffd]0;p\ufffdlast"
    assert "\x1b" not in shown
    [log] = playground.path.glob("results/play/*/attempt-1/output.log")
    log.write_bytes(b"")
    assert playground.teralog("logs", "campaign.yaml", "gpt").stderr == f"{log}: is empty\n"


def test_submit_writes_the_report_when_the_campaign_is_complete(playground) -> None:
    """When all runs of a campaign have ended, `submit` writes its report.

    The report has all runs, also failed ones. A rehearsal writes no report.
    """
    page = playground.path / "results" / "play" / "report.md"
    playground.write_campaign('test "$SEED" != 2', matrix="seed: [1, 2]")
    first = playground.teralog("submit", "campaign.yaml", "--rehearse")
    assert not page.exists(), first.stderr
    playground.teralog("submit", "campaign.yaml")
    rows = json.loads(page.with_suffix(".json").read_text())["runs"]
    assert len(rows) == 2
    page.unlink()
    again = playground.teralog("submit", "campaign.yaml")
    assert f"wrote {page}, and report.csv and report.json in the same folder" in again.stderr
    assert page.exists()
