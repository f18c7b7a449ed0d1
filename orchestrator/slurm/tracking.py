"""Sync run records with Slurm in one query, and recover interrupted submissions."""

import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from orchestrator.campaign.campaign import PlannedRun
from orchestrator.common.files import at_once
from orchestrator.common.text import counted, signal_name
from orchestrator.slurm.commands import (
    SilenceError,
    SlurmAnswer,
    ask_jobs,
    cancel_jobs,
    find,
    queued_ids,
)
from orchestrator.slurm.warning_signal import ended_by_warning_signal
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.folders import (
    BatchFolder,
    has_own_state,
    job_record,
    note_ended,
    note_job_state,
    write_ended,
)
from orchestrator.store.job_state import JobState
from orchestrator.store.record_files import forget_unwritten, keep_again, utc_now
from orchestrator.store.records import (
    CANCELLED,
    COMPLETED,
    FAILED,
    GIVEN_UP,
    NOT_SUBMITTED,
    TIMEOUT,
    UNKNOWN,
    Attempt,
    Ended,
    Intent,
    Receipt,
)

# After this time, a `submit` on another host has called sbatch for its runs, or has ended.
ABANDONED_SECONDS = 900
# For this long after a batch of runs was withdrawn, Slurm is asked whether it has a job.
WITHDRAWN_SECONDS = 24 * 3600
# The wait between two queries about something that changes: an array, or a job that the controller
# is about to accept.
_SECOND_LOOK_SECONDS = 1.0
# A shell's exit code is 128 plus the number of the signal that ended its program.
_SIGNALS = 128
_GONE = "no longer in its job array"


@dataclass(frozen=True, slots=True)
class Open:
    """An open attempt: the last attempt of a run on Slurm, whose end is not recorded yet.

    intent: the record that the attempt will be submitted.
    """

    run_id: str
    attempt: Attempt
    intent: Intent


@dataclass(frozen=True, slots=True)
class Synced:
    """The problems of a sync with Slurm, as sentences.

    silences: one sentence per Slurm command that gave no answer. unwritten: one sentence per record
    that could not be written to the disk.
    """

    silences: tuple[str, ...]
    unwritten: tuple[str, ...]


def open_attempts(runs: Iterable[PlannedRun], store: CampaignStore) -> Iterator[Open]:
    """Yield the last attempt of each run, if it has an intent and no recorded end."""
    for planned in runs:
        last = open_attempt(planned.run_id, store.run(planned.run_id).attempts())
        if last is not None:
            yield last


def open_attempt(run_id: str, attempts: Sequence[Attempt]) -> Open | None:
    """Return the last attempt of a run, if it has an intent and no recorded end; otherwise None."""
    if not attempts or attempts[-1].ended is not None or attempts[-1].intent is None:
        return None
    return Open(run_id, attempts[-1], attempts[-1].intent)


def queued_attempts(runs: Iterable[PlannedRun], store: CampaignStore) -> list[Open]:
    """Return the open attempts of runs, except those whose last state from Slurm is UNKNOWN."""
    return [last for last in open_attempts(runs, store) if last.attempt.slurm_state != UNKNOWN]


def job_ids(opened: Sequence[Open], store: CampaignStore) -> dict[str, Open]:
    """Return the open attempts that have a recorded job, by job id."""
    attempts_by_job: dict[str, Open] = {}
    for name, members in _by_batch(opened).items():
        jobs = store.batch(name).jobs()
        if jobs is not None:
            attempts_by_job.update(
                (jobs[member.run_id, member.attempt.number], member) for member in members
            )
    return attempts_by_job


def refresh(runs: Iterable[PlannedRun], store: CampaignStore) -> list[str]:
    """Ask Slurm about every attempt that has not ended, and record the answers.

    Returns a sentence for each problem.
    """
    synced = sync(runs, store)
    return [*synced.silences, *synced.unwritten]


