"""What the benchmark of ColossalAI's Chat application prints, in both forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.colossalai import COLOSSALAI_MODELS, COLOSSALAI_THROUGHPUT
from parsers.records import Record, RunTotals
from parsers.scan.reader import decode


def parse(line: str) -> list[Record]:
    """Return the records of a line of the summary that starts at byte 7."""
    return list(COLOSSALAI_THROUGHPUT.parse(7, decode(line.encode())))


def models(*lines: str) -> list[Record]:
    """Return the records of the models' lines, of which the first starts at byte 7."""
    return list(COLOSSALAI_MODELS.parse(7, decode("\n".join(lines).encode())))


MAKE = "Making experience throughput: 1.234 samples/sec, TFLOPS: 5.678"
LEARN = "Learning throughput: 0.120 samples/sec, TFLOPS: 30.400"
GENERATE = "Generate 512 samples, throughput: 9.87 samples/s, TFLOPS per GPU: 5.68"
TRAIN = "Train 256 samples, throughput: 0.96 samples/s, TFLOPS per GPU: 30.40"
OVERALL = "Overall throughput: 0.75 samples/s"
PEAK = "Peak CUDA mem: 12.34 GB"

MAKE_TOTALS = RunTotals(
    phase="make_experience", samples_per_second=1.234, tflops_per_gpu=5.678, per_gpu=True, offset=7
)
LEARN_TOTALS = RunTotals(
    phase="learn", samples_per_second=0.12, tflops_per_gpu=30.4, per_gpu=True, offset=7
)
GENERATE_TOTALS = RunTotals(
    phase="make_experience", samples_per_second=9.87, tflops_per_gpu=5.68, offset=7
)
TRAIN_TOTALS = RunTotals(phase="learn", samples_per_second=0.96, tflops_per_gpu=30.4, offset=7)

LINES = {
    "0.2.8: of one GPU, experience": (MAKE, [MAKE_TOTALS]),
    "0.2.8: of one GPU, learning": (LEARN, [LEARN_TOTALS]),
    "0.3.0: of all GPUs, experience": (GENERATE, [GENERATE_TOTALS]),
    "0.3.0: of all GPUs, learning": (TRAIN, [TRAIN_TOTALS]),
    "0.3.0: overall": (OVERALL, [RunTotals(phase="overall", samples_per_second=0.75, offset=7)]),
    "peak": (PEAK, [RunTotals(max_memory_allocated_gib=12.34, offset=7)]),
    "glued": (MAKE + LEARN, [MAKE_TOTALS, LEARN_TOTALS]),
    "glued, in the newer form": (GENERATE + TRAIN, [GENERATE_TOTALS, TRAIN_TOTALS]),
    "torn by another": (MAKE[:40] + LEARN, [LEARN_TOTALS]),
    "rank label": ("[rank0]: " + TRAIN, [TRAIN_TOTALS]),
    "behind a bar": ("Train epoch: 100%|███| 3/3 [00:09<00:00, 3.1s/it]" + MAKE, [MAKE_TOTALS]),
}

NO_RECORDS = (
    "",
    "#   " + OVERALL,  # quoted in a script
    "Performance summary:",
    "Overall time per sample: 1.33 s",
    "Make experience time per sample: 0.52 s, 39.10%",
    "Overall throughput: 12.30 samples/sec/GPU",
    "Overall throughput: 12.30 MB/s",
    "Overall throughput: 12 samples/s",
    "Training throughput: 1.234 samples/sec, TFLOPS: 5.678",
    "step: 10, loss: 9.725, throughput: 239.123 1607414400.123",
    MAKE.replace("sec,", "s,"),
    MAKE.replace("5.678", "5.6789"),
    MAKE.replace("5.678", "nan"),
    GENERATE.replace("512", "N"),
    "Peak CUDA mem: 12.34 MB",
    "Peak CUDA mem: 12.34",
    PEAK[:-1],
)


@pytest.mark.parametrize(("line", "records"), LINES.values(), ids=LINES.keys())
def test_a_line_of_the_summary_says_of_what_it_is(line: str, records: list[Record]) -> None:
    """Which phase, and whether of one GPU or of all."""
    assert parse(line) == records


