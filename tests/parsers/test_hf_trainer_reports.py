"""Parse reports of Hugging Face's Trainer during training, and the progress bars around them."""

import io
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from reports import cases, parse

from parsers.formats.hf_trainer import HF_TRAINER_REPORTS
from parsers.records import LossReport, OutcomeKind, Record, Step
from parsers.runs.reading import read


def bar(step: int, steps: int = 100, rate: str = "2.50s/it", title: str = "") -> str:
    """Return a progress bar as tqdm draws it."""
    done = 10 * step // steps
    return f"\r{title}{step / steps:4.0%}|{'█' * done:10}| {step}/{steps} [00:50<03:20,  {rate}]"


OLD = "{'loss': 2.2788, 'learning_rate': 5e-05, 'epoch': 0.31}"
QUOTED = "{'loss': '2.279', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.31'}"
ERASED = "\r" + " " * 60 + "\r"
STEP = Step(iteration=20, iterations=100, loss=2.2788, learning_rate=5e-5, offset=7)
QUOTED_STEP = Step(
    iteration=20, iterations=100, loss=2.279, learning_rate=5e-5, grad_norm=1.2, offset=7
)
REPORT = LossReport(epoch=0.31, loss=2.2788, learning_rate=5e-5, offset=7)

REPORTS = {
    "between the bar and the same bar": (bar(20) + ERASED + OLD + "\n" + bar(20), [STEP]),
    "numbers in quotes": (bar(20) + ERASED + QUOTED + "\n" + bar(20), [QUOTED_STEP]),
    "the bar in front is older": (bar(17) + ERASED + OLD + "\n" + bar(20), [STEP]),
    "many bars in front": (bar(18) + bar(19) + bar(20) + ERASED + OLD + "\n" + bar(20), [STEP]),
    "the bar behind is the next report's": (
        bar(20) + ERASED + OLD + "\n" + bar(30) + "[INFO] callbacks:143 >> {'loss': 2.1}",
        [REPORT],
    ),
    "no bar in front": (OLD + "\n" + bar(20) + bar(21), [STEP]),
    "an empty line in front of the bar": (OLD + "\n\n" + bar(20), [STEP]),
    "glued to the bar behind": (bar(20) + OLD + bar(20), [STEP]),
    "fast steps": (OLD + "\n" + bar(20, rate="12.3it/s"), [STEP]),
    "a rate that is not known yet": (OLD + "\n" + bar(20, rate="?it/s"), [STEP]),
    "behind a cursor's movement": (OLD + "\n\x1b[A" + bar(20), [STEP]),
    "tokens of all ranks": (
        OLD.replace(" 'epoch'", " 'num_input_tokens_seen': 4096, 'epoch'") + "\n" + bar(20),
        [
            Step(
                iteration=20,
                iterations=100,
                loss=2.2788,
                learning_rate=5e-5,
                consumed_tokens=4096,
                offset=7,
            )
        ],
    ),
    "a step in the report": (
        OLD.replace(" 'epoch'", " 'global_step': 5, 'epoch'"),
        [replace(STEP, iteration=5, iterations=None)],
    ),
    "the time so far, and the memory of Liger's callback": (
        OLD[:-1]
        + ", 'num_input_tokens_seen': 4096, 'train_runtime': 30.8283, 'step': 2, "
        + "'total_peak_memory_allocated_MB': 2048.0, 'total_peak_memory_reserved_MB': 3072.0}",
        [
            replace(
                STEP,
                iteration=2,
                iterations=None,
                consumed_tokens=4096,
                train_seconds=30.8283,
                max_memory_allocated_gib=2.0,
                max_memory_reserved_gib=3.0,
            )
        ],
    ),
    "without bars": (OLD + "\n" + OLD, [REPORT]),
    "alone": (OLD, [REPORT]),
    "held back, with others": (bar(60) + ERASED + OLD + "\n" + OLD + "\n" + bar(60), [REPORT]),
    "another node's bar has got further": (bar(21) + ERASED + OLD + "\n" + bar(20), [REPORT]),
    "another bar": (bar(3, steps=8) + ERASED + OLD + "\n" + bar(20), [REPORT]),
    "a bar with a title": (OLD + "\n" + bar(20, title="Loading shards: 1 of "), [REPORT]),
    "a bar before the first step": (OLD + "\n" + bar(0), [REPORT]),
    "a bar beyond its end": (OLD + "\n" + bar(101), [REPORT]),
    "a torn bar": (OLD + "\n" + bar(20)[:-4], [REPORT]),
    "of two nodes": (OLD + OLD + "\n" + bar(20), [REPORT, STEP]),
    "two on one line, each with its bar": (OLD + bar(20) + ERASED + OLD + bar(20), [STEP, STEP]),
}
NO_REPORTS = (
    "",
    "# " + OLD,
    OLD[:-1],
    OLD[1:],
    OLD.replace("2.2788", "2,2788"),
    OLD.replace("'epoch': 0.31", "'step': 3"),
    OLD.replace("0.31", "nan"),
    "{'eval_loss': 3.6, 'eval_runtime': 0.01, 'epoch': 1.0}",
    "{'train_runtime': 437.8544, 'train_loss': 0.456, 'epoch': 3.0}",
    '{"loss": 2.5, "epoch": 0.5}',
)


