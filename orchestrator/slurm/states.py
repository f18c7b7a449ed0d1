"""Parse the output of sacct, squeue and scontrol, without asking Slurm.

The printed times are read as UTC: `commands` runs the commands with a clock set to UTC.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from orchestrator.slurm.lists import expand
from orchestrator.store.job_state import WAITING, JobState

SACCT_FIELDS = (
    "JobID", "JobName", "State", "ExitCode", "Start", "End", "ElapsedRaw", "NodeList", "Reason",
)  # fmt: skip
SQUEUE_FIELDS = (
    "JobArrayID", "Name", "State", "StartTime", "EndTime", "NodeList", "RestartCnt", "Reason",
    "exit_code",
)  # fmt: skip

_NOTHING = frozenset({"", "None", "(null)", "N/A", "Unknown", "None assigned", "INVALID"})
# For some seconds, accounting uses this name for a job whose name it has not received.
_NAMELESS = "allocation"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def read_sacct(lines: Iterable[str], names: Collection[str] | None = None) -> dict[str, JobState]:
    """Read sacct's lines, and return the state of each job, by the job's id.

    A line contains the SACCT_FIELDS, with `|` between them. names: the names of the wanted jobs;
    None for any name. They are needed because earlier jobs may have had the same ids.

    sacct is called with --duplicates, so a requeued job has a line for each of its starts, oldest
    first. A job whose name accounting does not know yet is left out, because it may belong to
    another user. If a task of an array has its own line, a line for all waiting tasks of the array
    does not apply to it.
    """
    jobs: dict[str, list[JobState]] = {}
    rest: dict[str, list[JobState]] = {}
    for line in lines:
        fields = _fields(line, SACCT_FIELDS)
        if fields is None or "." in (fields["JobID"] or ".") or fields["JobName"] == _NAMELESS:
            continue
        if names is not None and fields["JobName"] not in names:
            continue
        code, number = _exit(fields["ExitCode"])
        job = JobState(
            job_id="",
            name=fields["JobName"] or "",
            state=fields["State"] or "UNKNOWN",
            by="sacct",
            reason=fields["Reason"],
            exit_code=code,
            signal=number,
            started_at=_time(fields["Start"]),
            ended_at=_time(fields["End"]),
            seconds=_seconds(fields["ElapsedRaw"]) if fields["Start"] else None,
            nodes=fields["NodeList"],
        )
        for job_id, state in _each(fields["JobID"], job).items():
            (rest if state.of_rest else jobs).setdefault(job_id, []).append(state)
    return {job_id: _last(starts) for job_id, starts in {**rest, **jobs}.items()}


def _last(starts: Sequence[JobState]) -> JobState:
    # A cancelled array that waited has a second line, without the user who cancelled it.
    last = starts[-1]
    same = [
        start for start in starts if (start.word, start.started_at) == (last.word, last.started_at)
    ]
    last = max(same, key=lambda start: len(start.state))
    earlier = {
        start.started_at: start.seconds or 0.0
        for start in starts
        if start.started_at is not None and start.started_at != last.started_at
    }
    # The seconds of a running job differ in every query, so its record would be written each time.
    return replace(
        last,
        seconds=last.seconds if last.final else None,
        restarts=len(earlier),
        earlier_seconds=sum(earlier.values()),
    )


def read_squeue(lines: Iterable[str]) -> dict[str, JobState]:
    """Read squeue's lines, and return the state of each job, by the job's id.

    A line contains the SQUEUE_FIELDS, each followed by `|`.
    """
    jobs = {}
    for line in lines:
        fields = _fields(line.removesuffix("|"), SQUEUE_FIELDS)
        if fields is None:
            continue
        job = JobState(
            job_id="",
            name=fields["Name"] or "",
            state=fields["State"] or "UNKNOWN",
            by="squeue",
            reason=fields["Reason"],
            started_at=_time(fields["StartTime"]),
            ended_at=_time(fields["EndTime"]),
            nodes=fields["NodeList"],
            restarts=int(fields["RestartCnt"] or 0),
        )
        jobs.update(_each(fields["JobArrayID"], _only_what_was(job, fields["exit_code"])))
    return jobs


def _each(job_ids: str | None, job: JobState) -> dict[str, JobState]:
    listed = job_ids or ""
    return {
        job_id: replace(job, job_id=job_id, of_rest=job_id != listed) for job_id in expand(listed)
    }


def _only_what_was(job: JobState, status: str | None) -> JobState:
    """Return a job's state without the expected times that squeue prints, and with its exit code.

    The expected start of a waiting job becomes `expected_start`. The expected end of a job
    that has not ended becomes None. For an ended job, the exit code and the signal are set.
    status: squeue's number for the exit code and the signal, encoded as for wait(2).
    """
    if job.word in WAITING:
        return replace(job, started_at=None, ended_at=None, expected_start=job.started_at)
    if not job.final:
        return replace(job, ended_at=None)
    number = int(status) if status and status.isdecimal() else 0
    return replace(job, exit_code=number >> 8, signal=(number & 127) or None)


def read_scontrol(lines: Iterable[str]) -> dict[str, JobState]:
    """Return the state of each job, by the job's id.

    The lines are the output of `scontrol --oneliner show jobs`.
    """
    jobs = {}
    for line in lines:
        # JobName and Comment are free text. The first occurrence of a key counts: these come early.
        fields: dict[str, str] = {}
        for key, value in re.findall(r"(?:^|\s)([A-Za-z/:]+)=(\S*)", line):
            fields.setdefault(key, value)
        if "JobId" not in fields or "JobState" not in fields:
            continue
        job_id = fields["JobId"]
        task = fields.get("ArrayTaskId")
        if task is not None and "ArrayJobId" in fields:
            task = task.partition("%")[0]
            job_id = f"{fields['ArrayJobId']}_" + (task if task.isdecimal() else f"[{task}]")
        code, number = _exit(fields.get("ExitCode"))
        job = JobState(
            job_id="",
            name=fields.get("JobName", ""),
            state=fields["JobState"],
            by="scontrol",
            reason=_value(fields.get("Reason")),
            started_at=_time(fields.get("StartTime")),
            ended_at=_time(fields.get("EndTime")),
            nodes=_value(fields.get("NodeList")),
            restarts=int(fields.get("Restarts", 0)),
        )
        job = replace(_only_what_was(job, None), exit_code=code, signal=number)
        jobs.update(_each(job_id, job if job.final else replace(job, exit_code=None)))
    return jobs


def _fields(line: str, names: Sequence[str]) -> dict[str, str | None] | None:
    values = line.split("|")
    if len(values) != len(names):
        return None
    return {name: _value(value) for name, value in zip(names, values, strict=True)}


def _value(text: str | None) -> str | None:
    return None if text is None or text.strip() in _NOTHING else text.strip()


def _exit(text: str | None) -> tuple[int | None, int | None]:
    """Parse the exit code and the signal in a text `code:signal`; return them as a pair.

    The signal is None if it is 0. Both are None if the text has another form.
    """
    code, _, number = (text or "").partition(":")
    if not code.isdecimal():
        return None, None
    return int(code), int(number) if number.isdecimal() and int(number) else None


def _time(text: str | None) -> str | None:
    """Return a time with the zone UTC added, e.g. 2026-01-31T12:00:00+00:00.

    Returns None if the text is not a time.
    """
    return f"{text.strip()}+00:00" if text and _TIME.fullmatch(text.strip()) else None


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdecimal() else None
