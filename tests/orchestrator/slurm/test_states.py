"""Parse real output of Slurm 22.05's commands, and lines with missing values."""

import pytest

from orchestrator.slurm.states import read_sacct, read_scontrol, read_squeue
from orchestrator.store.job_state import FINAL, JobState

SACCT = {
    "one that has ended": (
        "13|a|FAILED|3:0|2026-11-21T13:42:28|2026-11-21T13:42:30|2|r1i0n0|None",
        ("13", "FAILED", 3, None, 2.0, "r1i0n0", 0, 0.0),
    ),
    "by a signal": (
        "14|a|FAILED|0:9|2026-11-21T13:42:28|2026-11-21T13:42:28|0|r1i0n0|None",
        ("14", "FAILED", 0, 9, 0.0, "r1i0n0", 0, 0.0),
    ),
    "one that waits": (
        "15|a|PENDING|0:0|Unknown|Unknown|0|None assigned|Priority",
        ("15", "PENDING", 0, None, None, None, 0, 0.0),
    ),
    "a job that a user cancelled": (
        "16|a|CANCELLED by 1000|0:0|2026-11-21T13:42:28|2026-11-21T13:42:29|1|n[0-3]|None",
        ("16", "CANCELLED by 1000", 0, None, 1.0, "n[0-3]", 0, 0.0),
    ),
    "a whole array that waited and was cancelled": (
        (
            "11_[7]|a|CANCELLED by 0|0:0|Unknown|2026-11-21T13:42:29|0|None assigned|JobHeldUser\n"
            "11_[7]|a|CANCELLED|0:0|Unknown|2026-11-21T13:42:29|0|None assigned|"
        ),
        ("11_7", "CANCELLED by 0", 0, None, None, None, 0, 0.0),
    ),
    "one that was requeued and waits": (
        (
            "12|a|NODE_FAIL|1:0|2026-11-21T13:35:50|2026-11-21T13:35:59|9|r1i0n3|None\n"
            "12|a|PENDING|0:0|Unknown|Unknown|0|None assigned|BeginTime"
        ),
        ("12", "PENDING", 0, None, None, None, 1, 9.0),
    ),
    "one that was requeued twice and has ended": (
        (
            "12|a|NODE_FAIL|1:0|2026-11-21T13:35:50|2026-11-21T13:35:59|9|r1i0n3|None\n"
            "12|a|PREEMPTED|0:0|2026-11-21T13:36:50|2026-11-21T13:36:54|4|r1i0n3|None\n"
            "12|a|COMPLETED|0:0|2026-11-21T13:37:06|2026-11-21T13:37:18|12|r1i0n4|BeginTime"
        ),
        ("12", "COMPLETED", 0, None, 12.0, "r1i0n4", 2, 13.0),
    ),
}


@pytest.mark.parametrize(("text", "expected"), SACCT.values(), ids=SACCT)
def test_sacct_shows_the_last_start_and_sums_up_those_before(text: str, expected: tuple) -> None:
    """The state of a requeued job is that of its last start.

    The seconds of its earlier starts are added up.
    """
    [job] = read_sacct(text.splitlines()).values()
    assert (
        job.job_id,
        job.state,
        job.exit_code,
        job.signal,
        job.seconds,
        job.nodes,
        job.restarts,
        job.earlier_seconds,
    ) == expected
    assert job.by == "sacct"


def test_a_running_job_has_the_same_state_at_every_query() -> None:
    """Two queries about a running job give equal states, so its record is not written again."""
    line = "7|batch|RUNNING|0:0|2026-01-02T03:04:05|Unknown|{seconds}|n1|None"
    first, second = (read_sacct([line.format(seconds=seconds)])["7"] for seconds in (10, 20))
    assert first.seconds is None
    assert first == second


