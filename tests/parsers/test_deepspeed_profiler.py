"""Parse the summary of DeepSpeed's flops profiler."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from reports import cases, parse

from parsers.formats.deepspeed_profiler import DEEPSPEED_PROFILER
from parsers.records import Record, RunTotals, Timers


def summary(values: dict[str, str]) -> str:
    """Return the profiler's lines with these labels and values."""
    lines = (f"{label + ': ':<70}  {value:<8}" for label, value in values.items())
    return "\n".join(("Profile Summary at step 10:", "Notations:", "", *lines, "", ""))


VALUES = {
    "world size": "8",
    "data parallel size": "8",
    "model parallel size": "1",
    "batch size per GPU": "80",
    "params per gpu": "336.23 M",
    "params of model = params per GPU * mp_size": "336.23 M",
    "fwd MACs per GPU": "3139.93 GMACs",
    "fwd flops per GPU": "6279.86 G",
    "fwd flops of model = fwd flops per GPU * mp_size": "6279.86 G",
    "fwd latency": "76.67 ms",
    "fwd FLOPS per GPU = fwd flops per GPU / fwd latency": "81.9 TFLOPS",
    "bwd latency": "108.02 ms",
    "bwd FLOPS per GPU = 2 * fwd flops per GPU / bwd latency": "116.27 TFLOPS",
    "fwd+bwd FLOPS per GPU = 3 * fwd flops per GPU / (fwd+bwd latency)": "102.0 TFLOPS",
    "step latency": "34.09 us",
    "iter latency": "184.73 ms",
    "FLOPS per GPU = 3 * fwd flops per GPU / iter latency": "101.98 TFLOPS",
    "samples/second": "3464.52",
}
TOTALS = RunTotals(
    world_size=8,
    parameters=336_230_000,
    samples_per_second=3464.52,
    tflops_per_gpu=101.98,
    phase="profiled_step",
    offset=7,
)
TIMERS = Timers(
    seconds=(
        ("fwd latency", 0.07667),
        ("bwd latency", 0.10802),
        ("step latency", 0.00003409),
        ("iter latency", 0.18473),
    ),
    offset=7,
)
WHOLE = summary(VALUES)


def changed(**changes: str) -> str:
    """Return the profiler's summary, with other values for some labels.

    changes: the new values, by label, with `_` in place of each space of a label.
    """
    return summary(VALUES | {label.replace("_", " "): value for label, value in changes.items()})


def of_iteration(flops: str) -> str:
    """Return a profiler's summary with these FLOPs per iteration, e.g. "101.98 TFLOPS"."""
    return WHOLE.replace("101.98 TFLOPS", flops)


SUMMARIES = {
    "whole": (WHOLE, [TOTALS, TIMERS]),
    "carriage returns": (WHOLE.replace("\n", "\r\n"), [TOTALS, TIMERS]),
    "spaces collapsed": (
        "\n".join(" ".join(line.split()) for line in WHOLE.split("\n")),
        [TOTALS, TIMERS],
    ),
    "other ranks' lines between": (WHOLE.replace("\n", "\n[rank1]: step 5\n"), [TOTALS, TIMERS]),
    "recomputed activations": (WHOLE.replace("= 3 *", "= 4 *"), [TOTALS, TIMERS]),
    "with the details behind it": (
        WHOLE + "\n---- Aggregated Profile per GPU ----\nfwd latency: 5 s\n",
        [TOTALS, TIMERS],
    ),
    "before another summary": (
        f"{WHOLE}\n---- DeepSpeed Flops Profiler ----\n{changed(iter_latency='9 s')}",
        [TOTALS, TIMERS],
    ),
    "without an engine": (
        summary(
            {
                "params per gpu": "463.21 M",
                "params of model = params per GPU * mp_size": "1",
                "fwd latency": "12.27 s",
                "fwd FLOPS per GPU = fwd flops per GPU / fwd latency": "39.5 TFLOPS",
            }
        ),
        [Timers(seconds=(("fwd latency", 12.27),), offset=7)],
    ),
    "no engine, but a summary all the same": (summary({"params per GPU": "463.21 M"}), []),
    "a line made of two lines": (
        WHOLE.replace("params per GPU * mp_size", "params per GPUe    rank 10"),
        [replace(TOTALS, parameters=None), TIMERS],
    ),
    "title alone": ("Profile Summary at step 10:", []),
    "title of something else": (WHOLE.replace("step 10", "step ten"), []),
    "no title": (WHOLE.replace("Profile Summary at step 10:", ""), []),
}


