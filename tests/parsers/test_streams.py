"""Parse logs of OLMo-core and of tools built on Hugging Face's Trainer, and JSON metrics."""

import io
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from parsers.records import LossReport, OutcomeKind, Step
from parsers.runs.reading import read
from parsers.runs.run import LogRun
from parsers.summary.launches import Configured
from parsers.summary.run import summarise
from parsers.summary.warmup import Warmup

NONE = Warmup.parse("none")


def run_of(*lines: str) -> LogRun:
    """Return the only run of a log."""
    (run,) = read(io.BytesIO("".join(f"{line}\n" for line in lines).encode()))
    return run


LOGGER = "n1:0 olmo_core.train.callbacks.console_logger:67 INFO"
OLMO = (
    "2026-06-22 19:07:40.001 n1:0 olmo_core.train.trainer:719 INFO Training for 3 steps",
    f"2026-06-22 19:07:43.123 {LOGGER} [step=1/3,epoch=1]",
    "    gpu_memory/GPU active mem (GiB)=41.25",
    "    gpu_memory/GPU reserved mem (GiB)=44.50",
    "    optim/total grad norm=2.500",
    "    throughput/device/data loading (s)=0.0021",
    "    train/CE loss=11.25",
    f"2026-06-22 19:07:45.001 {LOGGER} [step=2/3,epoch=1,eta=1s]",
    "    gpu_memory/GPU active mem (GiB)=42.75",
    "    throughput/device/TPS=10,123",
    "    throughput/device/TPS (actual avg)=9,876",
    "    throughput/device/flopsPS=412.5T",
    "    throughput/device/MFU=41.71",
    "    throughput/device/MFU (actual avg)=40.10",
    "    throughput/total tokens=1.049B",
    "    train/CE loss=10.50",
    f"2026-06-22 19:07:46.001 {LOGGER} [step=3/3,epoch=1]",
    "2026-06-22 19:07:47.001 n1:0 olmo_core.train.trainer:764 INFO Training complete",
)


def test_olmo_core_reports_the_metrics_below_each_header() -> None:
    """A step has the metrics below its header, without averages since the start.

    A header without metrics gives no step.
    """
    run = run_of(*OLMO)
    assert [step.iteration for step in run.steps] == [1, 2]
    first, second = run.steps
    assert (first.loss, first.grad_norm, first.max_memory_reserved_gib) == (11.25, 2.5, 44.5)
    assert first.tokens_per_second_per_gpu is None
    assert (second.tokens_per_second_per_gpu, second.reported_mfu) == (10123.0, 0.4171)
    assert second.reported_tflops_per_gpu == 412.5
    run_summary = summarise(run, NONE)
    assert run_summary.peak_memory_gib == 42.75
    assert run_summary.outcome.kind is OutcomeKind.COMPLETED


def test_nemo_rl_counts_its_steps_by_their_times() -> None:
    """Each total step time of NeMo-RL gives a step; times of the step's phases do not."""
    run = run_of(
        "  • Total step time: 12.34s",
        "  • policy_training: 8.45s (68.5%)",
        "  • Total step time: 11.25s",
    )
    assert [(step.iteration, step.step_seconds) for step in run.steps] == [(1, 12.34), (2, 11.25)]


@pytest.mark.parametrize(
    ("line", "interval"),
    [
        ("Step Time : {:.2f}s GPU utilization: 49.3TFLOP/s/GPU", None),
        ("  • Total step time: {:.2f}s", 1),
        (':::MLLOG {{"key": "tracked_stats", "value": {{"train_step_time": {}}}}}', None),
    ],
)
def test_a_report_without_an_iteration_number_is_marked(line: str, interval: int | None) -> None:
    """The iteration of such a report is a count; the iterations of its mean are often unknown."""
    run = run_of(*(line.format(time) for time in (14.25, 16.75, 15.5)))
    assert [
        (step.iteration, step.step_seconds, step.unnumbered, step.log_interval)
        for step in run.steps
    ] == [(1, 14.25, True, interval), (2, 16.75, True, interval), (3, 15.5, True, interval)]


