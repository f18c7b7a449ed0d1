"""Read a run whose stdout and stderr are two files as one run."""

import gzip
from pathlib import Path

import pytest

from parsers.records import OutcomeKind
from parsers.runs.pairs import output_of, read_pair

STEP = (
    " iteration {:8d}/     100 | elapsed time per iteration (ms): 1500.0 | learning rate: 1.5E-04 |"
    " global batch size:    16 | lm loss: 2.5E+00 | number of skipped iterations:   0 |\n"
)
STEPS = "".join(map(STEP.format, (1, 2, 3)))
OUT_OF_MEMORY = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0)\n"
)
CANCELLED = "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***\n"
ENDED_WELL = "[INFO] [launch.py:460:main] Process 47963 exits successfully.\n"
MANY_STEPS = "".join(map(STEP.replace(" 100", "1000").format, range(1, 150)))


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    """Return the two empty log files of a run."""
    output, errors = tmp_path / "slurm-1.out", tmp_path / "slurm-1.err"
    output.touch()
    errors.touch()
    return output, errors


def test_the_steps_of_one_log_and_the_end_in_the_other_are_one_run(
    logs: tuple[Path, Path],
) -> None:
    """Steps in stdout and an error in stderr give one run; its outcome names the stderr file."""
    output, errors = logs
    output.write_text(STEPS)
    errors.write_text("some warning\n" + OUT_OF_MEMORY)
    (run,) = read_pair(output, errors)
    assert run.path == str(output)
    assert [step.iteration for step in run.steps] == [1, 2, 3]
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.GPU_OUT_OF_MEMORY
    assert (run.outcome.source, run.outcome.line) == (str(errors), 2)
    assert run.outcome.requested_gib == 2.5


def test_steps_printed_to_stderr_count_once(logs: tuple[Path, Path]) -> None:
    """If a program prints its steps to both files, each step counts once."""
    output, errors = logs
    output.write_text(STEPS)
    errors.write_text(STEPS + STEP.format(4))
    (run,) = read_pair(output, errors)
    assert [step.iteration for step in run.steps] == [1, 2, 3, 4]
    assert run.lines == 7


def test_an_empty_log_of_errors_changes_nothing(logs: tuple[Path, Path]) -> None:
    """An empty stderr file does not change the run of the stdout file."""
    output, errors = logs
    output.write_text(STEPS)
    (run,) = read_pair(output, errors)
    assert len(run.steps) == 3
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.TRUNCATED
    assert run.notes == ()


def test_the_problems_of_both_logs_are_kept(logs: tuple[Path, Path]) -> None:
    """A damaged error log is a problem of the run, which has the path of the output log."""
    output, errors = logs
    output.write_text(STEPS)
    errors.write_bytes(gzip.compress(MANY_STEPS.encode())[:-20])
    (run,) = read_pair(output, errors)
    (note,) = run.notes
    assert note.startswith("has a log of errors, slurm-1.err, that is cut off: ")


@pytest.mark.parametrize(
    ("output_text", "errors_text", "kind", "line"),
    [
        (STEPS.replace(" 100 |", "   3 |"), "some warning\n", OutcomeKind.COMPLETED, 3),
        (STEPS.replace("2.5E+00", "nan"), "some warning\n", OutcomeKind.NAN_LOSS, 3),
        (STEPS.replace(" 100 |", "   3 |"), CANCELLED, OutcomeKind.COMPLETED, 3),
        (STEPS.replace("2.5E+00", "nan"), CANCELLED, OutcomeKind.CANCELLED, 1),
        (OUT_OF_MEMORY + MANY_STEPS, "", OutcomeKind.TRUNCATED, None),
        (OUT_OF_MEMORY + MANY_STEPS, CANCELLED, OutcomeKind.CANCELLED, 1),
        (ENDED_WELL, CANCELLED, OutcomeKind.CANCELLED, 1),
    ],
    ids=[
        "done",
        "nan",
        "done, cancelled",
        "nan, cancelled",
        "survived",
        "then cancelled",
        "stopped",
    ],
)
def test_steps_of_a_pair_decide_the_outcome_as_in_one_log(
    logs: tuple[Path, Path], output_text: str, errors_text: str, kind: OutcomeKind, line: int | None
) -> None:
    """For a pair of files, steps determine the outcome in the same way as for one log.

    The cases are: the last planned step, a NaN loss, and steps after an error.
    """
    output, errors = logs
    output.write_text(output_text)
    errors.write_text(errors_text)
    (run,) = read_pair(output, errors)
    assert run.outcome is not None
    assert (run.outcome.kind, run.outcome.line) == (kind, line)


def test_a_log_of_errors_may_contain_the_whole_run(logs: tuple[Path, Path]) -> None:
    """If a program prints everything to stderr, the stderr file gives the whole run.

    While the program is still running, the run has no outcome.
    """
    output, errors = logs
    output.write_text("hello\n")
    errors.write_text(STEPS)
    (run,) = read_pair(output, errors)
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.TRUNCATED
    (run,) = read_pair(output, errors, complete=False)
    assert run.outcome is None


def test_two_logs_that_contain_nothing_are_of_no_run(logs: tuple[Path, Path]) -> None:
    """Two files without training output give the outcome UNKNOWN, and not TRUNCATED."""
    output, errors = logs
    output.write_text("hello\n")
    (run,) = read_pair(output, errors)
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.UNKNOWN


def test_logs_with_several_launches_are_not_combined(logs: tuple[Path, Path]) -> None:
    """If one file of a pair has several launches, the runs of both files stay separate."""
    output, errors = logs
    output.write_text(STEPS + STEPS.replace("1500", "1400").replace("2.5E", "2.4E"))
    errors.write_text(OUT_OF_MEMORY)
    runs = read_pair(output, errors)
    assert {run.path for run in runs} == {str(output), str(errors)}
    assert sum(len(run.steps) for run in runs) == 6


@pytest.mark.parametrize(
    ("errors", "output"),
    [
        ("slurm-1.err", "slurm-1.out"),
        ("a.b.stderr", "a.b.stdout"),
        ("slurm-1.err.gz", "slurm-1.out.gz"),
        ("train.e123", "train.o123"),
        ("0/stderr.log", "0/stdout.log"),
        ("slurm-1.out", None),
        ("train.error", None),
        ("err", None),
    ],
)
def test_a_log_of_errors_is_known_by_its_ending(errors: str, output: str | None) -> None:
    """A stderr file is recognized by its name, as Slurm, submitit, SGE or torchrun names it."""
    assert output_of(Path(errors)) == (output and Path(output))