@cases(SUMMARIES)
def test_a_summary_gives_totals_and_times_of_the_profiled_step(
    text: str, records: list[Record]
) -> None:
    """A summary gives totals and times, with or without a logger's prefix on its lines.

    Values that the log lacks are None.
    """
    assert parse(DEEPSPEED_PROFILER, text) == records


@pytest.mark.parametrize(
    ("flops", "tflops"),
    [
        ("1.2 PFLOPS", None),
        ("102 TFLOPS", 102.0),
        ("950.5 GFLOPS", 0.9505),
        ("326.19 KFLOPS", 3.2619e-07),
        ("1e+15 FLOPS", 1000.0),
        ("12 FLOPS", 1.2e-11),
        ("inf TFLOPS", None),
        ("102.0 T", None),
        ("", None),
    ],
)
def test_flops_are_read_in_every_unit_that_is_printed(flops: str, tflops: float | None) -> None:
    """FLOPs are read in each unit that the profiler prints; an unknown unit gives None."""
    (totals, _) = parse(DEEPSPEED_PROFILER, of_iteration(flops))
    assert isinstance(totals, RunTotals)
    assert totals.tflops_per_gpu == tflops


@pytest.mark.parametrize(
    ("latency", "seconds"),
    [("20.66 s", 20.66), ("184.73 ms", 0.18473), ("34.09 us", 3.409e-05), ("1.2 Ks", 1200.0)],
)
def test_times_are_read_in_every_unit_that_is_printed(latency: str, seconds: float) -> None:
    """Times are read in each unit that the profiler prints, from us to Ks."""
    (_, timers) = parse(DEEPSPEED_PROFILER, changed(iter_latency=latency))
    assert isinstance(timers, Timers)
    assert dict(timers.seconds)["iter latency"] == seconds


@pytest.mark.parametrize(
    ("printed", "parameters"),
    [
        ("1.25 B", 1_250_000_000),
        ("2.6 G", 2_600_000_000),
        ("4.68 k", 4680),
        ("512", 512),
        ("3101.51", None),
    ],
)
def test_parameters_are_read_in_every_unit_that_is_printed(
    printed: str, parameters: int | None
) -> None:
    """In the number of parameters, the unit B is 10**9; a fraction of a parameter gives None."""
    (totals, _) = parse(DEEPSPEED_PROFILER, WHOLE.replace("336.23 M", printed))
    assert isinstance(totals, RunTotals)
    assert totals.parameters == parameters


PROGRAM = """
import os
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")  # 0: any free port
import deepspeed, torch
from orchestrator.workloads.rank_process import leave
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
config = {
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "wall_clock_breakdown": True,
    "flops_profiler": {"enabled": True, "profile_step": 2},
}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for _ in range(3):
    engine.backward(engine(torch.randn(4, 64)).sum())
    engine.step()
leave(0)
"""


@pytest.mark.train
def test_the_installed_deepspeed_s_summary_is_read(tmp_path: Path) -> None:
    """The summary that the installed DeepSpeed prints about a model of known size is read."""
    pytest.importorskip("deepspeed.utils.timer", exc_type=ImportError)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
    )
    lines = done.stdout.split("\n")
    start = next(number for number, line in enumerate(lines) if "Profile Summary at" in line)
    totals, timers = parse(
        DEEPSPEED_PROFILER, "\n".join(lines[start : start + 1 + DEEPSPEED_PROFILER.following])
    )
    assert isinstance(totals, RunTotals)
    assert isinstance(timers, Timers)
    assert totals.world_size == 1
    assert totals.parameters == 64 * 64 + 64 + 64 * 8 + 8
    seconds = dict(timers.seconds)
    parts = sum(seconds[f"{part} latency"] for part in ("fwd", "bwd", "step"))
    assert parts == pytest.approx(seconds["iter latency"], rel=0.05)
    assert totals.samples_per_second == pytest.approx(4 / seconds["iter latency"], rel=0.05)