BRIDGE = "Step Time : {:.2f}s GPU utilization: {}MODEL_TFLOP/s/GPU"
MEGATRON = (
    " [2026-01-02 03:04:05] iteration {:8}/      50 | elapsed time per iteration (ms): {:.1f} |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)


def test_tflops_of_megatron_bridge_belong_to_megatrons_next_report() -> None:
    """A line of Megatron-Bridge adds TFLOPs to the report after it if both step times agree."""
    run = run_of(
        *(BRIDGE.format(9.19, 656.5), "", MEGATRON.format(1, 9189.0)),
        MEGATRON.format(2, 9189.0),
        *(BRIDGE.format(9.09, 663.5), MEGATRON.format(3, 8089.0)),
        *(BRIDGE.format(9.09, 670.5), BRIDGE.format(9.09, 663.5), MEGATRON.format(4, 9089.0)),
        *(BRIDGE.format(9.09, 0.0), MEGATRON.format(5, 9089.0)),
        BRIDGE.format(9.09, 663.5),
    )
    assert [step.iteration for step in run.steps] == [1, 2, 3, 4, 5]
    assert [step.step_seconds for step in run.steps] == [9.189, 9.189, 8.089, 9.089, 9.089]
    tflops = [step.reported_tflops_per_gpu for step in run.steps]
    assert tflops == [656.5, None, None, 663.5, None]


MLLOG = ':::MLLOG {{"key": "tracked_stats", "value": {{{}}}, "metadata": {{{}}}}}'
MLPERF_INTERVALS = {
    "v5.0": (
        MLLOG.format('"throughput": 9.0, "train_step_time": 8.5, "max_memory": 9', '"step": 0'),
        MLLOG.format('"throughput": 9.5, "train_step_time": 8.25, "max_memory": 9', '"step": 32'),
    ),
    "v5.1": (
        MLLOG.format('"train_step_time": 8.5', '"samples_count": 32'),
        MLLOG.format('"train_step_time": 8.25', '"samples_count": 32'),
    ),
}


@pytest.mark.parametrize("intervals", MLPERF_INTERVALS.values(), ids=MLPERF_INTERVALS)
def test_mlperf_means_between_validations_count_if_nothing_else_does(
    intervals: tuple[str, str],
) -> None:
    """MLPerf's means between two validations are steps only if the log has no times of steps."""
    run = run_of(*intervals)
    assert [(step.iteration, step.step_seconds) for step in run.steps] == [(1, 8.5), (2, 8.25)]
    first, second = intervals
    run = run_of(
        *(
            MLLOG.format('"train_step_time": 8.75', f'"step": {step}.0, "samples_count": 9')
            for step in (16, 32)
        ),
        first,
        *(
            MLLOG.format('"train_step_time": 8.0', f'"step": {step}.0, "samples_count": 9')
            for step in (48, 64)
        ),
        second,
    )
    assert [(step.iteration, step.step_seconds, step.covered) for step in run.steps] == [
        (16, 8.75, None),
        (32, 8.75, None),
        (32, 8.5, True),
        (48, 8.0, None),
        (64, 8.0, None),
        (64, 8.25, True),
    ]
    summary = summarise(run, NONE)
    assert (summary.reports, summary.covered, summary.step_seconds.n) == (6, 2, 4)
    assert summary.step_seconds.mean == pytest.approx(8.375)


GLOBAL_BATCH = ':::MLLOG {{"key": "global_batch_size", "value": {}, "metadata": {{}}}}'


def test_the_global_batch_shows_the_unit_of_mlperf_s_throughput() -> None:
    """A throughput of too many batches per second is in tokens/s, and about the whole run.

    A throughput next to a step time, without a step or of 0 is not read.
    """
    run = run_of(
        GLOBAL_BATCH.format(32),
        MLLOG.format('"throughput": 24.5', '"step": 12288'),
        MLLOG.format('"throughput": 25.5', '"step": 24576'),
        MLLOG.format('"throughput": 26.5', '"samples_count": 24576'),
        MLLOG.format('"throughput": 0.0', '"step": 24576'),
    )
    assert [(step.iteration, step.samples_per_second) for step in run.steps] == [
        (1, 24.5),
        (2, 25.5),
    ]
    run = run_of(
        GLOBAL_BATCH.format(2048),
        MLLOG.format('"train_step_timing": 12.5', '"step": 4194304'),
        MLLOG.format('"throughput": 313400.5', '"step": 4194304'),
        MLLOG.format('"throughput": 9.5, "train_step_time": 12.5', '"step": 0'),
    )
    assert [(step.step_seconds, step.covered) for step in run.steps] == [(12.5, None), (12.5, True)]
    assert not any(step.tokens_per_second for step in run.steps)
    assert [total.tokens_per_second for total in run.totals] == [313400.5]


SEQUENCE = ':::MLLOG {{"key": "max_sequence_length", "value": {}, "metadata": {{}}}}'


@pytest.mark.parametrize(
    ("lines", "counts", "iterations"),
    [
        ((GLOBAL_BATCH.format(16), SEQUENCE.format(32)), (512, 1536, 1024, 512), [1, 2, 3]),
        ((GLOBAL_BATCH.format(16), SEQUENCE.format(32)), (512, 528, 1024), [32, 33, 64]),
        ((GLOBAL_BATCH.format(16), SEQUENCE.format(32)), (0, 160), [0, 10]),
        ((GLOBAL_BATCH.format(16), SEQUENCE.format(32)), (512, 1023), None),
        ((GLOBAL_BATCH.format(16),), (512, 1024), None),
        ((SEQUENCE.format(32),), (512, 1024), None),
        ((), (512, 1024), None),
    ],
)
def test_steps_of_mlperf_that_count_samples_or_tokens_become_iterations(
    lines: tuple[str, ...], counts: tuple[int, ...], iterations: list[int] | None
) -> None:
    """If the unit of the count is not known, or does not fit, the reports are numbered from 1."""
    report = '"train_step_time": 12.5'
    run = run_of(*lines, *(MLLOG.format(report, f'"step": {count}') for count in sorted(counts)))
    numbered = iterations is not None
    assert [step.iteration for step in run.steps] == (iterations or [1, 2])
    assert {step.unnumbered for step in run.steps} == {None if numbered else True}
    assert summarise(run, Warmup(iterations=1)).dropped == (1 if iterations != [32, 33, 64] else 0)
    given = MLLOG.format(report, '"step": 31.0, "samples_count": 512')
    assert [step.iteration for step in run_of(*lines, given).steps] == [31]


@pytest.mark.parametrize(("batch", "n", "mean"), [(None, 0, None), (64, 1, 2.0)])
def test_a_throughput_of_mlperf_counts_with_the_batch_that_the_user_gives(
    batch: int | None, n: int, mean: float | None
) -> None:
    """If the log does not contain the global batch, the unit of its throughput is unknown."""
    run = run_of(
        MLLOG.format('"throughput": 30.0', '"step": 12288'),
        MLLOG.format('"throughput": 32.0', '"step": 24576'),
    )
    assert not run.steps
    summary = summarise(run, Warmup(rule="first"), configured=Configured(global_batch_size=batch))
    assert (summary.step_seconds.n, summary.step_seconds.mean) == (n, mean)
    assert summary.rates_without_unit is not bool(batch)


def test_a_throughput_of_mlperf_in_tokens_counts_with_the_batch_that_the_user_gives() -> None:
    """A rate of too many batches per second is in tokens/s, also if the user gives the batch."""
    run = run_of(MLLOG.format('"throughput": 313400.5', '"step": 4194304'))
    summary = summarise(run, NONE, configured=Configured(global_batch_size=2048))
    assert (summary.reports, summary.tokens_per_second) == (0, 313400.5)


RUN = ':::MLLOG {{"time_ms": {}, "key": "{}", "value": null, "metadata": {{}}}}'


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ([(1759673324706, "run_start"), (1759673924723, "run_stop")], [600.017]),
        ([(1000, "run_start"), (2000, "run_start"), (4500, "run_stop")], [2.5]),
        ([(2000, "run_start"), (1000, "run_stop")], []),
        ([(2000, "run_start")], []),
        ([(2000, "run_stop")], []),
        ([("null", "run_start"), (2000, "run_stop")], []),
        ([(1000, "init_start"), (2000, "run_stop")], []),
    ],
)
def test_the_time_of_a_run_by_mlperf_s_rules_is_that_between_two_events(
    lines: list[tuple[object, str]], seconds: list[float]
) -> None:
    """The time of the training is that from the last `run_start` to `run_stop`."""
    run = run_of(*(RUN.format(time, key) for time, key in lines))
    assert [total.train_seconds for total in run.totals] == seconds


