"""Assign the lines of a log to runs, and recognize restarts."""

import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import KILL, OMP, OWN_END, OWN_START, OWN_STEP, RESULT

from parsers.records import OutcomeKind, Step
from parsers.runs.reading import read
from parsers.runs.run import LogRun

COMPLETED, TRUNCATED = OutcomeKind.COMPLETED, OutcomeKind.TRUNCATED
KILLED = OutcomeKind.KILLED

RUNNER = "[2026-01-02 03:04:05,678] [INFO] [runner.py:568:main] cmd = /usr/bin/python -u -m x\n"
ARGUMENTS = (
    "------------------------ arguments ------------------------\n"
    "  micro_batch_size ................................ {}\n"
)
SIZES = "using world size: 8, data-parallel-size: 2, tensor-model-parallel size: 4\n"
INIT = "[INFO] [comm.py:637:init] Initializing torch distributed with backend: nccl\n"
TRAINING = "[INFO|trainer.py:1146] 2026-01-02 03:04:05,027 >> ***** Running training *****\n"
COLOSSALAI = (
    "Actor: 118.68 M\nCritic: 118.68 M\nInitial model: 118.68 M\nReward model: 118.68 M\n"
    "Making experience throughput: 1.234 samples/sec, TFLOPS: 5.678\n"
    "Learning throughput: 1.234 samples/sec, TFLOPS: 5.678\nPeak CUDA mem: 12.34 GB\n"
)
QUERY = (
    "timestamp, index, utilization.gpu [%], memory.used [MiB]\n"
    "2026/01/02 03:04:05.678, 0, 85 %, 4096 MiB\n"
)
OOM = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 6.00 GiB total\n"
DONE = "[after training is done] datetime: 2026-01-02 03:04:05\n"
LOADED = "  successfully loaded checkpoint from /x at iteration {}\n"


TITAN = "[titan] 2026-01-02 03:04:05,678 - root - INFO - "


def torchtitan(start: int, *iterations: int) -> str:
    """Return torchtitan's lines of a launch that starts at one iteration and reports others."""
    return f"{TITAN}Training starts at step {start}\n" + torchtitan_reports(*iterations)


def torchtitan_reports(*iterations: int) -> str:
    """Return torchtitan's lines about these iterations."""
    return "".join(
        f"{TITAN}step: {iteration:2}  loss: 12.24170  grad_norm:  1.5000  memory:  2.08GiB(3.10%)  "
        "tps: 7,478  tflops: 50.12  mfu: 8.65%\n"
        for iteration in iterations
    )


def maxtext(*steps: int) -> str:
    """Return MaxText's lines about these steps."""
    return "".join(
        f"completed step: {step}, seconds: 3.449, TFLOP/s/device: 412.001, loss: 2.250\n"
        for step in steps
    )


def megatron(*iterations: int, of: int = 1000, loss: float = 3.5, batch: int = 64) -> str:
    """Return Megatron's lines about these iterations."""
    return "".join(
        f" iteration {iteration:8d}/{of:8d} | consumed samples: {iteration * batch:12d} |"
        f" elapsed time per iteration (ms): 1234.5 | learning rate: 1.499E-04 |"
        f" global batch size: {batch:5d} | lm loss: {loss:.6E} | loss scale: 1.0 |"
        " grad norm: 1.234 | number of skipped iterations:   0 |"
        " number of nan iterations:   0 |\n"
        for iteration in iterations
    )


def hugging_face(*losses: float) -> str:
    """Return reports of Hugging Face's Trainer, one per half epoch, without progress bars."""
    return "".join(
        f"{{'loss': {loss}, 'learning_rate': 5e-05, 'epoch': {epoch / 2}}}\n"
        for epoch, loss in enumerate(losses, start=1)
    )


def runs_of(log: str) -> list[LogRun]:
    """Return the runs in the text of a log."""
    return read(io.BytesIO(log.encode()))


def iterations(runs: Sequence[LogRun]) -> list[list[list[int]]]:
    """Return the iterations in each run: for each run, one list per launch."""
    return [
        [
            [record.iteration for record in segment.records if isinstance(record, Step)]
            for segment in segments
        ]
        for segments in (run.segments for run in runs)
    ]