@pytest.mark.parametrize(
    "line",
    [
        "",
        "sacct: error: something",
        # Accounting has recorded the end of the job, but not yet its name.
        "1|allocation|FAILED|9:0|2026-11-21T16:51:14|2026-11-21T16:51:16|2|gpu001|None",
        "13.batch|batch|FAILED|3:0|2026-11-21T13:42:28|2026-11-21T13:42:30|2|r1i0n0|",
        "13|a|FAILED",
        "13|a|b|FAILED|3:0|2026-11-21T13:42:28|2026-11-21T13:42:30|2|r1i0n0|None",
    ],
)
def test_a_line_that_is_not_a_job_s_gives_no_state(line: str) -> None:
    """A line of sacct gives no state unless it is a complete line about a job.

    E.g. it is about a job step, is an error message, is cut off, or has a separator in the job's
    name.
    """
    assert read_sacct([line]) == {}


SOMEONE_S = "7|other|COMPLETED|0:0|2025-01-01T00:00:00|2025-01-02T00:00:00|86400|n1|None"
MINE = "7|mine|FAILED|1:0|2026-01-01T00:00:00|2026-01-01T00:00:05|5|n2|None"


@pytest.mark.parametrize("lines", [(SOMEONE_S, MINE), (MINE, SOMEONE_S)])
def test_an_earlier_job_with_the_same_id_is_not_a_start_of_this_job(lines: tuple[str, ...]):
    """Another job with the same id is not an earlier start of this job.

    After a cluster is set up again, Slurm gives the same ids again.
    """
    [job] = read_sacct(lines, {"mine"}).values()
    assert (job.name, job.word, job.seconds) == ("mine", "FAILED", 5.0)
    assert (job.restarts, job.earlier_seconds) == (0, 0.0)


def test_a_task_that_is_listed_has_a_state_of_its_own() -> None:
    """If sacct has a line for a task of an array, the task's state is the one in this line.

    Tasks without a line have the state in the array's line.
    """
    lines = (
        "1_0|a|COMPLETED|0:0|2026-11-21T13:35:23|2026-11-21T13:35:26|3|n0|None",
        "1_[1-2%2]|a|PENDING|0:0|Unknown|Unknown|0|None assigned|JobArrayTaskLimit",
    )
    assert {job.job_id: job.word for job in read_sacct(lines).values()} == {
        "1_0": "COMPLETED",
        "1_1": "PENDING",
        "1_2": "PENDING",
    }


SQUEUE = {
    "one that runs, with the end that Slurm expects": (
        "1_1|a|RUNNING|2026-11-21T13:35:23|2026-11-21T13:45:23|r1i0n0|0|None|0|",
        ("RUNNING", "2026-11-21T13:35:23+00:00", None, "r1i0n0", None, None, 0, None),
    ),
    "one that waits, with the start that Slurm expects": (
        "5|a|PENDING|2026-11-21T13:35:23|N/A||1|BeginTime|256|",
        ("PENDING", None, None, None, None, None, 1, "BeginTime"),
    ),
    "one that failed": (
        "5|a|FAILED|2026-11-21T13:35:23|2026-11-21T13:35:24|n0|0|NonZeroExitCode|768|",
        (
            "FAILED",
            "2026-11-21T13:35:23+00:00",
            "2026-11-21T13:35:24+00:00",
            "n0",
            3,
            None,
            0,
            "NonZeroExitCode",
        ),
    ),
    "one that a signal ended": (
        "5|a|FAILED|2026-11-21T13:35:23|2026-11-21T13:35:24|n0|0|None|9|",
        ("FAILED", "2026-11-21T13:35:23+00:00", "2026-11-21T13:35:24+00:00", "n0", 0, 9, 0, None),
    ),
}


@pytest.mark.parametrize(("line", "expected"), SQUEUE.values(), ids=SQUEUE)
def test_squeue_times_in_the_future_are_ignored(line: str, expected: tuple) -> None:
    """A start or end in squeue's output is ignored if Slurm only expects it."""
    [job] = read_squeue([line]).values()
    assert (
        job.state,
        job.started_at,
        job.ended_at,
        job.nodes,
        job.exit_code,
        job.signal,
        job.restarts,
        job.reason,
    ) == expected