def test_a_rounded_count_of_tokens_is_absent() -> None:
    """OLMo-core may round a count of tokens to billions, and a torn line may lack the letter B."""
    head = f"{LOGGER} [step=3/9,epoch=1]\n    throughput/total tokens="
    for count in ("1.234B", "1.234"):
        run = run_of(f"{head}{count}", "    train/CE loss=2.345")
        assert [step.consumed_tokens for step in run.steps] == [None]


def test_olmo_has_other_names_for_its_metrics() -> None:
    """The metrics of the first OLMo are read: memory in 10**6 bytes, losses with an exponent."""
    run = run_of(
        "2024-08-06 10:00:05.520 n1:0 olmo.train:908 INFO [step=2/73,epoch=0]",
        "    optim/total_grad_norm=0.0002",
        "    train/CrossEntropyLoss=1.5e-06",
        "    throughput/total_tokens=2,097,152",
        "    throughput/device/tokens_per_second=26,667",
        "    System/Peak GPU Memory (MB)=2,048",
        "2024-08-06 10:00:06.520 n1:0 olmo.train:908 INFO saved",
    )
    (step,) = run.steps
    assert (step.loss, step.grad_norm, step.consumed_tokens) == (1.5e-06, 0.0002, 2097152)
    assert step.tokens_per_second_per_gpu == 26667.0
    assert step.max_memory_allocated_gib == pytest.approx(2.048e9 / 2**30)


