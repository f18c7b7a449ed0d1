"""Read a console log and the metrics file (stream) of the same program as one run."""

import json
from pathlib import Path

import pytest

from parsers.records import OutcomeKind
from parsers.runs.many import LogPaths, read_each
from parsers.runs.run import LogRun
from parsers.runs.streams import is_stream
from parsers.summary.run import summarise
from parsers.summary.warmup import Warmup

LOSSES = {1: 11.8043, 10: 9.41217, 20: 7.98765, 30: 7.10321}
NONE = Warmup.parse("none")


def _itself(runs: list[LogRun]) -> list[LogRun]:
    return runs


def read_together(*logs: Path) -> list[LogRun]:
    """Read files that may belong to one run, e.g. a console log and a metrics stream.

    Return the runs.
    """
    paths: LogPaths = logs
    ((_, runs),) = read_each([paths], _itself)
    assert not isinstance(runs, OSError)
    return runs


def titan(step: int, loss: float) -> str:
    return (
        f"[rank0]:[titan] 2026-03-01 06:57:02,246 - root - INFO - step: {step:2}  loss: {loss:8.4f}"
        f"  grad_norm:  1.5000  memory: 16.82GiB(33.61%)  tps: 2,{step:03}  tflops: 83.74  "
        "mfu: 8.47%"
    )


def titan_metrics(step: int, loss: float) -> str:
    values = {"step": step, "loss_metrics/global_avg_loss": loss, "throughput(tps)": 2000.25 + step}
    return json.dumps(values | {"lr": step / 1e6})


@pytest.fixture
def console(tmp_path: Path) -> Path:
    log = tmp_path / "slurm-1.out"
    log.write_text("".join(f"{titan(*step)}\n" for step in LOSSES.items()))
    return log


def test_a_step_in_console_and_stream_counts_once(console: Path) -> None:
    """A step in both the console log and the metrics file counts once.

    The step has the console's values, and the values that only the metrics file has.
    """
    stream = console.with_name("metrics.jsonl")
    stream.write_text("".join(f"{titan_metrics(*step)}\n" for step in LOSSES.items()))
    (run,) = read_together(console, stream)
    assert [step.iteration for step in run.steps] == [*LOSSES]
    assert [step.learning_rate for step in run.steps] == [at / 1e6 for at in LOSSES]
    assert [step.tokens_per_second_per_gpu for step in run.steps] == [2001, 2010, 2020, 2030]
    assert run.path == str(console)
    assert run.formats == ("torchtitan", "torchtitan metrics")


def test_a_stream_may_have_steps_that_the_console_lacks(console: Path) -> None:
    """Steps that only the metrics file contains count, too."""
    stream = console.with_name("metrics.jsonl")
    stream.write_text("".join(f"{titan_metrics(at, LOSSES.get(at, 8.5))}\n" for at in range(1, 31)))
    (run,) = read_together(console, stream)
    assert [step.iteration for step in run.steps] == [*range(1, 31)]


def test_the_end_of_a_stream_is_not_one_of_the_console(tmp_path: Path) -> None:
    """If the console is of another run, the outcome of two streams names the stream with the end.

    In this test, the console contains a start that failed.
    """
    console, stream = tmp_path / "nohup.out", tmp_path / "trainer_log.jsonl"
    state = tmp_path / "trainer_state.json"
    console.write_text("train.py: error: unrecognized arguments: --finetune\n")
    reports = [{"loss": loss, "epoch": 1.0, "step": at} for at, loss in LOSSES.items()]
    stream.write_text(
        "".join(
            json.dumps({"current_steps": row["step"], "total_steps": 30, "loss": row["loss"]})
            + "\n"
            for row in reports
        )
    )
    state.write_text(json.dumps({"log_history": reports}, indent=2, sort_keys=True))
    failed, done = read_together(console, stream, state)
    assert failed.outcome.kind is OutcomeKind.ERROR
    assert done.outcome.kind is OutcomeKind.COMPLETED
    assert done.outcome.source == str(stream)
    assert len(done.formats) == 2


def test_a_stream_with_other_losses_is_another_run(console: Path) -> None:
    """If the losses in console log and metrics file differ, the two files are separate runs."""
    stream = console.with_name("metrics.jsonl")
    stream.write_text("".join(f"{titan_metrics(at, loss + 0.1)}\n" for at, loss in LOSSES.items()))
    runs = read_together(console, stream)
    assert [len(run.steps) for run in runs] == [4, 4]