START = OMP * 2 + SIZES + ARGUMENTS.format(4)
OTHER_SIZES = START.replace(
    "world size: 8, data-parallel-size: 2", "world size: 16, data-parallel-size: 4"
)

SPLITS = {
    "one run": (START + megatron(10, 20), [[[10, 20]]]),
    "nothing": ("noise\n", [[[]]]),
    "launched again after an end": (
        START + megatron(10, 20) + KILL + START + megatron(10),
        [[[10, 20]], [[10]]],
    ),
    "launched again after steps": (
        START + megatron(10, 20) + START + megatron(10),
        [[[10, 20]], [[10]]],
    ),
    "launched again without steps": (START + KILL + START + KILL, [[[]], [[]]]),
    "launched again by DeepSpeed": (RUNNER + OOM + RUNNER + megatron(10), [[[]], [[10]]]),
    "trained again in a process": (
        TRAINING * 4 + RESULT * 4 + TRAINING * 4 + RESULT * 4,
        [[[]], [[]]],
    ),
    "trained again without a line about a restart": (
        hugging_face(2.5, 2.0) + RESULT + hugging_face(2.25, 1.75) + RESULT,
        [[[]], [[]]],
    ),
    "a node that reports when another one is done": (
        hugging_face(2.5, 2.0) + RESULT + hugging_face(2.5, 2.0) + RESULT,
        [[[]]],
    ),
    "a sweep of ColossalAI's benchmark on one GPU": (COLOSSALAI * 3, [[[]], [[]], [[]]]),
    "launched on many nodes": (OMP + INIT + OMP + SIZES + OMP + megatron(10, 20), [[[10, 20]]]),
    "one node fails before another one starts": (OMP + OOM + OMP + INIT + KILL, [[[]]]),
    "one node fails while others set themselves up": (START + OOM + INIT + SIZES, [[[]]]),
    "iterations that begin again": (
        megatron(10, 20, 30) + megatron(10, 20, loss=3.4),
        [[[10, 20, 30]], [[10, 20]]],
    ),
    "iterations that begin again with a shorter interval": (
        megatron(10, 20, 30) + megatron(5, 10),
        [[[10, 20, 30]], [[5, 10]]],
    ),
    "copies of other ranks": (
        megatron(10, 20, 30) + megatron(10, 20, 30),
        [[[10, 20, 30, 10, 20, 30]]],
    ),
    "a rank that is overtaken": (megatron(20) + megatron(10, 30), [[[20, 10, 30]]]),
    "a restart from a checkpoint": (
        START + megatron(10, 20, 30) + KILL + START + LOADED.format(20) + megatron(30, 40),
        [[[10, 20, 30], [30, 40]]],
    ),
    "a restart whose checkpoint is not told": (
        megatron(10, 20, 30) + megatron(20, 30, 40, loss=3.4),
        [[[10, 20, 30], [20, 30, 40]]],
    ),
    "torchtitan, from a checkpoint": (
        torchtitan(1, 1, 10, 20, 30) + OOM + torchtitan(21, 30, 40),
        [[[1, 10, 20, 30], [30, 40]]],
    ),
    "torchtitan, from the start": (
        torchtitan(1, 1, 10, 20, 30) + OOM + torchtitan(1, 1, 10),
        [[[1, 10, 20, 30]], [[1, 10]]],
    ),
    "MaxText, from the checkpoint of its last step": (
        maxtext(0, 1, 2) + "restoring from this run's directory step 2\n" * 2 + maxtext(3, 4),
        [[[0, 1, 2], [3, 4]]],
    ),
    "MaxText of 2023, from the checkpoint of its last step": (
        maxtext(0, 1)
        + "restoring from this run's directory latest step           1\n"
        + maxtext(2, 3),
        [[[0, 1], [2, 3]]],
    ),
    "another program, after one that is done": (
        megatron(10, 20, of=50) + DONE + torchtitan_reports(1, 10, 20),
        [[[10, 20]], [[1, 10, 20]]],
    ),
    "another program, after the last planned iteration": (
        megatron(10, 20, of=20) + torchtitan_reports(1, 10),
        [[[10, 20]], [[1, 10]]],
    ),
    "another program, with many reports in a row": (
        torchtitan_reports(1, 10) + f"{TITAN}Training completed\n" + megatron(*range(1, 9)),
        [[[1, 10]], [[*range(1, 9)]]],
    ),
    "another part of a program that reports the last iteration late": (
        megatron(10, 20, of=20) + "0/20, SamplesPerSec=5.5\n",
        [[[10, 20, 20]]],
    ),
    "a restart that fails again": (
        START + megatron(10, 20) + KILL + START + LOADED.format(20) + KILL,
        [[[10, 20], []]],
    ),
    "a checkpoint of nothing": (
        START + megatron(10, 20) + KILL + START + LOADED.format(0) + megatron(10, 20),
        [[[10, 20]], [[10, 20]]],
    ),
    "from a checkpoint, on another number of ranks": (
        START + megatron(10, 20) + KILL + OTHER_SIZES + LOADED.format(20) + megatron(30),
        [[[10, 20]], [[30]]],
    ),
    "from a checkpoint, with other numbers of ranks in a script": (
        "+ WORLD_SIZE=2\n"
        + megatron(10, 20)
        + KILL
        + "+ WORLD_SIZE=4\n"
        + START
        + LOADED.format(20)
        + megatron(30),
        [[[10, 20], [30]]],
    ),
    "from a checkpoint, with another batch": (
        START + megatron(10, 20) + START + LOADED.format(20) + megatron(30, batch=128),
        [[[10, 20]], [[30]]],
    ),
    "from a checkpoint, to another end": (
        START + megatron(10, 20) + START + LOADED.format(20) + megatron(30, of=500),
        [[[10, 20]], [[30]]],
    ),
    "from the checkpoint of a run that is done": (
        START + megatron(10, 20, of=20) + START + LOADED.format(20) + megatron(30, of=20),
        [[[10, 20]], [[30]]],
    ),
    "with a longer interval": (
        START + megatron(5, 10, 15) + START + megatron(10, 20),
        [[[5, 10, 15]], [[10, 20]]],
    ),
    "the project's own runs": (
        f"{OWN_START}\n{OWN_STEP.format(1)}{OWN_END}\n{OWN_START}\n{OWN_STEP.format(1)}",
        [[[1]], [[1]]],
    ),
    "the project's own runs, glued": (
        f"{OWN_START}\n{OWN_STEP.format(1).strip()}{OWN_END}{OWN_START}{OWN_STEP.format(2)}",
        [[[1]], [[2]]],
    ),
    "counters of DeepSpeed that begin again with each epoch": (
        "".join(
            f"{epoch}/{step}, SamplesPerSec={epoch + 5}.5\n" for epoch in (0, 1) for step in (8, 9)
        ),
        [[[8, 9, 8, 9]]],
    ),
}