@cases(REPORTS, [f"{line}\n{bar(20)}" for line in NO_REPORTS])
def test_the_bar_behind_a_report_gives_its_step(text: str, records: list[Record]) -> None:
    """If a progress bar follows a report, the bar gives the step number of the report.

    Without a bar, the report has an epoch, but no step number. Torn and quoted lines give no
    report.
    """
    assert parse(HF_TRAINER_REPORTS, text) == records


def test_a_loss_of_nan_is_an_outcome() -> None:
    """If the last loss is NaN, the outcome is NAN_LOSS, even if its report has no step number.

    If a finite loss follows, the outcome is TRUNCATED.
    """
    log = OLD + "\n" + OLD.replace("2.2788", "nan") + "\n"
    (run,) = read(io.BytesIO(log.encode()))
    assert run.outcome is not None
    assert (run.outcome.kind, run.outcome.line) == (OutcomeKind.NAN_LOSS, 2)
    (run,) = read(io.BytesIO((log + OLD + "\n").encode()))
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.TRUNCATED


def test_trainings_one_after_the_other_are_distinguished() -> None:
    """If step numbers start over in a log, a new run begins."""
    training = "".join(f"{bar(n)}{ERASED}{OLD}\n{bar(n)}" for n in (10, 20, 30))
    runs = read(io.BytesIO((training + "\n" + training.replace("2.2788", "2.5") + "\n").encode()))
    assert [[step.iteration for step in run.steps] for run in runs] == [[10, 20, 30]] * 2


def trainer_log(path: Path, *, buffered: bool, seconds: float) -> bytes:
    """Return what transformers' own callback prints in ten steps: stdout and stderr in one log.

    buffered: whether stdout is buffered. seconds: the pause before each step.
    """
    callbacks = pytest.importorskip("transformers.trainer_callback")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    out, err = sys.stdout, sys.stderr
    sys.stdout = os.fdopen(os.dup(descriptor), "w", buffering=-1 if buffered else 1)
    sys.stderr = os.fdopen(descriptor, "w", buffering=1)
    try:
        callback = callbacks.ProgressCallback()
        state = SimpleNamespace(is_world_process_zero=True, max_steps=10, global_step=0)
        callback.on_train_begin(None, state, None)
        for step in range(1, 11):
            time.sleep(seconds)
            state.global_step = step
            callback.on_step_end(None, state, None)
            if step % 2 == 0:
                logs = {"loss": 3.0 - step / 8, "learning_rate": 5e-5, "epoch": step / 4}
                callback.on_log(None, state, None, logs=logs)
        callback.on_train_end(None, state, None)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.close()
        sys.stdout, sys.stderr = out, err
    return path.read_bytes()


@pytest.mark.train
@pytest.mark.parametrize("seconds", [0.0, 0.12])
def test_the_steps_of_the_real_callback_are_read(tmp_path: Path, seconds: float) -> None:
    """All steps that transformers' own callback prints are read, even if some bars are missing.

    If steps follow each other too fast, tqdm does not draw all progress bars.
    """
    log = trainer_log(tmp_path / "log", buffered=False, seconds=seconds)
    (run,) = read(io.BytesIO(log))
    assert [(step.iteration, step.iterations) for step in run.steps] == [
        (step, 10) for step in (2, 4, 6, 8, 10)
    ]
    assert [step.loss for step in run.steps] == [2.75, 2.5, 2.25, 2.0, 1.75]
    assert {step.step_seconds for step in run.steps} == {None}


@pytest.mark.train
def test_reports_that_the_real_callback_holds_back_are_given_no_wrong_step(tmp_path: Path) -> None:
    """If all reports are printed only at the end, because of buffering, none gets a step number."""
    log = trainer_log(tmp_path / "log", buffered=True, seconds=0)
    (run,) = read(io.BytesIO(log))
    losses = [record.loss for record in run.records if isinstance(record, LossReport)]
    assert losses == [2.75, 2.5, 2.25, 2.0, 1.75]
    assert run.steps == []