@pytest.mark.parametrize("eta", ["1 day, 2h3m", "1h2m(hard stop)"])
def test_the_remaining_time_of_olmo_core_is_any_text(eta: str) -> None:
    """The remaining time on the line with the step may contain spaces."""
    run = run_of(
        f"2026-06-22 19:07:45.001 {LOGGER} [step=2/3,epoch=1,eta={eta}]",
        "    train/CE loss=10.50",
        "2026-06-22 19:07:46.001 n1:0 olmo_core.train.trainer:764 INFO saved",
    )
    assert [(step.iteration, step.loss) for step in run.steps] == [(2, 10.5)]


def test_early_olmo_prints_no_epoch() -> None:
    """The line with the step may lack the epoch, as in OLMo's logs of early 2024."""
    run = run_of(
        "[2024-04-18 19:06:17] INFO     [olmo.train:816, rank=0] [step=75/900]",
        "    train/CrossEntropyLoss=7.417",
        "    throughput/device/tokens_per_second=9,407",
        "[2024-04-18 19:10:41] INFO     [olmo.train:820, rank=0] saved",
    )
    (step,) = run.steps
    assert (step.iteration, step.iterations, step.loss) == (75, 900, 7.417)
    assert step.tokens_per_second_per_gpu == 9407.0


@pytest.mark.parametrize(("printed", "tokens"), [("52,428,800", 52428800), ("1.049B", None)])
def test_a_rounded_count_of_olmo_core_is_absent(printed: str, tokens: int | None) -> None:
    """A count with a letter is rounded and is not read; a count without a letter is exact."""
    run = run_of(
        f"2026-06-22 19:07:45.001 {LOGGER} [step=2/3,epoch=1]",
        f"    throughput/total tokens={printed}",
        "    train/CE loss=10.50",
        "2026-06-22 19:07:46.001 n1:0 olmo_core.train.trainer:764 INFO saved",
    )
    assert [step.consumed_tokens for step in run.steps] == [tokens]


def test_composer_counts_batches_of_an_epoch_apart() -> None:
    """A report of Composer that counts the batches of an epoch, not of the run, gives no step.

    A metric that is not a number does not end a report.
    """
    run = run_of(
        "[batch=2/9]:",
        "\t Train image: <Image object at 0x7>",
        "\t Train loss/train/total: 2.5000",
        "\t Train throughput/device/mfu: 0.4321",
        "[epoch=1][batch=3/9]:",
        "\t Train loss/train/total: 2.2500",
    )
    (step,) = run.steps
    assert (step.iteration, step.iterations, step.loss, step.reported_mfu) == (2, 9, 2.5, 0.4321)


@pytest.mark.parametrize(("printed", "loss"), [("inf", math.inf), ("1e999", None), ("2.5", 2.5)])
def test_a_number_too_large_for_a_float_is_not_inf(printed: str, loss: float | None) -> None:
    """A loss of inf is read as inf; a mangled number that is too large is left out."""
    run = run_of("step: 3", f"loss: {printed}", "current step time: 0.5", "tokens seen: 9")
    assert [step.loss for step in run.steps] == [loss]


def test_a_step_of_fms_fsdp_has_a_time() -> None:
    """Lines like those of fms-fsdp, but without the step time, are of another program."""
    report = ("step: 3", "loss: 2.5", "allocated memory: 1073741824", "current step time: 0.5")
    assert run_of(*report[:-1], "current").steps == []
    (step,) = run_of(*report, "completed step: 4").steps
    assert (step.iteration, step.loss, step.max_memory_allocated_gib) == (3, 2.5, 1.0)


@pytest.mark.parametrize(
    "head", ["[epoch=2][batch=3/40]:", "[epoch=1][batch=3]:", "[token=4096/65536]:"]
)
def test_composer_prints_the_number_of_earlier_batches(head: str) -> None:
    """If the head does not contain the step, the step is one more than `time/batch`."""
    run = run_of(
        head,
        "\t Train time/batch: 42",
        "\t Train loss/train/total: 2.5000",
        "\t Train lr-DecoupledAdamW/group0: 0.0001",
    )
    (step,) = run.steps
    assert (step.iteration, step.iterations, step.loss) == (43, None, 2.5)