@pytest.mark.parametrize(("log", "expected"), SPLITS.values(), ids=SPLITS)
def test_runs_and_restarts_are_distinguished(log: str, expected: list[list[list[int]]]) -> None:
    """If a log shows another launch, or if iterations start over, another run begins.

    But a launch that continues from a checkpoint is a restart of the same run.
    """
    assert iterations(runs_of(log)) == expected


def test_every_byte_belongs_to_one_segment() -> None:
    """Each byte of a log belongs to one run; a run begins at the first line of its launch."""
    first, second = "noise\n" + START + megatron(10, 20) + KILL, START + megatron(10) + "noise\n"
    first_run, second_run = runs_of(first + second)
    assert (first_run.index, first_run.begin, first_run.end) == (0, 0, len(first))
    assert (second_run.index, second_run.begin, second_run.end) == (
        1,
        len(first),
        len(first + second),
    )


def test_each_run_has_its_own_settings_and_outcome() -> None:
    """If a log has several runs, each run has its own settings and outcome."""
    killed = OMP + INIT + ARGUMENTS.format(32) + KILL
    first_run, second_run = runs_of(killed + OMP + INIT + ARGUMENTS.format(8) + RESULT * 4)
    assert (first_run.config["micro_batch_size"], second_run.config["micro_batch_size"]) == (
        "32",
        "8",
    )
    assert first_run.outcome is not None
    assert second_run.outcome is not None
    assert (first_run.outcome.kind, first_run.outcome.line) == (KILLED, 5)
    assert (second_run.outcome.kind, second_run.outcome.line) == (COMPLETED, 11)
    assert len(second_run.totals) == 1