def sync(runs: Iterable[PlannedRun], store: CampaignStore) -> Synced:
    """Ask Slurm about every attempt that has not ended, and record the answers.

    Jobs of an interrupted submit are found by their names. If Slurm gives no answer, the records
    stay as they are. If a record cannot be written to the disk, it is kept in memory until this
    command ends.
    """
    before = forget_unwritten(store.path)
    opened = list(open_attempts(runs, store))
    refusals: list[str] = []
    silences = dict.fromkeys(_adopt(opened, store, refusals))
    jobs = job_ids(opened, store)
    names = {job.intent.batch for job in jobs.values()}
    answer = ask_jobs(list(jobs), names)
    states = _own_states(answer, jobs)
    unheard = [
        job_id
        for job_id, job in jobs.items()
        if job_id not in states and job.attempt.slurm_state != UNKNOWN
    ]
    if answer.complete and unheard:
        # While an array changes, Slurm may report none of its tasks for a moment.
        time.sleep(_SECOND_LOOK_SECONDS)
        answer = ask_jobs(list(jobs), names)
        states = _own_states(answer, jobs)

    waiting = {
        job_id: states[job_id]
        for job_id, job in jobs.items()
        if job_id in states and states[job_id].only_waits and not has_own_state(job.attempt.folder)
    }
    for name in {jobs[job_id].intent.batch for job_id in waiting}:
        members = {job_id for job_id in waiting if jobs[job_id].intent.batch == name}
        try:
            store.batch(name).record_waiting(waiting[job_id] for job_id in members)
        except OSError:
            # Each state is then recorded separately, or kept in memory.
            waiting = {job_id: waiting[job_id] for job_id in waiting if job_id not in members}

    def is_recorded(job_id: str) -> bool:
        state = states.get(job_id)
        same = state is not None and not state.final and state == jobs[job_id].attempt.job
        return same or job_id in waiting

    def write(job_id: str) -> str | None:
        job = jobs[job_id]
        if job_id in states:
            return record_job_state(job.attempt, states[job_id])
        if answer.complete and (own := _own_record(job, job_id)) is not None:
            return record_job_state(job.attempt, own)
        if answer.complete and job.intent.batch in answer.names and not _has_started(job.attempt):
            # A task that is cancelled while it waits disappears from its array.
            gone = JobState(job_id, CANCELLED, "squeue", job.intent.batch, reason=_GONE)
            return record_job_state(job.attempt, gone)
        if answer.complete:
            return _record_unknown(job.attempt, job_id)
        return None

    refusals += filter(None, at_once(write, (job for job in jobs if not is_recorded(job))))
    if not answer.complete:
        silences.update(dict.fromkeys(answer.silences))
        keep_again(before)
    return Synced(
        tuple(f"Slurm gave no answer: {reason}" for reason in silences),
        tuple(
            f"{store.path}: Slurm's answer cannot be recorded: {reason}; the answer is shown, but "
            "not saved"
            for reason in dict.fromkeys(refusals)
        ),
    )


def _own_states(answer: SlurmAnswer, jobs: Mapping[str, Open]) -> dict[str, JobState]:
    # A cluster that was set up again, or another cluster, uses the same ids again. A final state of
    # all waiting tasks of an array does not apply to a task that has already started.
    return {
        job_id: state
        for job_id, job in jobs.items()
        if (state := answer.states.get(job_id))
        and state.name == job.intent.batch
        and not (state.of_rest and state.final and _has_started(job.attempt))
    }


def _has_started(attempt: Attempt) -> bool:
    job = attempt.job
    return (
        (job is not None and job.started_at is not None)
        or attempt.log.exists()
        or job_record(attempt.folder) is not None
    )


def _own_record(job: Open, job_id: str) -> JobState | None:
    """Return the final state of an attempt's job, according to the exit code that the job recorded.

    Returns None if the job with this id did not record its end. Also returns None if a signal ended
    the job script. In this case, the record does not show who sent the signal: a user, or Slurm
    because of the time limit or memory.
    """
    record = job_record(job.attempt.folder)
    if record is None or record.job_id != job_id or record.ended_at is None:
        return None
    if record.exit_code is None or record.exit_code > _SIGNALS:
        return None
    return JobState(
        job_id,
        FAILED if record.exit_code else COMPLETED,
        by="job.json",
        name=job.intent.batch,
        exit_code=record.exit_code,
        started_at=record.started_at,
        ended_at=record.ended_at,
        nodes=job.attempt.nodes,
    )


