"""Text of `teralog status` for a campaign of many runs, and the choice of runs by their state."""

import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from orchestrator.campaign.labels import without_repeat
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.common.tables import Column, Table, as_text, make_table
from orchestrator.common.text import counted
from orchestrator.slurm.reasons import is_ordinary, reason_lines
from orchestrator.status.hung_runs import HungRun
from orchestrator.status.slow_runs import SlowRun
from orchestrator.status.table import RunStatus, local_time, word
from orchestrator.store import records
from orchestrator.store.job_state import FINAL, UNENDED

# More runs than a screen has lines for.
MOST_ROWS = 20
HUNG = "hung"

_OUTCOMES = frozenset(one.value for one in RunOutcome)
_STATES = frozenset(
    one.lower()
    for one in (
        *FINAL,
        *UNENDED,
        records.NOT_STARTED,
        records.SUBMITTING,
        records.SUBMITTED,
    )
)
_LEAST_LABEL = 16
_LEAST_WHY = 20
# Slurm's reasons are words of about this length.
_LEAST_REASON = 12
_LEAST_ID = 4
_WIDTH = 80
_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+(?==)")
# The one who cancelled runs knows of them.
_CANCELLED_RANK, _ORDINARY_RANK = 5, 6
_MOST_HUNG = 5


def parse_states(texts: Sequence[str]) -> frozenset[str]:
    """Return the words of `--state`, given several times or with commas between them.

    Raises UserError with all words that are neither a state nor an outcome.
    """
    words = [word.strip().lower() for text in texts for word in text.split(",")]
    wanted = dict.fromkeys(word.replace(" ", "_") for word in words if word)
    known = sorted(_STATES | _OUTCOMES | {HUNG})
    unknown = [word for word in wanted if word not in known]
    if unknown or (texts and not wanted):
        raise UserError(
            *(
                f"--state: {word!r} is neither a state nor an outcome{did_you_mean(word, known)}"
                for word in unknown or [""]
            )
        )
    return frozenset(wanted)


def in_state(
    statuses: Sequence[RunStatus], wanted: frozenset[str], hung: Mapping[str, HungRun]
) -> list[RunStatus]:
    """Return the runs in one of the `wanted` states, or with one of these outcomes.

    A word that is both means the outcome, as in the totals: a run that is `oom` did not `failed`.
    """
    return [one for one in statuses if wanted & _words(one, hung)]


def _words(status: RunStatus, hung: Mapping[str, HungRun]) -> frozenset[str]:
    state = status.state.lower()
    found = {(status.outcome or state), state if state not in _OUTCOMES else ""}
    return frozenset(found | ({HUNG} if status.planned.run_id in hung else set()))


def configuration_label(status: RunStatus) -> str:
    """Return the label of a run without its repeat."""
    return without_repeat(status.planned.label)


def many_runs_text(
    statuses: Sequence[RunStatus], slow: Mapping[str, SlowRun], hung: Mapping[str, HungRun]
) -> str:
    """Return a table of configurations and one of the runs that need attention."""
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    blocks = [*_configurations(statuses, width), _attention(statuses, slow, hung, width)]
    return "\n\n".join(blocks)


def hung_lines(hung: Sequence[HungRun]) -> list[str]:
    """Return a line for each of the first runs that hang, and how many more there are."""
    lines = [str(one) for one in hung[:_MOST_HUNG]]
    if len(hung) > _MOST_HUNG:
        lines.append(f"and {len(hung) - _MOST_HUNG} more hang: --state {HUNG} shows them")
    return lines


def waiting_lines(statuses: Sequence[RunStatus]) -> list[str]:
    """Return a line for each reason why jobs wait: what it means, and what to do."""
    return reason_lines(one.waiting_reason for one in statuses if one.waiting_reason)


def _configurations(statuses: Sequence[RunStatus], width: int) -> list[str]:
    """Return a table with a row per configuration; none if each has a single run."""
    members: dict[str, list[RunStatus]] = {}
    for status in statuses:
        members.setdefault(configuration_label(status), []).append(status)
    if len(members) == len(statuses):
        return []
    rows = [(label, Counter(map(word, runs))) for label, runs in members.items()]
    # Those that have completed, and those that have not begun, are of least interest.
    dull = [len({word(one) for one in runs}) == 1 for runs in members.values()]
    order = sorted(range(len(rows)), key=lambda place: dull[place])
    kept = [rows[place] for place in sorted(order[:MOST_ROWS])]
    columns: list[Column[tuple[str, Counter[str]]]] = [
        Column("configuration", "label", lambda row: row[0]),
        Column("runs", "runs", lambda row: row[1].total()),
        Column("states", "states", lambda row: _counts(row[1])),
    ]
    text = _fitted(make_table(columns, kept), width)
    if len(kept) < len(rows):
        hidden: Counter[str] = Counter()
        for place in order[MOST_ROWS:]:
            hidden.update(rows[place][1])
        text += f"\nand {counted(len(rows) - len(kept), 'more configuration')}: {_counts(hidden)}"
    return [text]


def _counts(words: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in words.items() if count)


