"""Cancel runs on Slurm: runs that are queued, running, not started, or being submitted.

teralog first asks Slurm to end the jobs, and only then writes files. So a job is cancelled even if
the disk is full.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.common import locks
from orchestrator.common.errors import UserError
from orchestrator.common.files import disk_errors
from orchestrator.common.text import counted
from orchestrator.slurm.commands import SBATCH_SECONDS, SilenceError, cancel_jobs
from orchestrator.slurm.tracking import Open, Synced, job_ids, open_attempt, recover, sync
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.record_files import utc_now
from orchestrator.store.records import (
    CANCELLABLE,
    CANCELLED,
    NOT_STARTED,
    SUBMITTING,
    UNKNOWN,
    Attempt,
    Ended,
)
from orchestrator.submit.render import render_runs

# Slurm reports the end of a cancelled job after its time of grace, 30 s by default.
CANCEL_SECONDS = 40.0
# A submit stops before its next call of sbatch, and may be in one.
_SUBMIT_SECONDS = SBATCH_SECONDS + CANCEL_SECONDS
_POLL_SECONDS = 0.5
# States of runs that another submit may be submitting meanwhile.
_EARLY = frozenset({NOT_STARTED, SUBMITTING})

Tell = Callable[[str], None]


def cancel_runs(
    campaign: Campaign,
    runs: Sequence[PlannedRun],
    store: CampaignStore,
    state: str | None,
    tell: Tell,
) -> Iterator[tuple[PlannedRun, str]]:
    """Cancel all runs at once, wait until they end, and yield each run with its state.

    Runs that have already ended are left out. If another command is submitting some of the runs
    at the same time, this call waits for that command.
    state: cancel only runs in this state; None for any state. With None, this call also stops
    an active submit, and records runs that were never submitted as cancelled.
    Raises UserError if Slurm gives no answer. At the end, raises UserError with a sentence for
    each failure, e.g. for runs that could not be cancelled.
    """
    possible = [run for run in runs if not run.problems]
    marks, mark = store.cancel_marks, None
    # Before any state is read: a submit first claims a run and then looks for marks.
    if state is None and store.path.is_dir():
        mark = marks.leave(run.run_id for run in possible)
    try:
        synced = sync(runs, store)
        if synced.silences:
            raise UserError(*synced.silences)
        tell = _once(tell)
        for note in synced.unwritten:
            tell(note)
        looks = [look for look in _look(possible, store) if look.is_meant(state)]
        ends, problems = _cancel(campaign, looks, store, state, tell, marked=mark is not None)
        yield from ((look.planned, ends[look.run_id]) for look in looks)
        if problems:
            raise UserError(*problems)
    finally:
        if mark is not None and not _submit_is_at_work(store):
            marks.remove([mark])


@dataclass(frozen=True, slots=True)
class _Look:
    """A run with its recorded state and attempts, as read at one moment."""

    planned: PlannedRun
    state: str
    attempts: Sequence[Attempt]

    @property
    def run_id(self) -> str:
        return self.planned.run_id

    @property
    def has_ended(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].ended is not None

    @property
    def queued(self) -> Open | None:
        """The run's open attempt on Slurm according to the records, or None."""
        return None if self.state == UNKNOWN else open_attempt(self.run_id, self.attempts)

    def is_meant(self, state: str | None) -> bool:
        """Return whether this run is in the requested state and can be cancelled.

        state: the requested state; None for any state. A run that a submit is submitting now counts
        as PENDING. A run whose job Slurm no longer knows cannot be cancelled.
        """
        if self.state == SUBMITTING:
            return state in (None, "PENDING")
        if state not in (None, self.state.split()[0]):
            return False
        return self.state in CANCELLABLE or not self.attempts or self.queued is not None


def _look(runs: Iterable[PlannedRun], store: CampaignStore) -> list[_Look]:
    """Return the recorded state and attempts of each run."""
    return [_Look(planned, *store.run(planned.run_id).standing()) for planned in runs]


def _once(tell: Tell) -> Tell:
    """Return a function that passes sentences to `tell`, but each sentence only once."""
    sentences: set[str] = set()

    def tell_once(sentence: str) -> None:
        if sentence not in sentences:
            sentences.add(sentence)
            tell(sentence)

    return tell_once


