"""The output of `teralog status` for a campaign of many runs, and the choice of runs by state."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from orchestrator.campaign.labels import without_repeat
from orchestrator.collect.outcomes import RunOutcome
from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.common.fitted import fitted_text, wrapped
from orchestrator.common.tables import Column, make_table
from orchestrator.common.terminal import terminal_width
from orchestrator.common.text import counted
from orchestrator.slurm.reasons import is_ordinary, reason_lines
from orchestrator.status.hung_runs import HungRun
from orchestrator.status.slow_runs import SlowRun
from orchestrator.status.table import RunStatus, local_time, word
from orchestrator.store import records
from orchestrator.store.job_state import FINAL, UNENDED

# The largest number of rows in a table, so that it fits on the screen.
MOST_ROWS = 20
HUNG = "hung"

_OUTCOMES = frozenset(outcome.value for outcome in RunOutcome)
_STATES = frozenset(
    state.lower()
    for state in (
        *FINAL,
        *UNENDED,
        records.NOT_STARTED,
        records.SUBMITTING,
        records.SUBMITTED,
    )
)
_LEAST_ID = 4
# Users who cancelled runs know that they did.
_CANCELLED_RANK, _ORDINARY_RANK = 5, 6
_MOST_HUNG = 5


def parse_states(texts: Sequence[str]) -> frozenset[str]:
    """Return the states and outcomes that the user gave with `--state`.

    texts: the values of the option, one for each time the user gave it. A value can contain several
    words, separated by commas. Raises UserError with all words that are neither a state nor an
    outcome.
    """
    words = [word.strip().lower() for text in texts for word in text.split(",")]
    wanted = dict.fromkeys(word.replace(" ", "_") for word in words if word)
    valid = sorted(_STATES | _OUTCOMES | {HUNG})
    unknown = [word for word in wanted if word not in valid]
    if unknown or (texts and not wanted):
        raise UserError(
            *(
                f"--state: {word!r} is neither a state nor an outcome{did_you_mean(word, valid)}"
                for word in unknown or [""]
            )
        )
    return frozenset(wanted)


def in_state(
    statuses: Sequence[RunStatus], wanted: frozenset[str], hung: Mapping[str, HungRun]
) -> list[RunStatus]:
    """Return the runs in one of the `wanted` states, or with one of the wanted outcomes.

    Words such as `failed` are both a state and an outcome. They mean the outcome here, as in the
    totals: a run with the state FAILED and the outcome `oom` matches `oom`, but not `failed`. The
    word `hung` matches the runs in `hung`.
    """
    return [status for status in statuses if wanted & _words(status, hung)]


def _words(status: RunStatus, hung: Mapping[str, HungRun]) -> frozenset[str]:
    state = status.state.lower()
    words = {(status.outcome or state), state if state not in _OUTCOMES else ""}
    return frozenset(words | ({HUNG} if status.planned.run_id in hung else set()))


def configuration_label(status: RunStatus) -> str:
    """Return a run's label without the number of its repeat: the label of its configuration."""
    return without_repeat(status.planned.label)


def many_runs_text(
    statuses: Sequence[RunStatus], slow: Mapping[str, SlowRun], hung: Mapping[str, HungRun]
) -> str:
    """Return a table of the configurations, and a table of the runs that need attention.

    The first table is left out if each configuration has a single run.
    """
    return "\n\n".join((*_configurations(statuses), _attention(statuses, slow, hung)))


def hung_lines(hung: Sequence[HungRun]) -> list[str]:
    """Return a line for each of the first five hung runs, and a line that counts the others."""
    lines = [str(hung_run) for hung_run in hung[:_MOST_HUNG]]
    if len(hung) > _MOST_HUNG:
        lines.append(f"and {len(hung) - _MOST_HUNG} more hang: --state {HUNG} shows them")
    return lines


def waiting_lines(statuses: Sequence[RunStatus]) -> list[str]:
    """Return a line for each reason why jobs wait: its meaning, and what to do."""
    return reason_lines(status.waiting_reason for status in statuses if status.waiting_reason)