@pytest.mark.parametrize(
    ("state", "start", "expected"),
    [
        ("PENDING", "2026-11-21T13:35:23", "2026-11-21T13:35:23+00:00"),
        ("PENDING", "N/A", None),
        ("REQUEUED", "2026-11-21T13:35:23", "2026-11-21T13:35:23+00:00"),
        ("RUNNING", "2026-11-21T13:35:23", None),
        ("COMPLETED", "2026-11-21T13:35:23", None),
    ],
)
def test_the_start_of_a_job_that_waits_is_the_expected_one(
    state: str, start: str, expected: str | None
) -> None:
    """The start time of a waiting job is the expected start, in the output of squeue and scontrol.

    A job that has started has no expected start.
    """
    [queued] = read_squeue([f"5|a|{state}|{start}|N/A||0|Priority|0|"]).values()
    line = f"JobId=5 JobName=a JobState={state} Reason=Priority StartTime={start} EndTime=Unknown"
    [shown] = read_scontrol([line]).values()
    assert (queued.expected_start, shown.expected_start) == (expected, expected)


SCONTROL = (
    "JobId=56 ArrayJobId=54 ArrayTaskId=1 ArrayTaskThrottle=2 JobName=play-array-1 "
    "UserId=root(0) JobState=FAILED Reason=NonZeroExitCode Dependency=(null) Requeue=1 Restarts=2 "
    "ExitCode=3:0 RunTime=00:00:01 StartTime=2026-11-21T14:04:46 EndTime=2026-11-21T14:04:47 "
    "NodeList=r1i0n1 Comment=JobId=9 JobState=COMPLETED"
)


def test_free_text_of_scontrol_is_not_read_as_a_field() -> None:
    """Free text at the end of scontrol's line is not read as a field of the job."""
    assert read_scontrol([SCONTROL, "No jobs in the system"]) == {
        "54_1": JobState(
            job_id="54_1",
            name="play-array-1",
            state="FAILED",
            by="scontrol",
            reason="NonZeroExitCode",
            exit_code=3,
            started_at="2026-11-21T14:04:46+00:00",
            ended_at="2026-11-21T14:04:47+00:00",
            nodes="r1i0n1",
            restarts=2,
        )
    }


def test_scontrol_lists_the_tasks_that_wait() -> None:
    """The indices of waiting tasks are read from scontrol.

    The throttle after the indices, e.g. `%2`, is left out.
    """
    line = "JobId=54 ArrayJobId=54 ArrayTaskId=2-3%2 JobName=a JobState=PENDING Reason=None"
    assert set(read_scontrol([line])) == {"54_2", "54_3"}


@pytest.mark.parametrize(
    ("state", "word", "final"),
    [
        ("COMPLETED", "COMPLETED", True),
        ("CANCELLED by 1000", "CANCELLED", True),
        ("CANCELLED+", "CANCELLED", True),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY", True),
        ("PENDING", "PENDING", False),
        ("COMPLETING", "COMPLETING", False),
        ("RESIZING", "RESIZING", False),
        ("SUSPENDED", "SUSPENDED", False),
        ("REQUEUED", "REQUEUED", False),
        ("A_STATE_OF_TOMORROW", "A_STATE_OF_TOMORROW", False),
    ],
)
def test_only_known_states_are_final(state: str, word: str, final: bool) -> None:
    """Only a state that teralog knows can be final.

    An unknown state does not mean that the job has ended.
    """
    job = JobState(job_id="1", name="a", state=state, by="sacct")
    assert (job.word, job.final) == (word, final)
    assert (word in FINAL) == final


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("1|a|FAILED|2026-11-21T16:46:49|2026-11-21T16:46:49||0|BadConstraints|1|", True),
        ("2_[0-1]|a|FAILED|2026-11-21T16:46:49|2026-11-21T16:46:49||0|BadConstraints|1|", True),
        ("3|a|FAILED|2026-11-21T16:46:49|2026-11-21T16:46:49|gpu001|0|NonZeroExitCode|256|", False),
        ("4|a|CANCELLED|2026-11-21T16:46:49|2026-11-21T16:46:49||0|None|0|", False),
        ("5|a|PENDING|N/A|N/A||0|BadConstraints|0|", False),
    ],
)
def test_a_job_that_sbatch_was_refused_is_distinguished_from_one_that_failed(
    line: str, refused: bool
) -> None:
    """A job that was refused at submission does not count as a job that ran and failed.

    Slurm lists some refused jobs as FAILED, although sbatch printed no id for them.
    """
    assert {job.refused for job in read_squeue([line]).values()} == {refused}
