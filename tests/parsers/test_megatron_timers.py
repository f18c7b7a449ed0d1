"""Parse timers in every form: on one line, below a title, and of every rank."""

from pathlib import Path

import pytest

from parsers.formats.megatron.timers import MEGATRON_RANK_TIMERS, MEGATRON_TIMERS, TIMERS
from parsers.records import Timers
from parsers.scan.reader import LogFormat, read_records


def parse(log_format: LogFormat, text: str) -> list[tuple[tuple[str, float], ...]]:
    """Return the timers that a format reads in a text, as one tuple per record.

    Each tuple has pairs: a timer's name and its seconds.
    """
    records = list(log_format.parse(7, text))
    assert all(isinstance(record, Timers) and record.offset == 7 for record in records)
    return [record.seconds for record in records if isinstance(record, Timers)]


ONE_LINE = "time (ms) | forward-compute: 148.25 | optimizer: 9.50 | batch-generator: 0.00"
ONE_LINE_SECONDS = (("forward-compute", 0.14825), ("optimizer", 0.0095), ("batch-generator", 0.0))
LINES = {
    "up to August 2022": (ONE_LINE, [ONE_LINE_SECONDS]),
    "names with spaces": (
        "time (ms) | model and optimizer: 11002.50 | train/valid/test data iterators: 1280.25",
        [(("model and optimizer", 11.0025), ("train/valid/test data iterators", 1.28025))],
    ),
    "DeepSpeed up to 0.10": (
        "[logging.py:60:log_dist] [Rank 0] rank=0 time (ms) | forward_microstep: 6567.50",
        [(("forward_microstep", 6.5675),)],
    ),
    "DeepSpeed since 0.10": (
        "[Rank 0] time (ms) | fwd_microstep: 2.50 | bwd_microstep: 5.25",
        [(("fwd_microstep", 0.0025), ("bwd_microstep", 0.00525))],
    ),
    "DeepSpeed, mixture of experts": (
        "time (ms) | fwd: 5.00 (fwd_moe: 2.50, 1st_a2a: 0.50, top_k: 0.25) | bwd: 10.00",
        [
            (
                ("fwd", 0.005),
                ("fwd_moe", 0.0025),
                ("1st_a2a", 0.0005),
                ("top_k", 0.00025),
                ("bwd", 0.01),
            )
        ],
    ),
    "before a report": (
        ONE_LINE + " iteration 3/ 50 | lm loss: 1.25E+01 |",
        [ONE_LINE_SECONDS],
    ),
    "two glued": (ONE_LINE + ONE_LINE, [ONE_LINE_SECONDS, ONE_LINE_SECONDS]),
    "the last value is torn": (ONE_LINE[:-1], [ONE_LINE_SECONDS[:2]]),
    "the last name is torn": (ONE_LINE.partition("generator")[0], [ONE_LINE_SECONDS[:2]]),
}
NO_TIMERS = (
    "",
    "time (ms)",
    "time (ms) | ",
    "time (ms) | name | count |",
    "# " + ONE_LINE,
    "[Rank 0] rank=0 | comm op: send | time (ms): 13.96 | msg size: 14.0 MB | algbw (Gbps): 8.41",
    "WorkNCCL(SeqNum=469508, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802212 milliseconds",
    "time (ms) | forward: 148.255",
    "time (ms) | forward: 148.25E1",
    "(min, max) time across ranks (ms):",
    "max time across ranks (ms): nothing",
    "times across ranks (ms):",
)

