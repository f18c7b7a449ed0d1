"""Find the outcome of a run from its steps, and count lines that only look like a report."""

import io

import pytest
from reports import KILL, OWN_STEP, RESULT

from parsers.records import OutcomeKind
from parsers.runs.reading import read
from parsers.runs.run import LogRun

COMPLETED, TRUNCATED = OutcomeKind.COMPLETED, OutcomeKind.TRUNCATED
ERROR, KILLED, UNKNOWN = OutcomeKind.ERROR, OutcomeKind.KILLED, OutcomeKind.UNKNOWN

ARGUMENTS = (
    "------------------------ arguments ------------------------\n"
    "  micro_batch_size ................................ 8\n"
)
START = f"using world size: 8, data-parallel-size: 8\n{ARGUMENTS}"
TRACE = (
    'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\nValueError: x\n'
)
TIME_LIMIT = (
    "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-02T03:04:05"
    " DUE TO TIME LIMIT ***\n"
)


def megatron(*iterations: int, of: int = 1000, loss: float = 3.5) -> str:
    """Return Megatron's lines about these iterations."""
    return "".join(
        f" iteration {iteration:8d}/{of:8d} | elapsed time per iteration (ms): 1234.5 |"
        f" lm loss: {loss:.6E} | number of skipped iterations:   0 |"
        " number of nan iterations:   0 |\n"
        for iteration in iterations
    )


# Megatron prints a mean loss only if it is above zero, which a nan is not.
NO_LOSS = (
    " iteration       20/    1000 | elapsed time per iteration (ms): 1234.5 |"
    " number of skipped iterations: {:3d} | number of nan iterations: {:3d} |\n"
)
# If no update is skipped, e.g. in bf16, Megatron does not count iterations with a loss of nan.
NAN_GRADIENTS = (
    " iteration {:8d}/    1000 | elapsed time per iteration (ms): 1234.5 | grad norm: nan |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


def runs_of(log: str) -> list[LogRun]:
    """Return the runs in the text of a log."""
    return read(io.BytesIO(log.encode()))


OUTCOMES = {
    "no training output": ("noise\n", UNKNOWN),
    "nothing at all": ("", UNKNOWN),
    "steps without an end": (megatron(10, 20), TRUNCATED),
    "arguments alone": (ARGUMENTS, TRUNCATED),
    "the last step promised": (megatron(10, 20, of=20), COMPLETED),
    "the last step promised, then killed": (megatron(10, 20, of=20) + KILL, COMPLETED),
    "the last step before": (megatron(10, 20, of=21), TRUNCATED),
    "a loss of nan at the end": (megatron(10, 20, of=20, loss=float("nan")), OutcomeKind.NAN_LOSS),
    "a loss of nan that was overcome": (megatron(10, loss=float("nan")) + megatron(20), TRUNCATED),
    "no loss, for it was nan": (megatron(10) + NO_LOSS.format(10, 10), OutcomeKind.NAN_LOSS),
    "no loss, and gradients of nan": (
        megatron(10) + NAN_GRADIENTS.format(20) + NAN_GRADIENTS.format(30),
        OutcomeKind.NAN_LOSS,
    ),
    "no loss, and gradients of nan in many reports": (
        megatron(10) + "".join(map(NAN_GRADIENTS.format, range(20, 400, 10))),
        OutcomeKind.NAN_LOSS,
    ),
    "no loss, and gradients of nan, which were overcome": (
        megatron(10) + NAN_GRADIENTS.format(20) + megatron(30),
        TRUNCATED,
    ),
    "no loss, for no update was made": (megatron(10) + NO_LOSS.format(10, 0), TRUNCATED),
    "no loss for a while": (NO_LOSS.format(10, 4) + megatron(30), TRUNCATED),
    "an error that is followed by few steps": (TRACE + megatron(*range(50)) + TIME_LIMIT, ERROR),
    "an error that came again": (
        (TRACE + megatron(*range(1, 61))) + (TRACE + megatron(*range(61, 121))),
        ERROR,
    ),
    "an error that was survived": (
        TRACE + megatron(*range(150)) + TIME_LIMIT,
        OutcomeKind.TIME_LIMIT,
    ),
    "killed with a loss of nan": (megatron(10, loss=float("nan")) + KILL, KILLED),
}


@pytest.mark.parametrize(("log", "kind"), OUTCOMES.values(), ids=OUTCOMES)
def test_steps_show_how_a_run_ended_too(log: str, kind: OutcomeKind) -> None:
    """If no line reports the end of a run, its steps determine the outcome."""
    (run,) = runs_of(log)
    assert run.outcome is not None
    assert run.outcome.kind is kind


def test_the_last_step_is_shown_as_the_line_that_ends_a_run() -> None:
    """If the last step shows the outcome, the outcome has the text of this step's line.

    It also has the number and the offset of this line.
    """
    (run,) = runs_of("noise\n" + megatron(10, 20, of=20))
    assert run.outcome is not None
    assert run.outcome.text == megatron(20, of=20).strip()
    assert (run.outcome.line, run.outcome.offset) == (3, 6 + len(megatron(10, of=20)))


def test_while_a_log_is_being_written_its_last_run_has_no_outcome() -> None:
    """While a program writes a log, the last run has no outcome; earlier runs have one."""
    log = START + megatron(10, 20) + START + megatron(10)
    first, last = read(io.BytesIO(log.encode()), complete=False)
    assert first.outcome is not None
    assert first.outcome.kind is TRUNCATED
    assert last.outcome is None


EXIT_127 = "srun: error: n1: task 0: Exited with exit code 127\n"


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (EXIT_127 + START + megatron(10, 20), TRUNCATED),
        (TRACE + EXIT_127 + START + megatron(10, 20) + TIME_LIMIT, OutcomeKind.TIME_LIMIT),
        (EXIT_127 + START + megatron(10, 20) + TRACE, ERROR),
        (EXIT_127 + START, ERROR),
        (START + EXIT_127 + megatron(10, 20), ERROR),
    ],
)
def test_a_step_that_failed_before_the_training_is_not_its_end(log: str, kind: OutcomeKind) -> None:
    """If a check fails before the training starts, the training may still report steps.

    A process that exits after the training has started is a process of the training.
    """
    (run,) = runs_of(log)
    assert run.outcome is not None
    assert run.outcome.kind is kind


