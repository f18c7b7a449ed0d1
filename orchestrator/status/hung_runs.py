"""Find runs that hang: they run, but their logs have not grown for unusually long.

The rule. A run's log contains step reports, each of one step or the mean of several. The usual time
between two reports is the median step time so far, times the number of steps from one report to the
next. A run hangs if its log has not grown for more than ten times this usual time, and for more
than a minute. Before a run has reported a step time since its last start, it never counts as hung.
The reason is that the time to load and compile is unknown.

The modification time of a log comes from the file server. So it is compared with the clock of that
server, never with this machine's clock: see `silent_logs.FileClock`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from orchestrator.common.tables import Style, shown
from orchestrator.common.text import printable

FACTOR = 10
LEAST_SECONDS = 60.0

_SHORT = Style(digits=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class HungRun:
    """A run that hangs.

    silent_since: the time at which its log last grew, by the file server's clock; or the time at
    which its last attempt started, if this is later. silent_seconds: the time since then.
    report_seconds: the usual time between two of its step reports. last_line: the last line of its
    log.
    """

    label: str
    node_list: str | None
    silent_since: datetime
    silent_seconds: float
    report_seconds: float
    last_line: str | None

    def __str__(self) -> str:
        where = f" on {self.node_list}" if self.node_list else ""
        since = self.silent_since.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        silent = timedelta(seconds=round(self.silent_seconds))
        usual = shown(self.report_seconds, _SHORT)
        last = f"; last line: {self.last_line}" if self.last_line else ""
        return printable(
            f"{self.label}{where}: may hang: no output since {since} ({silent}), but usually a "
            f"step report every {usual} s{last}"
        )

    def record(self) -> dict[str, Any]:
        """Return the hung run as a JSON object."""
        return {
            "silent_since": self.silent_since.isoformat(timespec="seconds"),
            "silent_seconds": self.silent_seconds,
            "report_seconds": self.report_seconds,
            "last_line": self.last_line,
        }


def is_hung(silent_seconds: float, seconds_per_report: float | None) -> bool:
    """Return whether a run hangs: whether its log has been silent for too long.

    The limit is one minute, or ten times `seconds_per_report` if that is longer.

    seconds_per_report: the usual time between two step reports. It is None if the run has not
    reported a step time; then the run does not count as hung.
    """
    if seconds_per_report is None:
        return False
    return silent_seconds > max(LEAST_SECONDS, FACTOR * seconds_per_report)