RANGES = (
    "(min, max) time across ranks (ms):\n"
    "    forward-backward ...............................: (210.50, 221.25)\n"
    "    train/valid/test-data-iterators-setup ..........: (8140.00, 8140.50)"
)
RANGES_SECONDS = (("forward-backward", 0.22125), ("train/valid/test-data-iterators-setup", 8.1405))
BLOCKS = {
    "the slowest rank": (RANGES, [RANGES_SECONDS]),
    "the maximum alone": (
        "max time across ranks (ms):\n    save-checkpoint ......: 18512.75",
        [(("save-checkpoint", 18.51275),)],
    ),
    "all on the title's line": (
        "[ t 1/1, p 1/1 ] (min, max) time across ranks (ms): save-checkpoint ....: (24.00, 25.00)",
        [(("save-checkpoint", 0.025),)],
    ),
    "from a logger": ("INFO:megatron.core.timers:" + RANGES, [RANGES_SECONDS]),
    "before other text": (RANGES + "training ...\n\n    ab ......: 1.00", [RANGES_SECONDS]),
    "up to the next title": (
        RANGES + "\nmax time across ranks (ms): save ......: 1.50\n    other ......: 2.50",
        [RANGES_SECONDS],
    ),
    "with carriage returns": (RANGES.replace("\n", "\r\n") + "\r", [RANGES_SECONDS]),
    "the last value is torn": (RANGES[:-2], [RANGES_SECONDS[:1]]),
    "no more lines": ("(min, max) time across ranks (ms):", []),
    "quoted in a script": ("# " + RANGES, []),
}

RANKS = (
    "times across ranks (ms):\n"
    "  forward-backward:\n     rank  0: 210.50\n     rank  1: 1210.25\n     rank 10: 9.75\n"
    "  optimizer:\n     rank  0: 30.50\n     rank  1: 29.50\n"
)
RANKS_SECONDS = (("forward-backward", 1.21025), ("optimizer", 0.0305))
RANK_BLOCKS = {
    "the slowest rank": (RANKS + "done\nnext", [RANKS_SECONDS]),
    "a timer that may go on": (RANKS, [RANKS_SECONDS[:1]]),
    "a last line that may be torn": (RANKS + "     rank  2: 3", [RANKS_SECONDS[:1]]),
    "no more lines": ("times across ranks (ms):", []),
    "quoted in a script": ("# " + RANKS, []),
}


@pytest.mark.parametrize(("line", "timers"), LINES.values(), ids=LINES.keys())
def test_timers_on_one_line_are_read(
    line: str, timers: list[tuple[tuple[str, float], ...]]
) -> None:
    """Timers on one line are read in their order; milliseconds become seconds."""
    assert parse(TIMERS, line) == timers
    assert any(anchor.decode() in line for anchor in TIMERS.anchors)


@pytest.mark.parametrize("line", NO_TIMERS)
def test_a_line_that_is_not_a_timer_gives_no_record(line: str) -> None:
    """Messages with times, messages about time-outs, and titles without timers give no record."""
    for log_format in (TIMERS, MEGATRON_TIMERS, MEGATRON_RANK_TIMERS):
        assert parse(log_format, line) == []


@pytest.mark.parametrize(("text", "timers"), BLOCKS.values(), ids=BLOCKS.keys())
def test_timers_below_a_title_are_read(
    text: str, timers: list[tuple[tuple[str, float], ...]]
) -> None:
    """Timers below a title are read up to the first line without a timer.

    If a line has the times of the fastest and the slowest rank, the slowest rank's time is read.
    """
    assert parse(MEGATRON_TIMERS, text) == timers
    assert any(anchor.decode() in text for anchor in MEGATRON_TIMERS.anchors)


@pytest.mark.parametrize(("text", "timers"), RANK_BLOCKS.values(), ids=RANK_BLOCKS.keys())
def test_timers_of_every_rank_are_read(
    text: str, timers: list[tuple[tuple[str, float], ...]]
) -> None:
    """Timers with a line per rank are read, if another line follows the line of the last rank."""
    assert parse(MEGATRON_RANK_TIMERS, text) == timers
    assert any(anchor.decode() in text for anchor in MEGATRON_RANK_TIMERS.anchors)


def test_blocks_in_a_log_are_read_with_the_lines_that_follow_them(tmp_path: Path) -> None:
    """Each title has its own timers, even if one title and its timers directly follow another."""
    log = tmp_path / "log"
    log.write_text(f"a line\n{RANGES}\n{RANKS}{ONE_LINE}\n{RANGES}\nthe end\n")
    records = read_records(log, [TIMERS, MEGATRON_TIMERS, MEGATRON_RANK_TIMERS])
    assert [record.seconds for record in records if isinstance(record, Timers)] == [
        RANGES_SECONDS,
        RANKS_SECONDS,
        ONE_LINE_SECONDS,
        RANGES_SECONDS,
    ]