def record_job_state(attempt: Attempt, state: JobState) -> str | None:
    """Record the state that Slurm reported for an attempt's job.

    If this state is final, also record the end of the attempt. If a record cannot be written to the
    disk, keep it in memory and return the reason; otherwise return None.
    """
    refusal = None
    state = _with_earlier_starts(attempt, state)
    if state.final:
        state = _with_own_exit_code(attempt, state)
    if state != attempt.job:
        refusal = note_job_state(attempt.folder, state)
    if state.final:
        unwritten = note_ended(
            attempt.folder,
            Ended(
                state=_end(attempt, state),
                ended_at=state.ended_at or utc_now(),
                seconds=_seconds(state),
                exit_code=None if state.signal else state.exit_code,
                signal=None if state.signal is None else signal_name(state.signal),
            ),
        )
        refusal = refusal or unwritten
    return refusal


def _with_earlier_starts(attempt: Attempt, state: JobState) -> JobState:
    """Return `state`; if the attempt's record contains more restarts, use those of the record.

    In this case, the time that the job ran before its last start also comes from the record.
    Accounting may report too few restarts: if a job is requeued before accounting has
    recorded its first start, accounting never reports this start.
    """
    before = attempt.job
    if before is None or before.job_id != state.job_id or before.restarts <= state.restarts:
        return state
    return replace(state, restarts=before.restarts, earlier_seconds=before.earlier_seconds)


def _with_own_exit_code(attempt: Attempt, state: JobState) -> JobState:
    """Return `state`; correct its exit code if sacct's exit code is too small by 128.

    If a signal ends a script, the shell's exit code is above 128, e.g. 138. sacct prints
    this code as 10, so the exit code that the job itself recorded is used.
    """
    record = job_record(attempt.folder)
    if record is None or record.job_id != state.job_id or record.exit_code is None:
        return state
    if state.exit_code != record.exit_code - _SIGNALS:
        return state
    return replace(state, exit_code=record.exit_code)


def _end(attempt: Attempt, state: JobState) -> str:
    """Return the state in which an attempt ended: the state from Slurm, except in two cases.

    The result is GIVEN_UP if a job on which the attempt depended did not complete. It is TIMEOUT if
    the job failed because of the signal that Slurm sends before the time limit.
    """
    if _given_up(attempt, state):
        return GIVEN_UP
    if state.word == FAILED:
        with suppress(FileNotFoundError):
            script = (attempt.folder / "job.sh").read_text(encoding="utf-8")
            if ended_by_warning_signal(script, state, _seconds(state)):
                return TIMEOUT
    return state.word


def _given_up(attempt: Attempt, state: JobState) -> bool:
    """Return whether Slurm cancelled a job because a job on which it depended did not complete.

    squeue and scontrol report this reason, but sacct does not. If a user cancelled a job, sacct
    reports the user. So if sacct reports CANCELLED without a user, Slurm cancelled the job. There
    is one exception: if sacct reports one state for all waiting tasks of an array, it may leave out
    the user.
    """
    if state.word != CANCELLED or attempt.intent is None or not attempt.intent.chained:
        return False
    by_nobody = state.by == "sacct" and state.state == CANCELLED and not state.of_rest
    return by_nobody or state.reason == "DependencyNeverSatisfied"


def _seconds(state: JobState) -> float | None:
    if state.seconds is not None or state.started_at is None or state.ended_at is None:
        return state.seconds
    times = (datetime.fromisoformat(text) for text in (state.started_at, state.ended_at))
    begin, end = times
    return max((end - begin).total_seconds(), 0.0)


def _record_unknown(attempt: Attempt, job_id: str) -> str | None:
    before = attempt.job or JobState(job_id, UNKNOWN, by="nobody")
    state = replace(before, state=UNKNOWN, by="nobody", reason=None)
    return note_job_state(attempt.folder, state) if state != attempt.job else None