def _attention(
    statuses: Sequence[RunStatus],
    slow: Mapping[str, SlowRun],
    hung: Mapping[str, HungRun],
    width: int,
) -> str:
    """Return a table of the runs that failed, hang, run or wait for a reason."""

    def rank(status: RunStatus) -> int | None:
        if status.outcome == RunOutcome.CANCELLED:
            return _CANCELLED_RANK
        if status.unsuccessful:
            return 0
        if status.planned.run_id in hung:
            return 1
        if status.waiting_reason and not is_ordinary(status.waiting_reason):
            return 2
        if status.planned.run_id in slow:
            return 3
        if status.state == records.RUNNING:
            return 4
        return _ORDINARY_RANK if status.waiting_reason else None

    ranked = [(place, status) for status in statuses if (place := rank(status)) is not None]
    if not ranked:
        return "no run needs attention; --all shows every run"
    ranked.sort(key=lambda one: one[0])
    chosen: list[RunStatus] = []
    for place, group in groupby(ranked, key=lambda one: one[0]):
        members = [status for _, status in group]
        # Of jobs that wait as jobs do, the first one tells as much as all of them.
        room = MOST_ROWS - len(chosen)
        chosen += members[: min(room, 3) if place == _ORDINARY_RANK else room]
    digits = _digits([status.planned.run_id for status in statuses])
    columns: tuple[Column[RunStatus], ...] = (
        Column("id", "id", lambda status: status.planned.run_id[:digits]),
        Column("run", "label", lambda status: status.planned.label),
        Column("state", "state", lambda status: _state(status, hung)),
        *(
            column
            for column in _ATTENTION_COLUMNS
            if any(column.value(status) is not None for status in chosen)
        ),
    )
    table = _fitted(make_table(columns, chosen), width)
    hidden = len(statuses) - len(chosen)
    left = Counter(map(word, statuses))
    left.subtract(map(word, chosen))
    if not hidden:
        return table
    return f"{table}\nand {hidden} more: {_counts(left)}; --all shows every run"


def _digits(ids: Sequence[str]) -> int:
    """Return how many characters tell the ids of runs apart: commands take the beginning of one."""
    longest = max(map(len, ids))
    apart = (
        size for size in range(_LEAST_ID, longest) if len({one[:size] for one in ids}) == len(ids)
    )
    return next(apart, longest)


def _state(status: RunStatus, hung: Mapping[str, HungRun]) -> str:
    return HUNG if status.planned.run_id in hung else word(status)


def _why(status: RunStatus) -> str | None:
    if status.waiting_reason:
        return status.waiting_reason
    return status.told.text if status.unsuccessful and status.told else None


_ATTENTION_COLUMNS: tuple[Column[RunStatus], ...] = (
    Column("job", "job_id", lambda status: status.job.job_id if status.job else None),
    Column("nodes", "node_list", lambda status: status.node_list),
    Column("expected start", "expected_start", lambda status: local_time(status.expected_start)),
    Column("why", "why", _why),
)


def _fitted(table: Table, width: int) -> str:
    """Return a table as text that fits the terminal.

    Reasons are shortened first. Then labels have the initials of names, which a line explains.
    Then reasons are shortened further, and last the middle of labels is cut out, unless two
    configurations would look the same.
    """
    table = _cut(table, "why", width, _LEAST_WHY, keep_end=False)
    legend: dict[str, str] = {}
    if _over(table, width) > 0:
        labels = [str(row[_place(table, "label")]) for row in table.rows]
        legend = _initials(labels)
        table = _replaced(table, "label", [_NAME.sub(_by(legend), label) for label in labels])
    table = _cut(table, "why", width, _LEAST_REASON, keep_end=False)
    cut = _cut(table, "label", width, _LEAST_LABEL, keep_end=True)
    at = _place(table, "label")
    unlike = len({row[at] for row in cut.rows}) == len({row[at] for row in table.rows})
    text = as_text(cut if unlike or "id" in table.names else table)
    if not legend:
        return text
    meanings = ", ".join(f"{short}: {name}" for name, short in legend.items())
    return f"{text}\n{textwrap.fill(meanings, width)}"


def _initials(labels: Sequence[str]) -> dict[str, str]:
    """Return initials for the names in these labels, e.g. mbs for micro_batch_size.

    Names with the same initials as another one have none.
    """
    names = dict.fromkeys(name for label in labels for name in _NAME.findall(label))
    short = {name: "".join(word[0] for word in name.split("_")) for name in names}
    counts = Counter(short.values())
    return {name: initials for name, initials in short.items() if counts[initials] == 1}


def _by(legend: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    return lambda match: legend.get(match[0], match[0])


def _cut(table: Table, key: str, width: int, least: int, *, keep_end: bool) -> Table:
    """Return the table with the texts of a column cut to what the terminal has room for."""
    over = _over(table, width)
    if over <= 0 or key not in table.names:
        return table
    cells = [row[_place(table, key)] for row in table.rows]
    room = max(max(len(str(cell or "")) for cell in cells) - over, least)
    end = room // 2 if keep_end else 0
    return _replaced(table, key, [cell and _shortened(str(cell), room, end) for cell in cells])


def _over(table: Table, width: int) -> int:
    return max(map(len, as_text(table).splitlines())) - width


def _place(table: Table, key: str) -> int:
    return table.names.index(key)


def _replaced(table: Table, key: str, cells: Sequence[Any]) -> Table:
    at = _place(table, key)
    rows = ((*row[:at], cell, *row[at + 1 :]) for row, cell in zip(table.rows, cells, strict=True))
    return replace(table, rows=tuple(rows))


def _shortened(text: str, width: int, end: int) -> str:
    if len(text) <= width:
        return text
    return f"{text[: width - end - 1]}…{text[len(text) - end :]}"