def _configurations(statuses: Sequence[RunStatus]) -> list[str]:
    """Return a list with one text: a table with a row per configuration.

    The list is empty if each configuration has a single run. The table has at most
    `MOST_ROWS` (20) rows; a line below it counts the other configurations. If there are too
    many, configurations whose runs differ in their states or outcomes are preferred.
    """
    members: dict[str, list[RunStatus]] = {}
    for status in statuses:
        members.setdefault(configuration_label(status), []).append(status)
    if len(members) == len(statuses):
        return []
    rows = [(label, Counter(map(word, runs))) for label, runs in members.items()]
    # Configurations whose runs all have the same state are of least interest.
    dull = [len({word(run) for run in runs}) == 1 for runs in members.values()]
    order = sorted(range(len(rows)), key=lambda place: dull[place])
    kept = [rows[place] for place in sorted(order[:MOST_ROWS])]
    columns: list[Column[tuple[str, Counter[str]]]] = [
        Column("configuration", "label", lambda row: row[0]),
        Column("runs", "runs", lambda row: row[1].total()),
        Column("states", "states", lambda row: _counts(row[1])),
    ]
    text = fitted_text(make_table(columns, kept), terminal_width())
    if len(kept) < len(rows):
        hidden: Counter[str] = Counter()
        for place in order[MOST_ROWS:]:
            hidden.update(rows[place][1])
        more = f"and {counted(len(rows) - len(kept), 'more configuration')}: {_counts(hidden)}"
        text = "\n".join((text, *wrapped(more, terminal_width())))
    return [text]


def _counts(words: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in words.items() if count)


def _attention(
    statuses: Sequence[RunStatus],
    slow: Mapping[str, SlowRun],
    hung: Mapping[str, HungRun],
) -> str:
    """Return a table of the runs that need the user's attention.

    These are failed, cancelled, hung, slow and running runs, and runs that wait for a
    reason that Slurm reports. At most three runs that wait for an ordinary reason are shown,
    because they will start without any action by the user. The table has at most `MOST_ROWS`
    (20) rows.
    """

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
    ranked.sort(key=lambda row: row[0])
    chosen: list[RunStatus] = []
    for place, group in groupby(ranked, key=lambda row: row[0]):
        members = [status for _, status in group]
        # Of the jobs that wait for an ordinary reason, a few are enough as examples.
        room = MOST_ROWS - len(chosen)
        chosen += members[: min(room, 3) if place == _ORDINARY_RANK else room]
    digits = _digits([status.planned.run_id for status in statuses])
    columns: tuple[Column[RunStatus], ...] = (
        Column("run", "id", lambda status: status.planned.run_id[:digits]),
        Column("label", "label", lambda status: status.planned.label),
        Column("state", "state", lambda status: _state(status, hung)),
        *(
            column
            for column in _ATTENTION_COLUMNS
            if any(column.value(status) is not None for status in chosen)
        ),
    )
    table = fitted_text(make_table(columns, chosen), terminal_width())
    hidden = len(statuses) - len(chosen)
    left = Counter(map(word, statuses))
    left.subtract(map(word, chosen))
    if not hidden:
        return table
    more = f"and {hidden} more: {_counts(left)}; --all shows every run"
    return "\n".join((table, *wrapped(more, terminal_width())))


def _digits(ids: Sequence[str]) -> int:
    """Return how many characters at the start of each id are enough to distinguish all ids."""
    longest = max(map(len, ids))
    apart = (
        size
        for size in range(_LEAST_ID, longest)
        if len({identity[:size] for identity in ids}) == len(ids)
    )
    return next(apart, longest)


def _state(status: RunStatus, hung: Mapping[str, HungRun]) -> str:
    return HUNG if status.planned.run_id in hung else word(status)


def _why(status: RunStatus) -> str | None:
    if status.waiting_reason:
        return status.waiting_reason
    return status.log_outcome.text if status.unsuccessful and status.log_outcome else None


_ATTENTION_COLUMNS: tuple[Column[RunStatus], ...] = (
    Column("job", "job_id", lambda status: status.job.job_id if status.job else None),
    Column("nodes", "node_list", lambda status: status.node_list),
    Column("expected start", "expected_start", lambda status: local_time(status.expected_start)),
    Column("why", "why", _why, cut=True),
)