@pytest.mark.parametrize(
    "label",
    [
        *("main-1  | ", "[trainer0|0]:", "[pod/train-0/main] "),
        *("2026-08-23T21:52:39.473123456Z ", "[2026-08-23 21:52:39] ", "[2026-08-23T21:52:39] 0: "),
        *("2026-08-23 21:52:39,473 - INFO - ", "1787521959.473 ", "Aug 23 21:52:39 n1 python[7]: "),
        *(
            "train-worker-0 main ",
            '2026-08-23T21:52:39Z {pod="train-0"} ',
            "7\t",
            "[INFO] [a.py:1] ",
        ),
    ],
)
@pytest.mark.parametrize(
    "lines",
    [
        ("[batch=5/9]:", "\t Train time/batch: 4", "\t Train loss/train/total: 2.5000"),
        (f"{LOGGER} [step=5/9,epoch=1]", "    train/CE loss=2.500", "    train/PPL=12.18"),
        ("{'loss': 2.5, 'epoch': 0.5}", " 55%|█████     | 5/9 [00:01<00:01,  4.2it/s]"),
        ('{"current_steps": 5, "total_steps": 9, "loss": 2.5}',),
    ],
    ids=["Composer", "OLMo-core", "Hugging Face Trainer", "LLaMA-Factory"],
)
def test_a_collector_of_logs_may_label_each_line(label: str, lines: tuple[str, ...]) -> None:
    """The labels that docker compose, torchx, kubectl and others write before lines are skipped."""
    (step,) = run_of(*(f"{label}{line}" for line in lines)).steps
    assert (step.iteration, step.iterations, step.loss) == (5, 9, 2.5)


AXOLOTL = {
    "axolotl of 2026": (
        (
            "{'loss': '1.2', 'grad_norm': '0.5', 'learning_rate': '2e-05', 'ppl': '3.32', "
            "'memory/max_active (GiB)': '20.1', 'memory/max_allocated (GiB)': '20.25', "
            "'memory/device_reserved (GiB)': '24.5', 'tokens/train_per_sec_per_gpu': '1234.5', "
            "'tokens/total': '8192', 'epoch': '0.01'}"
        ),
        (1234.5, 20.25, 24.5),
    ),
    "axolotl of 2025": (
        (
            "{'loss': 1.2, 'grad_norm': 0.5, 'learning_rate': 2e-05, "
            "'memory/max_mem_active(gib)': 20.1, 'memory/max_mem_allocated(gib)': 20.25, "
            "'memory/device_mem_reserved(gib)': 24.5, "
            "'tokens_per_second_per_gpu': 1234.5, 'epoch': 0.01}"
        ),
        (1234.5, 20.25, 24.5),
    ),
    "optimum-habana": (
        (
            "{'loss': 1.2, 'learning_rate': 2e-05, 'epoch': 0.01, 'memory_allocated (GB)': 3.75, "
            "'max_memory_allocated (GB)': 20.25, 'total_memory_available (GB)': 94.62}"
        ),
        (None, 20.25, None),
    ),
    "LLaMA-Factory": (
        "{'loss': 1.2, 'learning_rate': 2e-05, 'epoch': 0.01, 'throughput': 1234.5}",
        (None, None, None),
    ),
    "TRL": (
        (
            "{'loss': 1.2, 'grad_norm': 0.5, 'learning_rate': 2e-05, 'num_tokens': 8192.0, "
            "'mean_token_accuracy': 0.7, 'step_time': 3.5, 'epoch': 0.01}"
        ),
        (None, None, None),
    ),
}


@pytest.mark.parametrize(("line", "expected"), AXOLOTL.values(), ids=AXOLOTL)
def test_keys_of_integrations_are_read_with_and_without_a_bar(
    line: str, expected: tuple[float | None, ...]
) -> None:
    """Throughput and memory that axolotl adds to the Trainer's reports are read.

    LLaMA-Factory's throughput is not read as a rate, because it is a mean since the start. TRL's
    step time is not read, because it does not include the update of the weights.
    """
    names = ("tokens_per_second_per_gpu", "max_memory_allocated_gib", "max_memory_reserved_gib")
    (report,) = run_of(line).records
    assert isinstance(report, LossReport)
    assert tuple(getattr(report, name) for name in names) == expected
    (step,) = run_of(line, "  1%|          | 1/100 [00:05<08:00,  5.00s/it]").steps
    assert (step.iteration, step.step_seconds) == (1, None)
    assert tuple(getattr(step, name) for name in names) == expected


def test_rounded_counts_of_tokens_are_ignored() -> None:
    """Token counts that the Trainer rounds to four digits, since 5.0, are ignored."""
    line = "{{'loss': '1.2', 'num_tokens': '{}', 'epoch': '0.01'}}"
    bar = "  1%|          | 1/100 [00:05<08:00,  5.00s/it]"
    tokens = [
        run_of(line.format(text), bar).steps[0].consumed_tokens for text in ("8192", "1.234e+05")
    ]
    assert tokens == [8192, None]


