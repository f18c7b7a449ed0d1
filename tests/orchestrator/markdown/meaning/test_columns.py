"""The meanings of column titles in tables that people wrote."""

import pytest

from orchestrator.markdown.meaning.columns import Meaning, read_columns
from orchestrator.markdown.meaning.units import Quantity, Unit

SECONDS = Unit(Quantity.STEP_SECONDS, 1.0)


@pytest.mark.parametrize(
    ("meaning", "titles"),
    [
        (Meaning.PARAMETERS, ["Size", "Model Size", "MSIZE", "#Params", "Parameters"]),
        (Meaning.WORLD_SIZE, ["GPUs", "#GPU", "# GPUs", "NGPUS", "**GPUs**", "World-Size"]),
        (Meaning.GPU, ["GPU", "GPU type", "System", "Hardware"]),
        (Meaning.PRECISION, ["Precision", "dtype"]),
        (Meaning.MODEL, ["Model", "**Models**"]),
        (Meaning.NODES, ["Nodes", "NNODES", "`Nodes`"]),
        (Meaning.GPUS_PER_NODE, ["GPUs/node", "GPUs per node"]),
        (Meaning.GLOBAL_BATCH_SIZE, ["Glob-BS", "GBS", "Global BS", "global_batch_size"]),
        (Meaning.MICRO_BATCH_SIZE, ["Mic-BS", "MBS", "micro batch size"]),
        (Meaning.NUM_MICROBATCHES, ["PP Chunks", "PP chunks", "GAS", "Grad. Acc."]),
        (Meaning.DATA_PARALLEL_SIZE, ["DP", "DP_SIZE"]),
        (Meaning.TENSOR_PARALLEL_SIZE, ["TP", "MP"]),
        (Meaning.PIPELINE_PARALLEL_SIZE, ["PP"]),
        (Meaning.SEQ_LENGTH, ["Seq", "SEQ_LEN", "Sequence length"]),
        (Meaning.NUM_LAYERS, ["NLAYERS", "Layers"]),
        (Meaning.HIDDEN_SIZE, ["NHIDDEN", "hidden_size"]),
        (Meaning.PACE, ["Throughput", "Speed", "Time", "Iteration time", "throuthput"]),
        (
            Meaning.TFLOPS_PER_GPU,
            ["TFlops", "TFLOPs", "**TFlops**", "TFLOPS/GPU", "TFLOP/s/GPU", "TFLOPs (per GPU)"],
        ),
        (
            Meaning.TFLOPS_PER_GPU,
            ["TeraFLOPs", "[TFLOPs](#how)", "TFLOPs[^1]", "TFlops<br>per GPU", "Achieved TFLOPs"],
        ),
        (
            Meaning.MODEL_TFLOPS_PER_GPU,
            [
                "Model TFLOP / sec / GPU",
                "Model TFLOPs/sec/GPU",
                "Model TFLOPs",
                "model TFLOP/s/chip",
            ],
        ),
        (Meaning.REPORTED_TFLOPS, ["Reported TFLOPs", "TFLOPs (logged)", "Megatron TFLOPs"]),
        (Meaning.MFU, ["MFU", "MFU (%)"]),
        (Meaning.HFU, ["HFU"]),
        (Meaning.MEMORY, ["GPU Mem", "Mem"]),
        (Meaning.ID, ["ID", "Nr."]),
        (Meaning.NOTES, ["Notes"]),
        (Meaning.OUTCOME, ["Outcome", "ended"]),
        (None, ["", "BS", "Batch size", "Peak TFLOPs", "Total TFLOPs", "PFLOPs"]),
        (None, ["Opt Offl", "ScatEmb", "Date of TFLOPs", "x" * 200, "[[[", "野"]),
    ],
)
def test_spellings_mean_one_thing(meaning: Meaning | None, titles: list[str]) -> None:
    """A title means the same in any case, with other punctuation, and with markup."""
    assert [column.meaning for column in read_columns(titles)] == [meaning] * len(titles)


@pytest.mark.parametrize(
    ("title", "unit"),
    [
        ("Throughput", None),
        ("Throughput (s)", SECONDS),
        ("Throughput [ms]", Unit(Quantity.STEP_SECONDS, 1e-3)),
        ("Iteration time, s", SECONDS),
        ("Step time", SECONDS),
        ("Time (epochs)", None),
        ("Sec/it", SECONDS),
        ("s per iteration", SECONDS),
        ("samples/s", Unit(Quantity.SAMPLES_PER_SECOND, 1.0)),
        ("throuthput(sample/sec)", Unit(Quantity.SAMPLES_PER_SECOND, 1.0)),
        ("Speed (samples/min)", Unit(Quantity.SAMPLES_PER_SECOND, 1 / 60)),
        ("tokens/s/GPU", Unit(Quantity.TOKENS_PER_SECOND, 1.0, per_gpu=True)),
        ("tok/GPU/s", Unit(Quantity.TOKENS_PER_SECOND, 1.0, per_gpu=True)),
        ("it/s", Unit(Quantity.ITERATIONS_PER_SECOND, 1.0)),
    ],
)
def test_a_title_names_the_unit_of_speed(title: str, unit: Unit | None) -> None:
    """The title of a column of speeds gives their unit.

    Without a unit in the title, a time is in seconds, and the unit of a throughput is unknown.
    """
    (column,) = read_columns([title])
    assert column.meaning is Meaning.PACE
    assert column.unit == unit


def test_a_title_names_the_unit_of_sizes() -> None:
    """A column titled `Size (M)` has sizes in millions."""
    scales = [column.unit and column.unit.scale for column in read_columns(["Size (M)", "Size"])]
    assert scales == [1e6, None]


OURS = ["samples/s (avg)", "samples/s (last)", "step mean (s)", "median (s)", "spread (s)", "n"]


def test_a_report_of_ours_shows_its_median_first() -> None:
    """In a teralog report, the column of medians gives the step time, or else the column of means.

    If the table has neither column, the step time follows from a rate.
    """
    columns = [column for column in read_columns(OURS) if column.meaning is Meaning.PACE]
    columns.sort(key=lambda column: column.rank)
    assert [column.title for column in columns] == [
        *("median (s)", "step mean (s)", "samples/s (avg)", "samples/s (last)")
    ]
    assert [column.unit for column in columns[:2]] == [SECONDS, SECONDS]
    assert [column.meaning for column in read_columns(OURS)[-2:]] == [Meaning.STATISTIC] * 2


@pytest.mark.parametrize("titles", [["median (s)", "n", "spread (s)"], ["n", "GPUs"]])
def test_elsewhere_its_titles_may_mean_anything(titles: list[str]) -> None:
    """A title such as `n` has a special meaning in teralog reports, but not in other tables."""
    assert {column.meaning for column in read_columns(titles)} <= {None, Meaning.WORLD_SIZE}
    assert {column.rank for column in read_columns(titles)} == {0}


def test_a_peak_in_a_unit_of_memory_is_memory() -> None:
    """A column titled `peak` means memory only if the title has a unit of memory."""
    meanings = [column.meaning for column in read_columns(["peak (GiB)", "Peak [MB]", "peak"])]
    assert meanings == [Meaning.MEMORY, Meaning.MEMORY, None]