def test_the_settings_that_torchtitan_prints_before_it_starts_are_of_its_launch() -> None:
    """All lines at the start of torchtitan, from its GPUs to its first step, are of one run."""
    settings = (
        "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard={0}, cp=1, tp=1,"
        " ep=1, etp=1\n"
        f"{TITAN}Trainer is initialized with local batch size 1, global batch size {{0}}, gradient"
        " accumulation steps 1, sequence length 4096, total steps 20 (warmup 2)\n"
    )
    ready = [TITAN + settings.format(batch) for batch in (8, 16)]
    done = f"{TITAN}Training completed\n"
    first_run, second_run, third_run = runs_of(
        megatron(10, 20) + DONE + "".join(text * 2 + torchtitan(1, 10, 20) + done for text in ready)
    )
    names = ("world_size", "global_batch_size")
    assert [
        [run.config.get(name) for name in names] for run in (first_run, second_run, third_run)
    ] == [[None, None], ["8", "8"], ["16", "16"]]


def validations(of: int, *steps: int) -> str:
    """Return the lines of modded-nanogpt about its validations at these steps."""
    return "".join(
        f"step:{step}/{of} val_loss:3.27839 train_time:{step * 0.147:.3f}s step_avg:147.03ms\n"
        for step in steps
    )


def test_trainings_that_print_only_validations_are_distinguished() -> None:
    """Each training that begins with a validation at step 0 is a run, with its own result."""
    cut = validations(3350, 0, 125)
    first, second, third = runs_of(validations(200, 0, 125, 200) * 2 + cut)
    for run in (first, second):
        assert run.outcome is not None
        assert run.outcome.kind is COMPLETED
        assert [(total.last_iteration, total.train_seconds) for total in run.totals] == [
            (125, 18.375),
            (200, 29.4),
        ]
    assert third.outcome is not None
    assert (third.outcome.kind, len(third.totals)) == (TRUNCATED, 1)


def test_a_training_that_prints_only_validations_may_lack_its_beginning() -> None:
    """Without the validation at step 0, and without the last step, the log is of a cut run."""
    [run] = runs_of(validations(2900, 125, 250))
    assert run.outcome is not None
    assert (run.outcome.kind, run.totals[-1].last_iteration) == (TRUNCATED, 250)


def test_validations_may_end_with_a_carriage_return() -> None:
    """A log from Windows contains no line that could not be parsed."""
    [run] = runs_of(validations(2900, 125, 250).replace("\n", "\r\n"))
    assert (run.not_understood, len(run.totals)) == ((), 2)


def test_throughputs_that_begin_again_are_another_run() -> None:
    """If the steps of MLPerf's throughputs fall after the end, another training began."""
    begin = ':::MLLOG {"key": "global_batch_size", "value": 8}\n'
    rates = "".join(
        f':::MLLOG {{"key": "tracked_stats", "value": {{"throughput": 2.0}}, '
        f'"metadata": {{"step": {step}}}}}\n'
        for step in (1536, 1920, 2304)
    )
    end = ':::MLLOG {"key": "run_stop", "metadata": {"status": "success"}}\n'
    other = rates.replace("2.0", "3.0")
    assert len(runs_of(begin + rates + end + begin + other + end)) == 2
    assert len(runs_of(begin + rates * 2 + end)) == 1  # of two ranks


def test_throughputs_after_an_exception_show_that_the_training_went_on() -> None:
    """An exception in a thread is not the end if throughputs follow it."""
    line = (
        ':::MLLOG {{"key": "tracked_stats", "value": {{"throughput": 2.0}}, '
        '"metadata": {{"step": {}}}}}\n'
    )
    failed = (
        "Exception in thread Thread-3 (_pin):\nTraceback (most recent call last):\n"
        '  File "x.py", line 1\nValueError: bad\n'
    )
    [run] = runs_of(line.format(8) + failed + "".join(map(line.format, (16, 24))))
    assert run.outcome is not None
    assert run.outcome.kind is TRUNCATED


def test_ranks_of_mlperf_that_start_are_one_truncated_run() -> None:
    """The log of a training by MLPerf's rules that ends before the first report is truncated."""
    start = (
        ' 0: :::MLLOG {"namespace": "", "time_ms": 1746053935321, "event_type": "POINT_IN_TIME",'
        ' "key": "init_start", "value": null, "metadata": {"file": "/x/train.py", "lineno": 60}}\n'
    )
    [run] = runs_of("noise\n" + start * 8 + "noise\n")
    assert run.outcome is not None
    assert (run.outcome.kind, run.steps) == (TRUNCATED, [])