def swift(step: int, speed: float, elapsed: str) -> dict[str, Any]:
    """Return a report of ms-swift."""
    return {
        "loss": 1.5,
        "epoch": 0.1,
        "global_step/max_steps": f"{step}/40",
        "elapsed_time": elapsed,
        "memory(GiB)": 20.5,
        "train_speed(s/it)": speed,
    }


SWIFT = (swift(10, 3.0, "30s"), swift(20, 2.5, "50s"), swift(40, 2.25, "1m 30s"))


@pytest.mark.parametrize("as_json", [True, False])
def test_mean_speeds_since_the_start_give_the_time_of_each_interval(as_json: bool) -> None:
    """If a program prints mean speeds since the start, step times are computed from two reports.

    In the test, 10, 10 and 20 steps take 30, 20 and 40 seconds. So the second and the third report
    have a step time of 2 s. The first report has none.
    """
    lines = [json.dumps(values) if as_json else str(values) for values in SWIFT]
    run_summary = summarise(run_of(*lines), NONE)
    assert [report.step_seconds for report in run_summary.reported] == [None, 2.0, 2.0]
    assert run_summary.outcome.kind is OutcomeKind.COMPLETED
    assert run_summary.peak_memory_gib == 20.5


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"train_speed(iter/s)": 0.25, "global_step": 5}, (5, None)),
        ({"global_step/max_steps": "5/40", "percentage": "12.50%"}, (5, 40)),
    ],
)
def test_older_releases_of_swift_print_fewer_keys(
    keys: dict[str, Any], expected: tuple[int, int | None]
) -> None:
    """In ms-swift's logs of 2024, the number of steps or the speed may be missing."""
    values = {"loss": 1.5, "learning_rate": 1e-05, "epoch": 0.1, **keys}
    (step,) = run_of(json.dumps(values)).steps
    assert (step.iteration, step.iterations) == expected
    assert step.loss == 1.5


def test_the_result_in_json_lines_is_that_of_the_run() -> None:
    """The last object of ms-swift contains the result of Hugging Face's Trainer."""
    result = {name: value for name, value in SWIFT[-1].items() if name != "loss"}
    result |= {"train_runtime": 90.0, "train_samples_per_second": 2.363}
    lines = [json.dumps(values) for values in (*SWIFT, result | {"train_steps_per_second": 0.444})]
    run_summary = summarise(run_of(*lines), NONE)
    assert run_summary.samples_per_second == 2.363
    assert run_summary.reports == 3
    assert run_summary.outcome.kind is OutcomeKind.COMPLETED


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([(30, 3.0, "30s"), (40, 2.5, "50s")], [None, None]),
        ([(30, 5.1, "51s"), (40, 4.75, "1m 36s")], [51.0, 95.0]),
    ],
    ids=["short steps", "long steps"],
)
def test_mean_speeds_of_a_resumed_training(
    reports: list[tuple[int, float, str]], expected: list[float | None]
) -> None:
    """If a training continues from a checkpoint, mean speeds cover only the steps after it.

    But the step number counts all steps. Only if steps are long, the printed time shows how many
    of them were done.
    """
    lines = [json.dumps(swift(*report)) for report in reports]
    steps = run_of(*lines).steps
    assert [step.train_seconds for step in steps] == pytest.approx(expected)


def test_llama_factory_has_its_tokens_over_its_seconds() -> None:
    """LLaMA-Factory's tokens divided by its throughput give the time since the start.

    This time is more precise than the elapsed time that the program prints.
    """
    lines = [
        json.dumps(
            {
                "current_steps": step,
                "total_steps": 20,
                "loss": 1.0,
                "lr": 2e-5,
                "epoch": 0.1,
                "elapsed_time": clock,
                "throughput": rate,
                "total_tokens": tokens,
            }
        )
        for step, clock, rate, tokens in (
            (10, "0:00:12", 800.0, 10000),
            (20, "0:00:22", 892.86, 20000),
        )
    ]
    run_summary = summarise(run_of(*lines), NONE)
    assert [report.step_seconds for report in run_summary.reported] == [
        None,
        pytest.approx(0.98999, rel=1e-4),
    ]


@pytest.mark.parametrize(
    ("clocks", "seconds"),
    [
        (["0:00:30", "0:00:50", "0:01:10"], [None, 2.0, 2.0]),
        # The clock shows whole seconds, so the times are means over at least 20 s.
        (["0:00:05", "0:00:11", "0:00:16", "0:00:25"], [None, None, None, 20 / 30]),
        (["0:00:05", "0:00:11", "0:00:16"], [None, None, None]),
        (["0:01:05", "0:00:05", "0:00:25"], [None, None, 2.0]),
        (["1 day, 0:00:00", "bad", "1 day, 0:00:20", "1 day, 0:01:00"], [None, None, None, 4.0]),
    ],
    ids=["slow", "fast", "too short", "started again", "a bad time"],
)
def test_whole_seconds_since_the_start_give_long_means(
    clocks: list[str], seconds: list[float | None]
) -> None:
    """LLaMA-Factory's log without tokens has only whole seconds since the start."""
    lines = [
        json.dumps({"current_steps": step, "total_steps": 90, "loss": 1.0, "elapsed_time": clock})
        for step, clock in zip((10, 20, 30, 40), clocks, strict=False)
    ]
    run_summary = summarise(run_of(*lines), NONE)
    assert [report.step_seconds for report in run_summary.reported] == seconds
    times_from = None if not any(seconds) else "train_seconds"
    assert run_summary.step_times_from == times_from


