"""Find the outcome in a log with several signs of an end, and the exception of a traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest
from reports import CUDA_OOM, EXIT_9, OMP, OOM_KILL, OWN_END, OWN_START, OWN_STEP, SLURM

from parsers.records import Outcome, OutcomeKind
from parsers.runs.reading import read

Read = Callable[..., Outcome | None]

GPU, HOST = OutcomeKind.GPU_OUT_OF_MEMORY, OutcomeKind.HOST_OUT_OF_MEMORY
NAN, TIME_LIMIT = OutcomeKind.NAN_LOSS, OutcomeKind.TIME_LIMIT
CANCELLED, KILLED = OutcomeKind.CANCELLED, OutcomeKind.KILLED
COMMUNICATION, ERROR = OutcomeKind.COMMUNICATION_FAILURE, OutcomeKind.ERROR
COMPLETED, TRUNCATED = OutcomeKind.COMPLETED, OutcomeKind.TRUNCATED


FRAMES = '  File "train.py", line 7, in <module>\n    main()\n'
TRACE = f"Traceback (most recent call last):\n{FRAMES}"
BOX = """\
╭─────────────── Traceback (most recent call last) ───────────────╮
│ /a/train.py:7 in main                                           │
│ ❱ 7 │   train()                                                 │
╰─────────────────────────────────────────────────────────────────╯
ValueError: x
"""
LOST = f"{TRACE}torch.distributed.DistBackendError: NCCL error: remote process exited\n"
TOLD_TO_STOP = (
    f"{TRACE}torch.distributed.elastic.SignalException: Process 1 got signal: 15\n"
    "srun: error: n1: task 0: Exited with exit code 143\n"
    "[exiting program after receiving SIGTERM.] datetime: 2026-01-02 03:04:05\n"
)
WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802212 milliseconds"
)
NEMO_STOPS = "[NeMo I preemption:67] Preemption detected, saving checkpoint and exiting\n"
MEGATRON_END = "[after training is done] datetime: 2026-01-02 03:04:05 "
JOB = SLURM.replace("STEP 12.0", "JOB 12")
EXIT_1 = "srun: error: n1: task 3: Exited with exit code 1"
SET_UP = "> using world size: 8, data-parallel-size: 8\n"


ORDERS = {
    "memory before being cancelled": (f"{CUDA_OOM}\n{SLURM} ***\n", GPU),
    "memory after another rank's loss of it": (
        f"{LOST}{CUDA_OOM}\n{SLURM} ***\n",
        GPU,
    ),
    "memory inside a traceback": (f"{TRACE}{CUDA_OOM}\n", GPU),
    "memory before the agent's own traceback": (
        f"{CUDA_OOM}\n{TRACE}torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n",
        GPU,
    ),
    "Slurm explains a kill": (f"{EXIT_9}\n{TRACE}ChildFailedError: x\n{OOM_KILL}\n", HOST),
    "the first of two memory failures": (f"{CUDA_OOM}\n{OOM_KILL}\n", GPU),
    "a lost connection explains nothing": (f"{LOST}{EXIT_9}\n", KILLED),
    "an error, then cancelled": (f"{TRACE}ValueError: x\n{SLURM} ***\n", ERROR),
    "cancelled, then killed": (f"{SLURM} ***\n{EXIT_9}\n", CANCELLED),
    "a step cancelled before its job was preempted": (
        f"{SLURM} ***\n{JOB} DUE TO PREEMPTION ***\n",
        OutcomeKind.PREEMPTED,
    ),
    "a step cancelled and its task killed before its job reached the time limit": (
        f"{SLURM} ***\n{EXIT_1}\n{JOB} DUE TO TIME LIMIT ***\n",
        OutcomeKind.TIME_LIMIT,
    ),
    "an error before a step was cancelled and its job preempted": (
        f"{TRACE}ValueError: x\n{SLURM} ***\n{SLURM} DUE TO PREEMPTION ***\n",
        ERROR,
    ),
    "a checkpoint of NeMo before the time limit": (
        f"{NEMO_STOPS}{JOB} DUE TO TIME LIMIT ***\n",
        OutcomeKind.TIME_LIMIT,
    ),
    "interrupted by the user before the time limit": (
        f"{TRACE}KeyboardInterrupt\n{SLURM} DUE TO TIME LIMIT ***\n",
        CANCELLED,
    ),
    "stopped by a signal before the time limit": (
        f"{TOLD_TO_STOP}{EXIT_9[:-1]}15\n{SLURM} DUE TO TIME LIMIT ***\n",
        OutcomeKind.TIME_LIMIT,
    ),
    "stopped by a signal without a reason in the log": (TOLD_TO_STOP, KILLED),
    "cancelled, then stopped by a signal": (
        f"{SLURM} ***\n{TRACE}torch.distributed.elastic.SignalException: Process 1 got 15\n",
        CANCELLED,
    ),
    "a task's exit, then cancelled": (
        f"srun: error: n1: task 3: Exited with exit code 1\n{SLURM} ***\n",
        ERROR,
    ),
    "found NaN, raised": (f"{TRACE}AssertionError: Rank 3: found NaN in local forward loss\n", NAN),
    "only a lost connection": (LOST, COMMUNICATION),
    "only one process ended well": (f"Process 4 exits successfully.\n{LOST}", COMMUNICATION),
    "a lost connection and its process's end": (f"{LOST}{EXIT_9[:-2]}1\n", COMMUNICATION),
    "a lost connection, then cancelled": (f"{LOST}{SLURM} ***\n", COMMUNICATION),
    "a lost connection, until time was up": (
        f"{WATCHDOG}\n{SLURM} DUE TO TIME LIMIT ***\n",
        COMMUNICATION,
    ),
    "cancelled, so that the connection is lost": (f"{SLURM} ***\n{LOST}", CANCELLED),
    "an error of one rank, the connection of the others": (f"{LOST}{TRACE}ValueError: x\n", ERROR),
    "a node's failure explains a lost connection": (
        f"{WATCHDOG}\nsrun: error: Node failure on n1\n",
        OutcomeKind.NODE_FAILURE,
    ),
    "interrupted at the keyboard": (f"{TRACE}KeyboardInterrupt\n", CANCELLED),
    "stopped because one of them ended": (f"{EXIT_9[:-2]}1\n{EXIT_9}\n", ERROR),
    "stopped without a reason in the log": ("Killing subprocess 7\nKilling subprocess 8\n", KILLED),
    "stopped for a reason": (f"Killing subprocess 7\n{LOST}", COMMUNICATION),
    "stopped because it was cancelled": (
        f"Killing subprocess 7\n{SLURM} ***\n",
        CANCELLED,
    ),
    "Megatron's end, then cancelled": (f"{MEGATRON_END}\n{SLURM} ***\n", COMPLETED),
    "another launch after an end": (f"{OMP}{SET_UP}{CUDA_OOM}\n{OMP}{SET_UP}", TRUNCATED),
    "a slow node's launcher after another one's end": (f"{OMP}{CUDA_OOM}\n{OMP}{SET_UP}", GPU),
    "a slow node's set-up after another one's end": (f"{OMP}{SET_UP}{CUDA_OOM}\n{SET_UP}", GPU),
    "survived a failure": (f"{OWN_START}\n{CUDA_OOM}\n{OWN_END}\n", COMPLETED),
    "cancelled after the end": (f"{OWN_START}\n{OWN_END}\n{SLURM} ***\n", COMPLETED),
    "failed, then run again": (f"{OWN_START}\n{CUDA_OOM}\n{OWN_START}\n{OWN_END}\n", COMPLETED),
    "run again, then failed": (f"{OWN_START}\n{OWN_END}\n{OWN_START}\n{CUDA_OOM}\n", GPU),
    "killed, raised by another process": (
        f"{TRACE}RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. \n",
        KILLED,
    ),
    "killed, raised by the parent of a process": (
        f"{TRACE}subprocess.CalledProcessError: Command '['a']' died with <Signals.SIGKILL: 9>.\n",
        KILLED,
    ),
    "killed, raised by torch.multiprocessing": (
        f"{TRACE}Exception: process 1 terminated with signal SIGKILL\n",
        KILLED,
    ),
    "the terminal is gone": (f"{TRACE}api.SignalException: Process 1 got signal: 1\n", KILLED),
    "interrupted under torchrun": (f"{TRACE}SignalException: Process 1 got signal: 2\n", CANCELLED),
    "no peer at the start": (
        f"{TRACE}TimeoutError: The client socket has timed out after 60s while trying to connect\n",
        COMMUNICATION,
    ),
    "a loss that is nan": (f"{TRACE}RuntimeError: Train loss contains a NaN.\n", NAN),
    "a loss that became infinite": (
        f"{TRACE}FloatingPointError: Loss became infinite or NaN at iteration=3!\n",
        NAN,
    ),
    "an error that names an infinite number": (f"{TRACE}ValueError: lr must not be inf\n", ERROR),
    "a service of JAX that does not answer": (
        f"{TRACE}jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out.\n",
        COMMUNICATION,
    ),
    "Gloo waits for another rank": (
        f"{TRACE}RuntimeError: [g/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv op\n",
        COMMUNICATION,
    ),
    "an error of a worker after an actor of Ray has died": (
        f"{TRACE}ray.exceptions.ActorDiedError: The actor died\n{TRACE}ValueError: x\n{EXIT_1}\n",
        ERROR,
    ),
    "an actor of Ray whose node has died": (
        f"{TRACE}RayActorError: The actor died.\nThe actor is dead because its node has died.\n",
        OutcomeKind.NODE_FAILURE,
    ),
    "a child of accelerate that was killed": (
        f"{TRACE}subprocess.CalledProcessError: Command '['a']' returned exit status 137.\n",
        KILLED,
    ),
    "no rendezvous": (
        f"{TRACE}torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: x\n",
        COMMUNICATION,
    ),
    "preempted, then requeued": (
        (
            "Caught signal SIGUSR2 on n1: this job is preempted.\n"
            f"{SLURM} DUE TO JOB REQUEUE ***\nsrun: error: n1: tasks 2-3: Exited with exit code 1\n"
        ),
        OutcomeKind.PREEMPTED,
    ),
    "a time-out of Ascend": (
        (
            f"{TRACE}RuntimeError: npuSynchronizeDevice:NPUStream.cpp:435 NPU function error: "
            f"aclrtSynchronizeDevice, error code is 507048\n{SLURM} ***\n"
        ),
        COMMUNICATION,
    ),
    "a killed process explains a time-out of Ascend": (
        f"{TRACE}RuntimeError: OPS function error: HcclAllreduce, error code is 6\n{EXIT_9}\n",
        KILLED,
    ),
    "torchrun starts the processes again": (
        (
            f"{OMP}{SET_UP}{TRACE}ValueError: x\n{EXIT_9[:-2]}1\n"
            "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
        ),
        TRUNCATED,
    ),
    "torchrun's last attempt fails": (
        (
            f"{OMP}{SET_UP}{TRACE}ValueError: x\n"
            "[default] Worker group FAILED. 1/1 attempts left; will restart worker group\n"
            f"{SET_UP}{CUDA_OOM}\n"
        ),
        GPU,
    ),
    "an exception of a thread, and nothing after it": (
        f"Exception in thread Thread-4 (_pin_memory_loop):\n{TRACE}OSError: x\n",
        ERROR,
    ),
    "an exception of a thread, then cancelled": (
        f"Exception in thread Thread-4:\n{TRACE}OSError: x\n{SLURM} ***\n",
        CANCELLED,
    ),
    "an exception of a thread before the set-up": (
        f"{OMP}Exception in thread NetStatThr:\n{TRACE}BrokenPipeError: x\n{SET_UP}{OWN_END}\n",
        COMPLETED,
    ),
    "two runs glued, the second unfinished": (f"{OWN_START}\n{OWN_END}{OWN_START}\n", TRUNCATED),
}


@pytest.mark.parametrize(("log", "kind"), ORDERS.values(), ids=ORDERS.keys())
def test_the_cause_wins_over_its_consequences(outcome: Read, log: str, kind: OutcomeKind) -> None:
    """If a log has several errors, the outcome is the cause and not its consequences."""
    run_end = outcome(log)
    assert run_end is not None
    assert run_end.kind is kind


TRACEBACKS = {
    "plain": (f"{TRACE}ValueError: fp16 is not supported\n", "ValueError: fp16 is not supported"),
    "without message": (f"{TRACE}StopIteration\n", "StopIteration"),
    "dotted": (f"{TRACE}socket.gaierror: [Errno -2] x\n", "socket.gaierror: [Errno -2] x"),
    "labelled": (
        "".join(f"[rank1]: {line}\n" for line in f"{TRACE}ValueError: x".splitlines()),
        "ValueError: x",
    ),
    "two labels": (
        "".join(f"  3: [rank1]: {line}\n" for line in f"{TRACE}ValueError: x".splitlines()),
        "ValueError: x",
    ),
    "behind the name of a node": (
        "".join(f"worker-1: {line}\n" for line in f"{TRACE}ValueError: x".splitlines()),
        "ValueError: x",
    ),
    "behind the label of mpirun": (
        "".join(f"[1,3]<stderr>:{line}\n" for line in f"{TRACE}ValueError: x".splitlines()),
        "ValueError: x",
    ),
    "behind the label of Ray": (
        "".join(
            f"\x1b[36m(Worker pid=7, ip=10.0.0.2)\x1b[0m {line}\n"
            for line in f"{TRACE}ValueError: x".splitlines()
        ),
        "ValueError: x",
    ),
    "behind times": (
        "".join(
            f"2026-01-02T03:04:0{second}.5Z {line}\n"
            for second, line in enumerate(f"{TRACE}ValueError: x".splitlines())
        ),
        "ValueError: x",
    ),
    "behind the label and the time of a pod": (
        "".join(
            f"[pod/train-0/main] 2026-01-02T03:04:0{second}.5Z {line}\n"
            for second, line in enumerate(f"{TRACE}ValueError: x".splitlines())
        ),
        "ValueError: x",
    ),
    "behind the time of a logger": (
        "".join(
            f"2026-01-02 03:04:0{second},567 {line}\n"
            for second, line in enumerate(f"{TRACE}ValueError: x".splitlines())
        ),
        "ValueError: x",
    ),
    "behind an address": (
        "".join(f"10.0.0.2: {line}\n" for line in f"{TRACE}ValueError: x".splitlines()),
        "ValueError: x",
    ),
    "behind any text with a number": (
        "".join(
            f"<{number} of a launcher> {line}\n"
            for number, line in enumerate(f"{TRACE}ValueError: x".splitlines())
        ),
        "ValueError: x",
    ),
    "behind the label of docker compose": (
        "".join(f"main-1  | {line}\n" for line in f"{TRACE}ValueError: x".splitlines()),
        "ValueError: x",
    ),
    "behind the full name of a node": (
        "".join(f"node-1.example.org: {line}\n" for line in f"{TRACE}ValueError: x".splitlines()),
        "ValueError: x",
    ),
    "of a module with a digit": (
        f"{TRACE}urllib3.exceptions.MaxRetryError: x\n",
        "urllib3.exceptions.MaxRetryError: x",
    ),
    "in a box": (BOX, "ValueError: x"),
    "in a box, of a rank": (
        "".join(f"[rank1]: {line}\n" for line in BOX.splitlines()),
        "ValueError: x",
    ),
    "two ranks in turns": (
        "".join(
            f"[rank0]: {line}\n[rank1]: {line.replace('Value', 'Type')}\n"
            for line in f"{TRACE}ValueError: x".splitlines()
        ),
        "ValueError: x",
    ),
    "a logger in between": (
        f"{TRACE}[2026-01-02 03:04:05,678] [INFO] still here\nWARNING: x\n\nValueError: x\n",
        "ValueError: x",
    ),
    "behind a bar": (f"  2%|▏ | 1/50 [00:03<02:44]{TRACE}ValueError: x\n", "ValueError: x"),
    "behind many bars": ("\r  2%|▏ | 1/50" * 9999 + f"\r{TRACE}ValueError: x\n", "ValueError: x"),
    "the first of a chain": (
        f"{TRACE}KeyError: 'a'\n\nThe above exception was the direct cause:\n\n{TRACE}OSError: x\n",
        "KeyError: 'a'",
    ),
    "carriage returns": (f"{TRACE}ValueError: x\n".replace("\n", "\r\n"), "ValueError: x"),
    "cut off in its frames": (TRACE, "Traceback (most recent call last):"),
    "cut off after its header": (
        "Traceback (most recent call last):",
        "Traceback (most recent call last):",
    ),
}


@pytest.mark.parametrize(("log", "line"), TRACEBACKS.values(), ids=TRACEBACKS.keys())
def test_a_traceback_is_shown_by_its_exception(
    outcome: Read, tmp_path: Path, log: str, line: str
) -> None:
    """The outcome contains the line of a traceback that names the error, and this line's offset."""
    run_end = outcome(f"noise\n{log}")
    assert run_end is not None
    assert (run_end.kind, run_end.text) == (ERROR, line)
    assert run_end.offset is not None
    here = (tmp_path / "log").read_bytes()[run_end.offset :].splitlines()[0]
    assert here.endswith(line.encode())