def test_trainings_of_mlperf_in_one_log_are_distinguished() -> None:
    """Each training by MLPerf's rules is a run, with its own batch and its own end."""

    def event(key: str, value: str = "null", step: int = 0) -> str:
        rest = f'"value": {value}, "metadata": {{"lineno": 60, "step": {step}}}}}'
        return f':::MLLOG {{"namespace": "", "time_ms": 17, "key": "{key}", {rest}\n'

    def training(batch: int) -> str:
        ranks = event("init_start") * 2
        report = event("tracked_stats", '{"train_step_time": 0.5}', step=9)
        return ranks + event("global_batch_size", str(batch)) + event("init_start") + report

    killed = "Killed\n"
    done = event("run_stop", "null").replace('"lineno": 60', '"status": "success"')
    runs = runs_of(training(8) + done + training(16) + killed + event("init_start"))
    assert [(len(run.steps), run.config["global_batch_size"]) for run in runs[:2]] == [
        (1, "8"),
        (1, "16"),
    ]
    assert [run.outcome and run.outcome.kind for run in runs] == [COMPLETED, KILLED, TRUNCATED]


def test_what_a_script_echoes_belongs_to_the_launch_that_it_prepares() -> None:
    """Variables that `set -x` prints between two launches belong to the second launch."""
    echo = "+ MICRO_BATCH_SIZE={}\n"
    first = echo.format(32) + START + megatron(10) + KILL
    first_run, second_run = runs_of(
        first + echo.format(8) + "+ srun train\n" + OMP + SIZES + megatron(10)
    )
    assert second_run.begin == len(first)
    assert [run.config["micro_batch_size"] for run in (first_run, second_run)] == ["4", "8"]


def test_lines_that_a_script_echoes_at_its_end_are_not_a_launch() -> None:
    """Variables that `set -x` prints at the end of a log do not begin another run."""
    (run,) = runs_of(START + megatron(10) + KILL + "+ MICRO_BATCH_SIZE=8\n+ echo done\n")
    assert run.config["micro_batch_size"] == "4"


@pytest.mark.parametrize("samples", [QUERY, "gpt0 max memory usage: 5603.00M\n"])
def test_samples_of_a_device_are_not_an_unfinished_run(samples: str) -> None:
    """A log that contains only samples of a device, e.g. of nvidia-smi, has the outcome UNKNOWN.

    If the log also has a step, but no end of the training, its outcome is TRUNCATED.
    """
    (run,) = runs_of(samples)
    assert run.outcome is not None
    assert run.outcome.kind is OutcomeKind.UNKNOWN
    (run,) = runs_of(samples + megatron(10))
    assert run.outcome is not None
    assert run.outcome.kind is TRUNCATED


parts = st.sampled_from(
    [
        START,
        OMP,
        INIT,
        KILL,
        OOM,
        RESULT,
        "noise\n",
        "+ X=1\n",
        LOADED.format(5),
        f"{OWN_START}\n",
        f"{OWN_END}\n",
    ]
) | st.builds(megatron, st.integers(1, 30))


@given(log=st.lists(parts, max_size=30).map("".join))
def test_nothing_is_lost_in_splitting(log: str) -> None:
    """Every byte and every record belongs to one run, in order."""
    runs = runs_of(log)
    places = [
        place for run in runs for segment in run.segments for place in (segment.begin, segment.end)
    ]
    assert places == sorted(places)
    assert places[0] == 0
    assert places[-1] == len(log)
    assert places[1:-1:2] == places[2::2]
    assert [run.index for run in runs] == list(range(len(runs)))
    for run in runs:
        for segment in run.segments:
            assert all(segment.begin <= record.offset < segment.end for record in segment.records)


def test_two_runs_on_one_line_keep_their_own_steps() -> None:
    """Two runs whose reports are on one line, with carriage returns, keep their own steps."""
    log = (megatron(10, 20, of=20) + megatron(10, 20, 30, of=30)).replace("\n", "\r")
    assert iterations(runs_of(log)) == [[[10, 20]], [[10, 20, 30]]]