@pytest.mark.parametrize("begin", [10.25, 10])
def test_a_history_of_wandb_gives_steps_without_evaluations(begin: float) -> None:
    """Step times are differences of `_runtime`, which old releases round to whole seconds."""
    rows: list[dict[str, Any]] = [
        {"train/loss": 2.5, "train/global_step": step, "_runtime": begin + 2.5 * step, "_step": at}
        for at, step in enumerate((10, 20, 30))
    ]
    evaluation = {"eval/loss": 2.0, "train/global_step": 20, "_runtime": begin + 59, "_step": 9}
    run = run_of(*(json.dumps(row) for row in [*rows[:2], evaluation, rows[2]]))
    assert [step.iteration for step in run.steps] == [10, 20, 30]
    assert [report.step_seconds for report in summarise(run, NONE).reported] == [None, 2.5, 2.5]


def trainer_state(**more: Any) -> str:
    """Return the text of a trainer_state.json as Hugging Face's Trainer writes it."""
    state = {
        "epoch": 1.0,
        "global_step": 20,
        "is_world_process_zero": True,
        "max_steps": 20,
        "train_batch_size": 4,
        "trial_name": None,
        "log_history": [
            {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 1e-05, "loss": 2.5, "step": 10},
            {"epoch": 0.5, "eval_loss": 2.25, "eval_runtime": 1.5, "step": 10},
            {"epoch": 1.0, "grad_norm": 1.25, "learning_rate": 0.0, "loss": 2.0, "step": 20},
            *more.values(),
        ],
    }
    return json.dumps(state, indent=2, sort_keys=True)


RESULT = {
    "epoch": 1.0,
    "step": 20,
    "total_flos": 1.0,
    "train_loss": 2.25,
    "train_runtime": 50.0,
    "train_samples_per_second": 6.4,
    "train_steps_per_second": 0.4,
}


def test_a_trainer_state_is_read_as_a_log() -> None:
    """The file trainer_state.json gives steps, the final result and the planned number of steps.

    Evaluations in the file give no steps.
    """
    run = run_of(trainer_state(result=RESULT))
    assert [(step.iteration, step.loss) for step in run.steps] == [(10, 2.5), (20, 2.0)]
    (total,) = run.totals
    assert (total.train_seconds, total.samples_per_second) == (50.0, 6.4)
    assert run.config == {"train_iters": "20"}
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.COMPLETED


@pytest.mark.parametrize("more", [{}, {"eval_loss": 2.5, "train_samples": 320}])
def test_train_results_are_the_result_of_a_run(more: dict[str, Any]) -> None:
    """The files train_results.json and all_results.json give the final result, and no steps."""
    run = run_of(json.dumps(RESULT | more, indent=4, sort_keys=True))
    assert not run.steps
    (total,) = run.totals
    assert (total.train_seconds, total.samples_per_second, total.mean_loss) == (50.0, 6.4, 2.25)
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.COMPLETED


def test_a_trainer_state_of_a_checkpoint_has_no_end() -> None:
    """The trainer_state.json of a checkpoint does not show that the training has ended."""
    outcome = run_of(trainer_state()).outcome
    assert outcome is not None
    assert outcome.kind is OutcomeKind.TRUNCATED


def test_a_trainer_state_that_is_cut_off_has_the_reports_before() -> None:
    """If trainer_state.json is cut off, the reports before the cut are read.

    A report that the cut left incomplete is not read.
    """
    text = trainer_state(result=RESULT)
    cut = text.index('"loss": 2.0') + len('"loss": 2')
    assert [step.iteration for step in run_of(text[:cut]).steps] == [10]


TITAN = {
    "step": 10,
    "loss_metrics/global_avg_loss": 2.5,
    "grad_norm": 1.5,
    "throughput(tps)": 2228.5,
    "tflops": 83.75,
    "mfu(%)": 8.5,
    "memory/max_reserved(GiB)": 9.5,
}