@pytest.mark.parametrize("same", [True, False])
def test_each_run_of_a_stream_is_paired_with_its_run_in_the_console(
    console: Path, *, same: bool
) -> None:
    """If both files contain two runs, each run of the stream is that of a run in the console.

    A run of the stream that differs from both runs of the console is a run of its own.
    """
    first, second = ({at: loss - less for at, loss in LOSSES.items()} for less in (0, 0.5))
    console.write_text(
        "".join(f"{titan(*step)}\n" for losses in (first, second) for step in losses.items())
    )
    if not same:
        second = {at: loss + 1 for at, loss in LOSSES.items()}
    stream = console.with_name("metrics.jsonl")
    stream.write_text(
        "".join(f"{titan_metrics(*at)}\n" for losses in (first, second) for at in losses.items())
    )
    runs = read_together(console, stream)
    assert [len(run.steps) for run in runs] == [4, 4] if same else [4, 4, 4]
    assert [len(run.formats) for run in runs] == [2, 2] if same else [2, 1, 1]


@pytest.mark.parametrize("appended", [False, True])
def test_after_a_restart_the_stream_is_that_of_both_launches(
    tmp_path: Path, appended: bool
) -> None:
    """If a run was restarted, its metrics file gives values to the steps of both launches.

    The restart repeats two steps. The console log contains these steps twice. The metrics file
    contains them twice, or only as the second launch wrote them.
    """
    console, stream = tmp_path / "slurm-1.out", tmp_path / "metrics.jsonl"
    first = [(at, 9 - at / 8) for at in range(1, 9)]
    again = [(at, 9.02 - at / 8) for at in range(7, 13)]
    start = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default"
    console.write_text(
        "\n".join([*(titan(*step) for step in first), start, *(titan(*step) for step in again), ""])
    )
    written = [*first, *again] if appended else [*first[:6], *again]
    stream.write_text("".join(f"{titan_metrics(*step)}\n" for step in written))
    (run,) = read_together(console, stream)
    launches = [segment.steps for segment in run.segments]
    assert [[step.iteration for step in steps] for steps in launches] == [
        [*range(1, 9)],
        [*range(7, 13)],
    ]
    assert [step.learning_rate for step in launches[1]] == [at / 1e6 for at in range(7, 13)]


STATE = {
    "epoch": 1.0,
    "log_history": [
        {"epoch": 0.5, "grad_norm": 2.5, "learning_rate": 5e-05, "loss": 2.27881, "step": 10},
        {"epoch": 1.0, "grad_norm": 1.5, "learning_rate": 1e-05, "loss": 1.98765, "step": 20},
        {
            "epoch": 1.0,
            "step": 20,
            "train_loss": 2.13323,
            "train_runtime": 43.7854,
            "train_samples_per_second": 25.132,
            "train_steps_per_second": 0.457,
        },
    ],
    "max_steps": 20,
}
PRINTED = """{'loss': '2.279', 'grad_norm': '2.5', 'learning_rate': '5e-05', 'epoch': '0.5'}
{'loss': '1.988', 'grad_norm': '1.5', 'learning_rate': '1e-05', 'epoch': '1'}
{'train_runtime': '43.79', 'train_samples_per_second': '25.13', 'train_steps_per_second': \
'0.457', 'train_loss': '2.133', 'epoch': '1'}
"""


def test_a_trainer_state_gives_a_console_without_steps_its_steps(tmp_path: Path) -> None:
    """A console log without steps gets the steps of trainer_state.json.

    The final result, which both files contain, counts once.
    """
    console, state = tmp_path / "train.log", tmp_path / "trainer_state.json"
    console.write_text(PRINTED)
    state.write_text(json.dumps(STATE, indent=2, sort_keys=True) + "\n")
    (run,) = read_together(console, state)
    assert [(step.iteration, step.loss) for step in run.steps] == [(10, 2.27881), (20, 1.98765)]
    assert [total.last_iteration for total in run.totals] == [20]
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.COMPLETED
    assert summarise(run, NONE).reports == 2


def test_an_interrupted_console_of_a_finished_state_is_complete(tmp_path: Path) -> None:
    """If a console log is cut off and trainer_state.json has the result, the run is completed."""
    console, state = tmp_path / "train.log", tmp_path / "trainer_state.json"
    console.write_text("".join(PRINTED.splitlines(keepends=True)[:2]))
    state.write_text(json.dumps(STATE, indent=2, sort_keys=True) + "\n")
    (run,) = read_together(console, state)
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.COMPLETED
    assert run.outcome.source == str(state)


@pytest.mark.parametrize(
    ("name", "stream"),
    [
        ("a/metrics.jsonl", True),
        ("metrics.jsonl.gz", True),
        ("trainer_state.json", True),
        ("out/checkpoint-3/trainer_state.json", True),
        ("my_trainer_state.json", False),
        ("slurm-1.out", False),
        ("config.json", False),
    ],
)
def test_streams_are_known_by_their_names(name: str, stream: bool) -> None:
    """Metrics files are recognized by their names: metrics.jsonl and trainer_state.json."""
    assert is_stream(name) is stream
