"""Watch a campaign: ask the scheduler at intervals, and read the logs each time."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.common import locks
from orchestrator.status.hung_runs import HungRun
from orchestrator.status.progress import LogSoFar, Progress, read_on, run_progress
from orchestrator.status.silent_logs import FileClock, find_hung_runs
from orchestrator.status.slow_runs import SlowRun, StepTimes, TimedRun, kind_of, slow_runs
from orchestrator.status.step_times import EarlierRuns, attempt_times, timed_run
from orchestrator.status.table import RunStatus, run_status
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import INTERRUPTED, NOT_STARTED, Attempt
from orchestrator.submit.choose_backend import backend

# Slurm is asked at most once in this many seconds, even if the user wants a table more often,
# because Slurm's controller serves the whole cluster.
ASK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """A run's status, nodes and progress, and whether it is slow or hangs."""

    status: RunStatus
    node_list: str | None
    progress: Progress
    slow: SlowRun | None
    hung: HungRun | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot of a campaign.

    notes: sentences about problems, e.g. a log that cannot be read, and about runs that were
    cancelled or requeued.
    under_way: whether any run is active or waiting.
    """

    runs: tuple[WatchedRun, ...]
    notes: tuple[str, ...]
    under_way: bool

    @property
    def statuses(self) -> list[RunStatus]:
        """The statuses of the runs in the snapshot."""
        return [run.status for run in self.runs]

    @property
    def slow(self) -> list[SlowRun]:
        """The runs of the snapshot that are slow."""
        return [run.slow for run in self.runs if run.slow]

    @property
    def hung(self) -> list[WatchedRun]:
        """The runs of the snapshot that hang."""
        return [run for run in self.runs if run.hung]


@dataclass(frozen=True, slots=True)
class _Followed:
    """The log of an attempt, as far as it was read, and the progress that it shows.

    done: whether the log will not grow any more.
    """

    folder: Path
    log: LogSoFar
    progress: Progress
    done: bool = False


def looks(
    campaign: Campaign,
    store: CampaignStore,
    interval_seconds: float,
    act: Callable[[Look], Sequence[str]] = lambda look: (),
) -> Iterator[Look]:
    """Yield a snapshot of the campaign at once, and then one after each interval.

    Stops when no run is active or waiting any more.
    act: called with each snapshot, e.g. to cancel hung runs; the texts that it returns are added to
    the notes of this snapshot and of all later ones.
    """
    watch = Watch(campaign, store)
    done: list[str] = []
    while True:
        look = watch.look()
        done += act(look)
        yield replace(look, notes=(*look.notes, *done))
        if not look.under_way:
            return
        time.sleep(interval_seconds)


class Watch:
    """A watched campaign, from which `look` takes snapshots.

    A record or a log that cannot change any more is not read again.
    """

    def __init__(self, campaign: Campaign, store: CampaignStore) -> None:
        """Start to watch a campaign; nothing is read yet."""
        self._campaign, self._store = campaign, store
        self._kinds = {planned.run_id: kind_of(planned.run) for planned in campaign.runs}
        self._statuses: dict[str, RunStatus] = {}
        self._numbers: dict[str, int] = {}
        self._logs: dict[str, _Followed] = {}
        self._earlier: dict[Path, StepTimes | None] = {}
        self._elsewhere = EarlierRuns(campaign, store)
        self._clock = FileClock(store.path)
        self._silences: tuple[str, ...] = ()
        self._asked_at: float | None = None

    def look(self) -> Look:
        """Return a snapshot of the campaign. Raises UserError if its records are damaged."""
        if self._time_to_ask():
            self._ask()
        statuses = list(self._statuses.values())
        unread = [note for status in statuses if (note := self._read_log(status))]
        timed = {status.planned.run_id: self._timed(status) for status in statuses}
        slow = slow_runs(timed)
        hung = self._hung(statuses)
        runs = (
            WatchedRun(
                status,
                timed[status.planned.run_id].node_list,
                self._progress(status),
                slow.get(status.planned.run_id),
                hung.get(status.planned.run_id),
            )
            for status in statuses
        )
        notes = (*self._silences, *unread)
        return Look(tuple(runs), notes, self._under_way(statuses))

    def _ask(self) -> None:
        runs = self._campaign.runs
        self._silences = tuple(backend(self._campaign).refresh(runs, self._store))
        self._asked_at = time.monotonic()
        for planned in runs:
            self._read_records(planned)

    def _time_to_ask(self) -> bool:
        if self._asked_at is None or self._campaign.cluster.scheduler != "slurm":
            return True
        return time.monotonic() - self._asked_at >= ASK_SECONDS

    def _read_records(self, planned: PlannedRun) -> None:
        """Read and store the status of a run, if it may have changed since the last time.

        The status cannot change any more if the run has ended and has no new attempt.
        """
        earlier = self._statuses.get(planned.run_id)
        number = self._store.run(planned.run_id).next_number
        ended = earlier is not None and earlier.attempts and earlier.attempts[-1].ended
        if not ended or number != self._numbers[planned.run_id]:
            self._statuses[planned.run_id] = run_status(planned, self._campaign, self._store)
            self._numbers[planned.run_id] = number

    def _read_log(self, status: RunStatus) -> str | None:
        """Read the bytes that were appended to the log of a run's last attempt.

        Returns a sentence if the log cannot be read; otherwise None. A log that does not exist yet
        is not a problem.
        """
        if not status.attempts:
            return None
        planned, last = status.planned, status.attempts[-1]
        followed = self._logs.get(planned.run_id)
        if followed is None or followed.folder != last.folder:
            followed = _Followed(last.folder, LogSoFar(), Progress())
        note, log, progress = None, followed.log, followed.progress
        if not followed.done:
            try:
                log = read_on(last.log, planned, log, complete=last.ended is not None)
            except FileNotFoundError:
                pass
            except OSError as error:
                note = f"{last.log}: cannot be read: {error.strerror}"
        grown = log.records is not followed.log.records
        if grown:
            progress = run_progress(planned.run, log.records, self._campaign.warmup)
        # The last lines of a job may arrive after its end, from another host.
        done = last.ended is not None and not grown
        self._logs[planned.run_id] = _Followed(last.folder, log, progress, done)
        return note

    def _progress(self, status: RunStatus) -> Progress:
        followed = self._logs.get(status.planned.run_id)
        return followed.progress if followed else Progress()

    def _timed(self, status: RunStatus) -> TimedRun:
        kind = self._kinds[status.planned.run_id]
        return timed_run(
            status,
            kind,
            self._progress(status).times,
            [self._earlier_times(status, attempt) for attempt in status.attempts[:-1]],
            self._elsewhere.times(kind) if status.attempts else (),
        )

    def _hung(self, statuses: list[RunStatus]) -> dict[str, HungRun]:
        # If Slurm did not answer, a run with the recorded state RUNNING may have ended.
        if self._silences:
            return {}
        return find_hung_runs(
            statuses, self._clock, lambda status: self._progress(status).report_seconds
        )

    def _earlier_times(self, status: RunStatus, attempt: Attempt) -> StepTimes | None:
        if attempt.folder not in self._earlier:
            warmup = self._campaign.warmup
            times = attempt_times(status.planned, attempt, warmup, complete=True)
            self._earlier[attempt.folder] = times
        return self._earlier[attempt.folder]

    def _under_way(self, statuses: list[RunStatus]) -> bool:
        if any(status.outcome is None and status.state != NOT_STARTED for status in statuses):
            return True
        # A `submit` on this machine may still start the other runs. If the lock cannot be read, it
        # is not known whether a `submit` is active.
        waiting = any(status.state in (NOT_STARTED, INTERRUPTED) for status in statuses)
        with suppress(OSError):
            return waiting and locks.is_held(self._store.submit_lock)
        return False