def _adopt(opened: Sequence[Open], store: CampaignStore, refusals: list[str]) -> Iterator[str]:
    """Find the jobs of batches of runs that have no receipt, and write the receipts.

    A receipt records the job of a batch of runs. If Slurm gives no answer, this function yields the
    reason and stops.
    opened: the attempts without a recorded end. refusals: a list to which the reason is added if a
    receipt cannot be written to the disk.
    """
    for name, members in _by_batch(opened).items():
        folder = store.batch(name)
        if folder.receipt() is not None:
            continue
        try:
            job_id = folder.begun_job() or find(name, members[0].intent.created_at)
        except SilenceError as silence:
            yield str(silence)
            return
        if job_id is not None and (refusal := folder.adopt(Receipt(job_id, utc_now()))):
            refusals.append(refusal)


def recover(runs: Iterable[PlannedRun], store: CampaignStore, *, alone: bool) -> list[str]:
    """Resolve every interrupted submission: record its job if there is one, or withdraw it.

    alone: whether it is certain that this host runs no other `submit`, and no sbatch that another
    `submit` started. Then a submission of this host without a receipt was interrupted. Any other
    submission without a receipt counts as interrupted if it is older than ABANDONED_SECONDS (15
    minutes).
    Returns a sentence for each submission that stays unresolved.
    """
    cancel_withdrawn(store)
    opened = list(open_attempts(runs, store))
    notes = []
    for name, members in _by_batch(opened).items():
        folder = store.batch(name)
        intent = members[0].intent
        receipt = folder.receipt()
        if receipt is None:
            dead = alone and intent.host == socket.gethostname()
            if not dead and _age_seconds(intent) < ABANDONED_SECONDS:
                notes.append(
                    f"{counted(len(members), 'run is', 'runs are')} being submitted by a submit on "
                    f"{intent.host} since {intent.created_at}; if that submit was interrupted, "
                    "submit again after 15 minutes"
                )
                continue
            try:
                receipt = withdraw(folder, intent)
            except SilenceError as silence:
                notes.append(
                    f"{counted(len(members), 'run')} may have been submitted, but Slurm gives no "
                    f"answer: {silence}"
                )
                continue
        close(receipt, [member.attempt for member in members])
    return notes


def withdraw(folder: BatchFolder, intent: Intent) -> Receipt:
    """Find the job of a batch of runs without a receipt, or ensure that its job runs nothing.

    Returns the receipt that was written. Slurm is asked first, because a job that is already queued
    should run. If Slurm accepts the job after this call, the job ends before it runs anything.
    Raises SilenceError if Slurm gives no answer.
    """
    job_id = find(intent.batch, intent.created_at)
    if job_id is None:
        time.sleep(_SECOND_LOOK_SECONDS)
        job_id = find(intent.batch, intent.created_at) or folder.withdraw()
    return folder.close(Receipt(job_id, utc_now()))


def cancel_withdrawn(store: CampaignStore) -> None:
    """Cancel jobs that Slurm accepted after their batches of runs were withdrawn.

    When such a job starts, it runs nothing, because the script of its batch of runs was renamed.
    But without this function, the job would stay in the queue until then.
    """
    names = [folder.path.name for folder in store.withdrawn_batches(WITHDRAWN_SECONDS)]
    with suppress(SilenceError):
        cancel_jobs(queued_ids(names))


def close(receipt: Receipt, attempts: Iterable[Attempt]) -> None:
    """Record the attempts of a batch of runs as NOT_SUBMITTED if the batch of runs has no job.

    If the receipt contains a job, nothing is recorded.
    """
    if receipt.job_id is None:
        for attempt in attempts:
            write_ended(attempt.folder, Ended(NOT_SUBMITTED, utc_now()))


def _by_batch(opened: Iterable[Open]) -> dict[str, list[Open]]:
    groups: dict[str, list[Open]] = {}
    for member in opened:
        groups.setdefault(member.intent.batch, []).append(member)
    return groups


def _age_seconds(intent: Intent) -> float:
    created = datetime.fromisoformat(intent.created_at)
    return (datetime.now(UTC) - created).total_seconds()