def test_metrics_of_torchtitan_are_read_and_those_of_a_validation_are_not() -> None:
    """JSON metrics of torchtitan's training give steps; those of a validation give none."""
    validation = {"step": 10, "validation_metrics/throughput(tps)": 9.0}
    (step,) = run_of(json.dumps(TITAN), json.dumps(validation)).steps
    assert step == Step(
        iteration=10,
        loss=2.5,
        grad_norm=1.5,
        tokens_per_second_per_gpu=2228.5,
        reported_tflops_per_gpu=83.75,
        reported_mfu=0.085,
        max_memory_reserved_gib=9.5,
        offset=0,
    )


def test_events_of_torchtitan_give_the_time_of_each_step() -> None:
    """An event at the end of a step gives its time, in milliseconds.

    Events of parts of a step do not give a step time.
    """
    events = [
        {"step": step, "log_type_name": name, "value": value}
        for step in (1, 2)
        for name, value in (("fwd_bwd_end", 500.0), ("step_start", 0.0), ("step_end", 750.0 + step))
    ]
    run = run_of(*map(json.dumps, events))
    assert [step.step_seconds for step in run.steps] == [0.751, 0.752]
    assert run.not_understood == ()


def test_verl_writes_its_metrics_as_json_too() -> None:
    """JSON metrics of verl give steps; a line that contains only a validation gives no step."""
    metrics = {"timing_s/step": 48.5, "timing_s/gen": 16.0, "perf/throughput": 3283.5}
    lines = [{"step": 0, "data": {"val/reward": 0.5}}, {"step": 1, "data": metrics}]
    (step,) = run_of(*map(json.dumps, lines)).steps
    assert (step.iteration, step.step_seconds) == (1, 48.5)
    assert step.tokens_per_second_per_gpu == 3283.5


def test_an_error_of_a_step_before_the_training_is_not_its_outcome() -> None:
    """An srun error of a job step before the training is not the outcome of the training."""
    failed = "srun: error: n1: task 0: Exited with exit code 1"
    assert summarise(run_of(failed, *OLMO), NONE).outcome.kind is OutcomeKind.COMPLETED
    assert summarise(run_of(failed, *OLMO[:-1]), NONE).outcome.kind is OutcomeKind.TRUNCATED


def test_a_rate_of_gpt_neox_that_is_not_a_float_is_ignored() -> None:
    """If the rate in a line is invalid, the other values of the line still count."""
    line = (
        " samples/sec: 1E657 | iteration 1/ 6 | elapsed time per iteration (ms): 24821.8 | "
        "lm_loss: 7.125000E+00 | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |"
    )
    (step,) = run_of(line).steps
    assert (step.step_seconds, step.samples_per_second) == (24.8218, None)


AUTOMODEL_LINE = (
    '{{"step": {at}, "timestamp": "2026-04-01T16:06:{at:02}.5Z", "mem": {mem}, "tps_per_gpu": 2}}'
)
CURRENT = (
    '{{"current_steps": {at}, "total_steps": 90, "lr": {mem}, "elapsed_time": "0:00:{at:02}"}}'
)


@pytest.mark.parametrize("form", [AUTOMODEL_LINE, CURRENT])
@pytest.mark.parametrize("odd", ["1.5e999", "NaN", "01", "1.2.3", "null", '"7"', '7, "x": 1'])
def test_lines_of_json_read_together_give_the_same_records(form: str, odd: str) -> None:
    """Reading many JSON lines at once gives the same records as reading each line alone.

    Some lines have unusual or invalid numbers.
    """
    lines = [form.format(at=at, mem=odd if at == 20 else f"{at}.25") for at in range(10, 40)]
    alone = [step for line in lines for step in run_of("", line, "").records]
    together = run_of(*lines).records
    assert [replace(step, offset=0) for step in together] == [
        replace(step, offset=0) for step in alone
    ]
    assert len(together) in {29, 30}


def test_a_number_of_json_that_no_float_can_hold_is_not_infinite() -> None:
    """A loss in JSON that is too large for a float is None, not inf."""
    (step,) = run_of('{"step": 1, "loss": 2.5e99999, "mem": Infinity, "tps_per_gpu": 5}').steps
    assert (step.loss, step.max_memory_allocated_gib) == (None, None)


@pytest.mark.parametrize(
    ("text", "tflops"),
    [("3.120e+14", "312"), ("312000000000001", "312.000000000001"), ("95371441969135e+14", None)],
)
def test_a_peak_for_the_mfu_has_all_its_digits(text: str, tflops: str | None) -> None:
    """The peak TFLOPs that torchtitan uses for the MFU are read with all their digits.

    A number in a form that programs do not print is not read.
    """
    run = run_of(f"[titan] INFO - Peak FLOPS used for computing MFU: {text}")
    assert run.config.get("mfu_peak_tflops") == tflops