def maxtext(count: int, planned: int) -> str:
    """Return a log of MaxText with the plan, and with reports about the first `count` steps."""
    return f"Config param steps: {planned}\n" + "".join(
        f"completed step: {step}, seconds: 1.500, TFLOP/s/device: 41.524, loss: 2.500\n"
        for step in range(count)
    )


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
def test_maxtext_is_complete_when_it_has_done_the_steps_that_it_planned(count: int) -> None:
    """MaxText prints no line at its end, but its options contain the number of steps."""
    (run,) = runs_of(maxtext(count, planned=count))
    assert run.outcome is not None
    assert run.outcome.kind is COMPLETED
    assert run.outcome.offset == run.steps[-1].offset
    assert len(run.steps) == count
    (run,) = runs_of(maxtext(count, planned=count + 1))
    assert run.outcome is not None
    assert run.outcome.kind is TRUNCATED


@pytest.mark.parametrize("count", [3, 1000])
def test_each_run_of_maxtext_has_its_own_plan(count: int) -> None:
    """The options that MaxText prints before its first step are those of the run that begins."""
    logs = [maxtext(count, planned=count + more) for more in (0, 2, 0)]
    logs[1] = logs[1].replace("1.500", "1.600")
    outcomes = [run.outcome and run.outcome.kind for run in runs_of("".join(logs))]
    assert outcomes == [COMPLETED, TRUNCATED, COMPLETED]


def test_maxtext_s_steps_on_several_hosts_are_one_run() -> None:
    """Each host of MaxText prints its options and all steps."""
    hosts = maxtext(30, planned=30).splitlines()
    (run,) = runs_of("".join(f"{line}\n{line}\n" for line in hosts))
    assert run.outcome is not None
    assert (run.outcome.kind, len(run.steps)) == (COMPLETED, 30)


NOT_UNDERSTOOD = {
    "torn": (megatron(10)[:100] + "\n", {"Megatron": 1}),
    "of another kind": (
        "[teralog] iteration seven | step_seconds 1\n",
        {"teralog GPT workload": 1},
    ),
    "understood": (megatron(10) + OWN_STEP.format(1) + RESULT, {}),
    "a comment": ("# " + megatron(10)[:100] + "\n", {}),
    "an echo": ("+ echo 'iteration 1/2 | elapsed time per iteration (ms): 5'\n", {}),
    "a campaign's line": ("[teralog] campaign bench: 3 of 12 runs\n", {}),
    "DeepSpeed's line before the first step": ("[Rank 0] step=0, skipped=0, lr=[0.1]\n", {}),
    "source code": ('print("SamplesPerSec={}".format(rate))\n', {}),
    "a report on the way": ("{'loss': 2.5, 'train_runtime': 8.1, 'epoch': 0.3}\n", {}),
    "another program's throughput": ("validation throughput: 12.5 images/s\n", {}),
    "a version": ("NCCL INFO version 2.18 of something\n", {}),
    "an empty line of timers": ("time (ms)\n", {}),
}


@pytest.mark.parametrize(("log", "expected"), NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD)
def test_lines_that_only_look_like_a_report_are_counted(log: str, expected: dict[str, int]) -> None:
    """Lines that look like a report but cannot be parsed are counted, by format.

    Known harmless lines do not count.
    """
    (run,) = runs_of(log)
    assert dict(run.not_understood) == expected


@pytest.mark.parametrize("before", ["# ", "  3: # ", "+ echo '", "0: ++ printf '"])
def test_a_report_that_a_script_quotes_does_not_count(before: str) -> None:
    """A report does not count in a script's comment, or in a command that `set -x` prints."""
    real = megatron(10, 20, 30)
    quoted = before + megatron(5, loss=9.0)
    rising = "".join(before + megatron(at, loss=9.0) for at in range(40, 46))
    for log in (quoted + real, real + quoted, real + rising):
        (run,) = runs_of(log)
        assert [step.iteration for step in run.steps] == [10, 20, 30]
        assert run.not_understood == ()