@pytest.mark.parametrize("line", NO_RECORDS)
def test_what_is_no_summary_is_no_record(line: str) -> None:
    """Torn lines, other units, other programs' words."""
    assert parse(line) == []


@pytest.mark.parametrize("line", [MAKE, LEARN, GENERATE, TRAIN, OVERALL, PEAK])
def test_a_line_cut_anywhere_is_no_record(line: str) -> None:
    """The last number is told from a shorter one by its decimals."""
    for end in range(len(line)):
        assert parse(line[:end]) == []


MODELS = ("Actor: 118.68 M", "Critic: 1.50 B", "Initial model: 512.00 K", "Reward model: 2.00 M")
SIZES = [
    RunTotals(phase="actor", parameters=124445000, offset=7),
    RunTotals(phase="critic", parameters=3 * 2**29, offset=7),
    RunTotals(phase="initial_model", parameters=2**19, offset=7),
    RunTotals(phase="reward_model", parameters=2**21, offset=7),
]

MODEL_LINES = {
    "four lines": (MODELS, SIZES),
    "labelled": (tuple(f"0: {line}" for line in MODELS), SIZES),
    "cut": ((*MODELS[:2], MODELS[2][:-1]), SIZES[:2]),
    "followed by others": ((MODELS[0], "Loading", "Actor loss: 1.50 M"), SIZES[:1]),
    "said again": ((MODELS[0], MODELS[1], MODELS[0]), SIZES[:2]),
    "another unit": (("Actor: 118.68 MB", "Critic: 1 Mio"), []),
    "no unit": (("Actor: 118.68", "Actor: 5 ", "Actor: M"), []),
    "another word": (("TheActor: 118.68 M", "Actor 118.68 M"), []),
    "no number": (("Actor: nan M", "Actor: inf B", "Actor: 9e99 B"), []),
}


@pytest.mark.parametrize(("lines", "records"), MODEL_LINES.values(), ids=MODEL_LINES.keys())
def test_a_model_s_size_is_in_powers_of_1024(lines: tuple[str, ...], records: list[Record]) -> None:
    """The actor's line comes first, the others behind it."""
    assert models(*lines) == records


before = st.sampled_from(("", "0: ", "[rank0]: ", "[default7]:", "\x1b[92m", "50%|██ | 1/2\r"))


@given(
    samples=st.integers(0, 10**9),
    tflops=st.integers(0, 10**9),
    phase=st.sampled_from(("make_experience", "learn")),
    before=before,
)
def test_a_printed_throughput_is_read_back(
    samples: int, tflops: int, phase: str, before: str
) -> None:
    """In both forms, three decimals or two."""
    words = {"make_experience": ("Making experience", "Generate"), "learn": ("Learning", "Train")}
    rate, speed = samples / 1000, tflops / 1000
    assert parse(
        f"{before}{words[phase][0]} throughput: {rate:.3f} samples/sec, TFLOPS: {speed:.3f}\r"
    ) == [
        RunTotals(
            phase=phase, samples_per_second=rate, tflops_per_gpu=speed, per_gpu=True, offset=7
        )
    ]
    rate, speed = samples / 100, tflops / 100
    assert parse(
        f"{before}{words[phase][1]} 8 samples, throughput: {rate:.2f} samples/s,"
        f" TFLOPS per GPU: {speed:.2f}\x1b[0m"
    ) == [RunTotals(phase=phase, samples_per_second=rate, tflops_per_gpu=speed, offset=7)]


@given(parameters=st.integers(2**10, 10**12), before=before)
def test_a_printed_size_is_read_back(parameters: int, before: str) -> None:
    """To the two decimals that are printed."""
    unit, size = next(
        (unit, size)
        for unit, size in (("B", 2**30), ("M", 2**20), ("K", 2**10))
        if parameters >= size
    )
    (totals,) = models(f"{before}Actor: {parameters / size:.2f} {unit}\r")
    assert isinstance(totals, RunTotals)
    assert totals.parameters is not None
    assert abs(totals.parameters - parameters) <= 0.005 * size + 1
