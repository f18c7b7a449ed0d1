"""Find hung runs: running runs whose logs have not grown for a long time."""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.campaign.campaign import Campaign
from orchestrator.collect.attempt_log import read_attempt_log
from orchestrator.measure.summary import configured
from orchestrator.status import hung_runs
from orchestrator.status.hung_runs import HungRun, is_hung
from orchestrator.status.log_text import log_tail
from orchestrator.status.progress import report_seconds
from orchestrator.status.table import RunStatus
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import RUNNING, Attempt

_LINE = 80
_TAIL_LINES = 50


class FileClock:
    """The clock of the file server that stores the logs; it may differ from this machine's."""

    def __init__(self, folder: Path) -> None:
        """Store the folder; `now` creates a temporary file in it once, to read the clock."""
        self._folder = folder
        self._offset: float | None = None
        self._is_read = False

    def now(self, newest: float) -> float:
        """Return the file server's time in seconds since 1970.

        newest: the modification time of the newest log, by the file server's clock. It is returned
        if no file can be created in the folder. It is never later than the real time, so no log
        looks older than it is.
        """
        if not self._is_read:
            self._offset, self._is_read = self._read(), True
        if self._offset is None:
            return newest
        # The monotonic clock, because somebody may set this machine's clock while `watch` runs.
        return max(self._offset + time.monotonic(), newest)

    def _read(self) -> float | None:
        with suppress(OSError), tempfile.TemporaryFile(dir=self._folder) as file:
            os.utime(file.fileno())
            return os.fstat(file.fileno()).st_mtime - time.monotonic()
        return None


def find_hung_runs(
    statuses: Sequence[RunStatus],
    clock: FileClock,
    seconds_per_report: Callable[[RunStatus], float | None],
) -> dict[str, HungRun]:
    """Return the runs that hang, by run id.

    seconds_per_report: a function that returns the usual time between two step reports of a
    run, or None if it is unknown. This function may have to read a log. So it is called only
    for runs whose logs have not grown for more than `LEAST_SECONDS` (one minute).
    """
    running = [status for status in statuses if status.state == RUNNING and status.outcome is None]
    written: dict[str, float] = {}
    for status in running:
        with suppress(OSError, IndexError):
            written[status.planned.run_id] = _written_at(status.attempts[-1].log)
    if not written:
        return {}
    now = clock.now(max(written.values()))
    hung = {}
    for status in running:
        identity = status.planned.run_id
        if identity not in written:
            continue
        last = status.attempts[-1]
        # A job that Slurm started again has printed nothing yet; its log is from the earlier start.
        since = max(written[identity], _started_at(last))
        if now - since <= hung_runs.LEAST_SECONDS:
            continue
        usual = seconds_per_report(status)
        if usual is not None and is_hung(now - since, usual):
            hung[identity] = HungRun(
                label=status.planned.label,
                node_list=last.nodes,
                silent_since=datetime.fromtimestamp(since, UTC),
                silent_seconds=now - since,
                report_seconds=usual,
                last_line=_last_line(last.log),
            )
    return hung


def campaign_hung_runs(
    campaign: Campaign, store: CampaignStore, statuses: Sequence[RunStatus]
) -> dict[str, HungRun]:
    """Return the runs of a campaign that hang, by run id.

    A log is read only if it has not grown for more than `LEAST_SECONDS` (one minute).
    """

    def seconds_per_report(status: RunStatus) -> float | None:
        run = status.planned.run
        with suppress(OSError):
            log = read_attempt_log(
                status.attempts[-1],
                run.framework,
                configured(run),
                campaign.warmup,
                complete=False,
            )
            return report_seconds(log.reports)
        return None

    return find_hung_runs(statuses, FileClock(store.path), seconds_per_report)


def _written_at(log: Path) -> float:
    # On a network file system an open asks the server; a mere stat may be a minute old.
    with log.open("rb") as file:
        return os.fstat(file.fileno()).st_mtime


def _started_at(attempt: Attempt) -> float:
    text = attempt.started_at
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _last_line(log: Path) -> str | None:
    with suppress(OSError):
        lines = [line.strip() for line in log_tail(log, _TAIL_LINES, log.name).lines]
        last = next((line for line in reversed(lines) if line), None)
        return last if last is None or len(last) <= _LINE else f"{last[: _LINE - 1]}…"
    return None