HARMLESS = (
    f"Exception ignored in: <function Pool.__del__ at 0x7f>\n{TRACE}OSError: x\n",
    f"Error in atexit._run_exitfuncs:\n{TRACE}BrokenPipeError: x\n",
    f"--- Logging error ---\n{TRACE}UnicodeEncodeError: x\n",
    "Traceback (most recent call last):\nis how an error report begins\n",
)


@pytest.mark.parametrize("log", HARMLESS)
def test_a_traceback_that_ended_nothing_is_not_an_end(outcome: Read, log: str) -> None:
    """A traceback after which Python continues, e.g. of a destructor, is not the end of the run."""
    run_end = outcome(f"{log}{SLURM} DUE TO TIME LIMIT ***\n")
    assert run_end is not None
    assert run_end.kind is TIME_LIMIT


def test_a_half_written_last_line_is_not_believed_while_the_run_goes_on(outcome: Read) -> None:
    """While a program writes the log, an incomplete last line does not determine the outcome.

    If the incomplete line names the exception of a traceback, the outcome quotes the first line of
    the traceback instead.
    """
    assert outcome(OWN_END, complete=False) is None
    run_end = outcome(f"{TRACE}ValueEr", complete=False)
    assert run_end is not None
    assert run_end.text == "Traceback (most recent call last):"


def test_a_step_after_an_exception_of_a_thread_shows_that_the_run_goes_on(
    tmp_path: Path,
) -> None:
    """If a step follows the exception of a thread, the exception did not end the run."""
    log = tmp_path / "log"
    thread = f"Exception in thread NetStatThr:\n{TRACE}BrokenPipeError: x\n"
    log.write_text(f"{OWN_START}\n{thread}{OWN_STEP.format(5)}")
    assert [run.outcome.kind for run in read(log)] == [TRUNCATED]
    log.write_text(f"{OWN_START}\n{OWN_STEP.format(5)}{thread}")
    assert [run.outcome.kind for run in read(log)] == [ERROR]
