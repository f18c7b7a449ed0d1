"""Parse memory reports of Megatron's ranks; several reports can be on one line."""

from reports import cases, parse

from parsers.formats.megatron.memory import BRIDGE_MEMORY, MEGATRON_MEMORY
from parsers.records import Usage, UsageSource


def report(rank: int) -> str:
    """Return the memory report of a rank."""
    return (
        f"[Rank {rank}] (after 20 iterations) memory (MB) | allocated: 19494.453125"
        " | max allocated: 22106.0625 | reserved: 26624.0 | max reserved: 26716.0"
    )


def usage(rank: int | None) -> Usage:
    """Return the record that a parser should give for `report(rank)`."""
    return Usage(
        source=UsageSource.TORCH,
        iteration=20,
        rank=rank,
        memory_allocated_gib=19494.453125 / 1024,
        max_memory_allocated_gib=22106.0625 / 1024,
        memory_reserved_gib=26.0,
        max_memory_reserved_gib=26716.0 / 1024,
        offset=7,
    )


WITHOUT_RANK = report(0).removeprefix("[Rank 0] (").replace("iterations)", "iterations")
DECIMALS = (
    "[Rank 3] (after 2 iterations) memory (MB) | allocated: 20.50 | max allocated: 30.25"
    " | reserved: 40.00 | max reserved: 52.00"
)
DECIMALS_USAGE = Usage(
    source=UsageSource.TORCH,
    iteration=2,
    rank=3,
    memory_allocated_gib=20.5 / 1024,
    max_memory_allocated_gib=30.25 / 1024,
    memory_reserved_gib=40 / 1024,
    max_memory_reserved_gib=52 / 1024,
    offset=7,
)
LINES = {
    "2.0 to core 0.15": (report(51), [usage(51)]),
    "1.1.5 and gpt-neox": (WITHOUT_RANK, [usage(None)]),
    "1.0": (WITHOUT_RANK.replace("reserved", "cached"), [usage(None)]),
    "1.0, both names": (WITHOUT_RANK.replace("reserved", "cached/reserved"), [usage(None)]),
    "core 0.16": (DECIMALS, [DECIMALS_USAGE]),
    "core 0.16, the whole device": (
        DECIMALS + " | total device memory used: 60.0",
        [DECIMALS_USAGE],
    ),
    "three on a line": (report(51) + report(49) + report(8), [usage(51), usage(49), usage(8)]),
    "a torn one before another": (report(51)[:-2] + report(49), [usage(49)]),
    "ALCF": ("[2024-06-21 10:50:42][INFO][utils:190] - " + report(0), [usage(0)]),
    "behind an iteration line": ("number of nan iterations:   0 |" + report(7), [usage(7)]),
    "between carriage returns": ("\r 50%|█ | 5/10\r" + report(7) + "\r", [usage(7)]),
}
NO_REPORTS = (
    "",
    "#" + report(5),
    report(5).replace("MB", "GB"),
    report(5).replace("19494.453125", "nan"),
    report(5).replace("26716.0", "26716"),
    report(5).replace("26716.0", "26716."),
    report(5).replace("26716.0", "26716.3"),
    report(5).partition(" | max reserved")[0],
    DECIMALS.removesuffix("0"),
    "[Rank 0] memory (MB) | allocated: ",
)


@cases(LINES, NO_REPORTS)
def test_each_report_is_a_usage(text: str, records: list[object]) -> None:
    """Each memory report of any version gives a record, even if several are on one line.

    Torn reports, quoted reports and lines without a memory report give no record.
    """
    assert parse(MEGATRON_MEMORY, text) == records


def test_mb_are_powers_of_two() -> None:
    """Megatron's MB are 2**20 bytes, so the conversion to GiB is exact."""
    (record,) = parse(MEGATRON_MEMORY, report(1))
    assert isinstance(record, Usage)
    assert record.max_memory_reserved_gib is not None
    assert record.max_memory_reserved_gib * 2**30 == 26716 * 2**20


BRIDGE = "[Rank 0] (after 1 iterations) memory (GB) | mem-alloc-retires: 0 | mem-{}: 80.5 | x: 1"
PEAK = Usage(
    source=UsageSource.TORCH,
    iteration=1,
    rank=0,
    max_memory_reserved_gib=80.5e9 / 2**30,
    offset=7,
)


@cases(
    {
        "one number": (BRIDGE.format("max-reserved-gigabytes"), [PEAK]),
        "glued": (BRIDGE.format("max-reserved-gigabytes")[:-4] * 2, [PEAK, PEAK]),
    },
    (
        BRIDGE.format("max-active-gigabytes"),
        BRIDGE.format("max-reserved-gigabytes").removesuffix(" | x: 1"),
        "# " + BRIDGE.format("max-reserved-gigabytes"),
    ),
)
def test_megatron_bridge_prints_numbers_of_10_9_bytes(text: str, records: list[Usage]) -> None:
    """Each number of Megatron-Bridge has a name; numbers that may be torn are left out."""
    assert parse(BRIDGE_MEMORY, text) == records