def _cancel(
    campaign: Campaign,
    looks: Sequence[_Look],
    store: CampaignStore,
    state: str | None,
    tell: Tell,
    *,
    marked: bool,
) -> tuple[dict[str, str], list[str]]:
    """Cancel the runs of `looks` and wait until they end.

    looks: the runs to cancel, with their recorded states. state: the state that the user
    requested; None for any state. tell: takes messages for the user.
    marked: whether `teralog cancel` has left a mark that stops an active submit. Without a mark
    and with `state` None, this call waits until the submit ends, because the submit may still
    submit the runs.

    Returns the state of each run, by run id, and a list of sentences about failures.
    """
    ends = {look.run_id: look.state for look in looks}
    cancelled: set[str] = set()
    refusals: dict[str, str] = {}
    problems: list[str] | None = None
    synced: Synced | None = None
    began = time.monotonic()
    # Most submits stop in a moment, so there is no need to report them.
    tell_at = began + 2 * _POLL_SECONDS
    while True:
        jobs = job_ids([attempt for look in looks if (attempt := look.queued)], store).keys()
        if new := list(jobs - cancelled):
            try:
                cancel_jobs(new, state)
            except SilenceError as silence:
                raise UserError(f"scancel: {silence}") from None
            cancelled.update(new)
            began = time.monotonic()
        if problems is None:
            problems = list(_cancel_in_allocation(looks, store))
        _mark_not_started(campaign, looks, store, refusals)
        # Another submit may have claimed a run in the meantime.
        early = (look.planned for look in looks if look.state in _EARLY)
        looks = [*_look(early, store), *(look for look in looks if look.state not in _EARLY)]
        ends.update((look.run_id, look.state) for look in looks)
        submitting = [look for look in looks if look.state == SUBMITTING]
        unmarked = any(look.state == NOT_STARTED and look.run_id not in refusals for look in looks)
        at_work = _submit_is_at_work(store)
        # Without a mark, the submit may still submit any of these runs.
        waits = bool(submitting) or unmarked or (at_work and not marked and state is None)
        notes = _close_abandoned(campaign, store) if submitting and not at_work else []
        late = time.monotonic() > began + (_SUBMIT_SECONDS if waits and at_work else CANCEL_SECONDS)
        going_on = (jobs or waits) and not late
        if going_on:
            if waits and at_work and time.monotonic() > tell_at:
                tell(
                    f"{store.path}: a submit is working on this campaign; waiting until that "
                    f"submit stops, at most {_SUBMIT_SECONDS:g} s"
                )
            time.sleep(_POLL_SECONDS)
            synced = sync((look.planned for look in looks), store)
            for note in synced.unwritten:
                tell(note)
        looks = _look((look.planned for look in looks if not look.has_ended), store)
        ends.update((look.run_id, look.state) for look in looks)
        if not going_on:
            break
    for note in synced.silences if synced else ():
        tell(note)
    if submitting:
        those = counted(len(submitting), "run is", "runs are")
        notes.append(
            f"{those} still being submitted by another command; cancel again when it has ended"
        )
    if left := [look.run_id for look in looks if look.state == NOT_STARTED]:
        those = counted(len(left), "run that has", "runs that have")
        why = refusals.get(left[0], "a submit is working on them; cancel again when it has ended")
        notes.append(f"{those} not started cannot be marked as cancelled: {why}")
    return ends, [*problems, *notes]


def _cancel_in_allocation(looks: Iterable[_Look], store: CampaignStore) -> Iterator[str]:
    """End the runs that `submit --here` has started; yield a sentence for each failure."""
    from orchestrator.local.executor import cancel_local_run

    for look in looks:
        if look.attempts and look.attempts[-1].intent is None:
            folder = store.run(look.run_id)
            try:
                with disk_errors(folder.path):
                    cancel_local_run(folder)
            except UserError as error:
                yield from error.problems


def _mark_not_started(
    campaign: Campaign,
    looks: Iterable[_Look],
    store: CampaignStore,
    refusals: dict[str, str],
) -> None:
    """Record each run that was not started as cancelled.

    A run that Slurm removed from its queue because an earlier run failed counts as not started.
    refusals: changed in place. For each run that could not be recorded, the function adds a
    sentence with the reason, by run id.
    """
    for look in looks:
        if look.run_id in refusals or look.state != NOT_STARTED:
            continue
        folder = store.run(look.run_id)
        number = folder.next_number
        # A submit may have claimed the run since its state was read.
        if folder.state() != NOT_STARTED:
            continue
        try:
            render_runs(campaign, [look.planned], store)
            with disk_errors(folder.path):
                folder.claim(number, Ended(CANCELLED, utc_now()))
        except UserError as error:
            refusals[look.run_id] = error.problems[0]


def _close_abandoned(campaign: Campaign, store: CampaignStore) -> list[str]:
    """Close the attempts that killed submits left open.

    Returns sentences for the user, e.g. if it is still unknown whether a submission has a job.
    """
    lock = None
    with suppress(OSError):
        lock = locks.acquire(store.submit_lock)
    try:
        with disk_errors(store.path):
            return recover(campaign.runs, store, alone=lock is not None)
    except UserError as error:
        return list(error.problems)
    finally:
        if lock is not None:
            os.close(lock)


def _submit_is_at_work(store: CampaignStore) -> bool:
    # If the file system has no locks, only the states of the runs show an active submit.
    with suppress(OSError):
        return locks.is_held(store.submit_lock)
    return False
