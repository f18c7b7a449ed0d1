"""Messages that show how a run ended, and the weight of each.

The messages are from PyTorch's allocators and process groups, NCCL, HCCL, drivers of GPUs, Slurm,
LSF, PBS, Flux, Kubernetes, Ray, bash, launchers such as torchrun, and training programs.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from parsers.records import OutcomeKind


class Weight(IntEnum):
    """The weight of a message; a lower weight wins over a higher one, wherever the lines are."""

    FINISHED = 0  # the training is done: what came before was survived
    CAUSE = 1  # explains itself and much of what surrounds it
    END = 2  # ends a run; a consequence if something of this weight came before
    CONSEQUENCE = 3  # happens because another process ended
    EXIT = 4  # a process ended badly, and nothing says why
    AFTERMATH = 5  # what is left is stopped
    LAUNCHER = 6  # the launcher saw nothing go wrong
    THREAD = 7  # an exception ended one thread of a process; a step after it shows that it is over


@dataclass(frozen=True, slots=True)
class Sign:
    """A message that shows how a run ended.

    kind: how the run ended.
    anchor: bytes that each line with the message contains.
    pattern: a regular expression that matches the message.
    explained_by: weights. If an earlier message has one of these weights, it is the cause of this
    message, and this message gets the weight AFTERMATH.
    """

    kind: OutcomeKind
    weight: Weight
    anchor: bytes
    pattern: re.Pattern[str]
    explained_by: tuple[Weight, ...] = ()


def _sign(
    kind: OutcomeKind, weight: Weight, anchor: bytes, pattern: str, *explained_by: Weight
) -> Sign:
    return Sign(kind, weight, anchor, re.compile(pattern), explained_by)


_COMPLETED, _NAN = OutcomeKind.COMPLETED, OutcomeKind.NAN_LOSS
_GPU, _HOST = OutcomeKind.GPU_OUT_OF_MEMORY, OutcomeKind.HOST_OUT_OF_MEMORY
_TIME_LIMIT, _CANCELLED = OutcomeKind.TIME_LIMIT, OutcomeKind.CANCELLED
_NODE_FAILURE, _PREEMPTED = OutcomeKind.NODE_FAILURE, OutcomeKind.PREEMPTED
_COMMUNICATION = OutcomeKind.COMMUNICATION_FAILURE
_ERROR, _KILLED = OutcomeKind.ERROR, OutcomeKind.KILLED

_FINISHED, _CAUSE, _END = Weight.FINISHED, Weight.CAUSE, Weight.END
_CONSEQUENCE, _EXIT, _AFTERMATH = Weight.CONSEQUENCE, Weight.EXIT, Weight.AFTERMATH

_SRUN, _BASH = b"srun: error: ", b": line "
# slurmstepd prints its name before `error: `, with the node's name if a machine runs the daemons of
# several nodes. Since Slurm 25.05 it prints the time instead, e.g. `[2026-01-02T03:04:05.678] `.
# Old daemons print only their name, e.g. `slurmd[n1]: `.
_STEPD = r"(?:error|slurm(?:step)?d\S*): \*\*\* (?:JOB|STEP) .*"
_CANCELLED_BY_SLURM = b" CANCELLED "
CANCELLED_AT = rf"{_STEPD}\bCANCELLED(?: AT \S+)?"
# NPU: Ascend, MLU: Cambricon, MUSA: Moore Threads
_DEVICE = "(?:CUDA|HIP|XPU|NPU|MLU|MUSA)"
_TASKS = r"\btasks? [0-9,\[\]-]+: "
_PROCESS = r": line [0-9]+: +[0-9]+ "
_CRASH = "(?:Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception)"
_MPIRUN = b"noticed that process rank"
_STOPPED, _DETECTED = b"Training stopped: ", b"is detected by the operating system"
_FATAL = r"(?:(?:^|\])F[0-9]{4} |^[0-9-]+ [0-9:.]+: F )"  # of Google's loggers
# LSF and PBS
_JOB_KILLED, _PBS = b"job killed", r"^=>> PBS: job killed: "
# Newer releases print the job's identifier before the type.
_FLUX, _FLUX_ENDS = b"job.exception", r"\bjob\.exception (?:\S+ )?type="
_RAY_JOB = r"^(?:.* -- )?Job '[\w.-]+'"
# torchx and NeMo-Run, and SkyPilot
_JOB_FINISHED = r"\bJob (?:\S+ )?finished(?:: | \(status: )"
_NOT_FOUND = r": line [0-9]+: .*: (?:No such|command not)"
_RESULT = r"\{(?![^{}]*'loss': )[^{}]*'train_runtime': [^{}]*"  # of a whole training

# What the exit code of a process shows, or the signal that ended it. Launchers print the signal 9
# as -9, or as 128 + 9, or as 256 - 9. A process that ends by SIGTERM was stopped by another.
_CODES = (
    (_KILLED, _END, "(?:-9|137|247)", (_EXIT,)),
    (_KILLED, _AFTERMATH, "(?:-15|143|241)", ()),
    (_ERROR, _EXIT, "-?[1-9][0-9]*", ()),
)
_SIGNALS = (
    (_KILLED, _END, "9", (_EXIT,)),
    (_KILLED, _AFTERMATH, "15", ()),
    (_ERROR, _EXIT, "[1-9][0-9]*", ()),
)


def _exits(
    anchor: bytes,
    pattern: str,
    codes: tuple[tuple[OutcomeKind, Weight, str, tuple[Weight, ...]], ...] = _CODES,
) -> tuple[Sign, ...]:
    """Return the signs of a message with an exit code, which is `<code>` in its pattern."""
    return tuple(
        _sign(kind, weight, anchor, pattern.replace("<code>", rf"{code}(?![0-9])"), *explained_by)
        for kind, weight, code, explained_by in codes
    )


# The first sign that matches a line counts.
SIGNS = (
    _sign(_NAN, _FINISHED, b"'train_runtime': ", _RESULT + r"'train_loss': '?nan[^{}]*\}"),
    _sign(_COMPLETED, _FINISHED, b"'train_runtime': ", _RESULT + r"\}"),
    _sign(_COMPLETED, _FINISHED, b'"train_runtime": ', r'^\s{4,6}"train_runtime": [0-9.]+,$'),
    _sign(_COMPLETED, _FINISHED, b"***** train metrics *****", r"\*{5} train metrics \*{5}\s*$"),
    _sign(_COMPLETED, _FINISHED, b"[after training is done]", r"\[after training is done\]"),
    _sign(_COMPLETED, _FINISHED, b"Training completed", r" - INFO - Training completed\s*$"),
    _sign(_COMPLETED, _FINISHED, b"Training complete", r"\bINFO\b.*\bTraining complete\s*$"),
    _sign(_COMPLETED, _FINISHED, b"`Trainer.fit` stopped", r"`Trainer\.fit` stopped: `max_\w+="),
    # Lightning, e.g. in NeMo, with an option `max_time`
    _sign(
        _COMPLETED, _FINISHED, b"Signaling Trainer", r"\bTime limit reached\. .* Signaling Trainer"
    ),
    # Paddle's Trainer, and its older scripts
    _sign(_COMPLETED, _FINISHED, b"Training completed.", r"^Training completed\.\s*$"),
    _sign(_COMPLETED, _FINISHED, b"The training process", r"\] - The training process is complete"),
    _sign(_COMPLETED, _FINISHED, b'"run_stop"', r':::MLLOG .*"run_stop".*"status": "success"'),
    _sign(_ERROR, _END, b'"run_stop"', r':::MLLOG .*"run_stop".*"status": "aborted"'),
    # litgpt
    _sign(_COMPLETED, _FINISHED, b"Training time: ", r"^Training time: [0-9]+\.[0-9]{2}s\s*$"),
    _sign(
        _COMPLETED, _FINISHED, b"| - Training Time ", r"^\| - Training Time +: +[0-9]+\.[0-9]{2} s"
    ),
    # prime-rl
    _sign(
        _COMPLETED, _FINISHED, b"trainer finished!", r"\bSUCCESS (?:SFT|RL) trainer finished!\s*$"
    ),
    # fairseq
    _sign(_COMPLETED, _FINISHED, b"done training in ", r"\bdone training in [0-9.]+ seconds"),
    # modded-nanogpt, and programs made from it that may stop before the last step
    _sign(
        _COMPLETED,
        _FINISHED,
        b"peak memory ",
        r"^peak memory (?:allocated|consumption): [0-9]+ MiB",
    ),
    _sign(
        _COMPLETED,
        _FINISHED,
        b" val_loss:",
        r"^step:([0-9]+)/\1 val_loss:\S+ (?:\w+:\S+ ){0,9}train_time:[0-9]",
    ),
    # parameter-golf
    _sign(
        _COMPLETED,
        _FINISHED,
        b"stopping_early: ",
        r"^stopping_early: wallclock_cap train_time: ?[0-9]+ms step: ?[0-9]",
    ),
    # Transformer-XL
    _sign(_COMPLETED, _FINISHED, b"End of training", r"\| End of training \| test time: +[0-9]"),
    # mistral-finetune
    _sign(_COMPLETED, _FINISHED, b"INFO - done!", r" - train - INFO - done!\s*$"),
    # nanochat and autoresearch
    _sign(_COMPLETED, _FINISHED, b"Total training time: ", r"^Total training time: [0-9.]+m\s*$"),
    _sign(_COMPLETED, _FINISHED, b"peak_vram_mb: ", r"^peak_vram_mb: +[0-9]+\.[0-9]\s*$"),
    # LiBai and other programs with detectron2's hooks
    _sign(
        _COMPLETED, _FINISHED, b"Total training time: ", r"\bTotal training time: \S+ \(\S+ on h"
    ),
    _sign(_COMPLETED, _FINISHED, b"exiting program ", r"\bexiting program at iteration [0-9]"),
    _sign(_COMPLETED, _FINISHED, b"exiting program ", r"\bexiting program after [0-9.]+ minutes"),
    _sign(_CANCELLED, _AFTERMATH, b"exiting program ", r"\bexiting program after receiving SIG"),
    _sign(
        _COMPLETED,
        _FINISHED,
        b"Final validation metrics: ",
        r"(?:^|['\"])Final validation metrics: (?:\{|None)",
    ),
    # MaxText
    _sign(
        _COMPLETED,
        _FINISHED,
        _STOPPED,
        r"\bTraining stopped: (?:Target loss .* is achieved|You may have run out of training data)",
    ),
    _sign(_PREEMPTED, _AFTERMATH, _STOPPED, r"\bTraining stopped: Job is preempted"),
    _sign(_CANCELLED, _AFTERMATH, _STOPPED, r"\bTraining stopped: Job received termination signal"),
    _sign(_ERROR, _END, _STOPPED, r"\bTraining stopped: (?:Checkpointing failed|`next\()"),
    _sign(_NAN, _CAUSE, b"Aborting training", r"\bAborting training due to (?:NaN|Inf) loss"),
    _sign(_COMPLETED, _FINISHED, b"Peak CUDA mem: ", r"Peak CUDA mem: [0-9.]+ GB"),
    _sign(_COMPLETED, _FINISHED, b" throughput: ", r"Overall throughput: [0-9.]+ samples/s"),
    _sign(
        _COMPLETED, _FINISHED, b"by Megatron: ", r"samples/sec, TFLOPS per GPU by Megatron: [0-9]"
    ),
    _sign(_GPU, _CAUSE, b"out of memory", rf"Error: {_DEVICE} out of memory"),
    _sign(_GPU, _CAUSE, b"out of memory", rf"\b{_DEVICE} out of memory\. Tried to allocate"),
    _sign(_GPU, _CAUSE, b"out of memory", rf"\b{_DEVICE} (?:driver )?[Ee]rror: out of memory"),
    _sign(_GPU, _CAUSE, b"out of memory", r"Error: MPS backend out of memory \("),
    _sign(_GPU, _CAUSE, b"out of memory", r"cuda runtime error \(2\) ?: out of memory"),
    _sign(_GPU, _CAUSE, b"out of memory", r"Cuda failure (?:2 )?'out of memory'"),
    _sign(_GPU, _CAUSE, b"MemoryError", r"^torch\.(?:cuda\.)?OutOfMemoryError: \S"),
    _sign(_GPU, _CAUSE, b"ALLOC_FAILED", r"Error: CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
    _sign(_GPU, _CAUSE, b"ALLOC_FAILED", r"Error: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    _sign(_GPU, _CAUSE, b"to CUDA calloc", r"^Failed to CUDA calloc async [0-9]+ bytes"),
    _sign(_GPU, _CAUSE, b"PT_DEVMEM", r"MODULE:PT_DEVMEM Allocation failed"),
    _sign(_GPU, _CAUSE, b"Out of memory error on", r"^Out of memory error on \w+ [0-9]+\. Cannot"),
    _sign(
        _GPU,
        _CAUSE,
        b"RESOURCE_EXHAUSTED",
        r"^\S*(?:Runtime|Value)Error: RESOURCE_EXHAUSTED: (?!Received message)",
    ),
    _sign(_GPU, _CAUSE, b"OUT_OF_DEVICE_MEMORY", r"Error: .*\bUR_RESULT_ERROR_OUT_OF_DEVICE_MEM"),
    # Ascend: CANN's code of the error, and MindSpore
    _sign(_GPU, _CAUSE, b"EL0004: ", r"^\s*EL0004: .*\b[Aa]llocat"),
    _sign(_GPU, _CAUSE, b"and alloc failed", r"Device.* memory isn't enough and alloc failed"),
    _sign(_GPU, _CAUSE, b"OUT_OF_RESOURCES: ", r"[Aa]borting with error : HSA\w+: .*\bmem : 0 MB"),
    _sign(_HOST, _CAUSE, b"std::bad_alloc", r"(?:instance of '|what\(\):  |Error: )std::bad_all"),
    _sign(_HOST, _CAUSE, b"DefaultCPUAllocator", r"DefaultCPUAllocator: (?:can't|not enough)"),
    _sign(_HOST, _CAUSE, b"MemoryError", r"^(?:\w+\.)*_?(?:Array)?MemoryError(?::|$)"),
    _sign(_HOST, _CAUSE, b"Out of memory: Kill", r"\bOut of memory: Kill(?:ed)? process [0-9]"),
    _sign(
        _HOST,
        _CAUSE,
        b"out of memory: Kill",
        r"\bMemory cgroup out of memory: Killed process [0-9]",
    ),
    _sign(_HOST, _CAUSE, b"MemoryError", r"^ray\.exceptions\.OutOfMemoryError: \S"),
    _sign(
        _HOST,
        _CAUSE,
        b"memory pressure",
        r"\(raylet\) .*[1-9][0-9]* Workers .*killed due to memory pressure",
    ),
    _sign(_HOST, _CAUSE, b"Cannot allocate", r"^OSError: \[Errno 12\] Cannot allocate memory"),
    _sign(_HOST, _CAUSE, b"Cannot allocate", r"Error: .*: Cannot allocate memory \(12\)"),
    _sign(_HOST, _CAUSE, b"Cannot allocate", r"\bfork: Cannot allocate memory"),
    _sign(_HOST, _CAUSE, _JOB_KILLED, r"^TERM_(?:MEMLIMIT|SWAP): job killed"),
    _sign(_HOST, _CAUSE, _JOB_KILLED, rf"{_PBS}p?v?mem \S+ exceeded limit"),
    # Kubernetes: a pod that is described, or listed
    _sign(_HOST, _CAUSE, b"OOMKilled", r'^\s*"?[Rr]eason"?: +"?OOMKilled\b'),
    _sign(_HOST, _CAUSE, b"OOMKilled", r"\s[0-9]+/[0-9]+\s+OOMKilled\s"),
    _sign(_HOST, _CAUSE, b" low on resource", r"\b[Nn]ode was low on resource: memory\b"),
    _sign(_HOST, _CAUSE, b" oom", r"\berror: [Dd]etected [0-9]+ oom[-_]kill event"),
    _sign(
        _HOST,
        _CAUSE,
        b"being killed",
        r"\berror: \S.* exceeded (?:virtual )?memory limit \([0-9]+ > [0-9]+\), being killed",
    ),
    _sign(_HOST, _CAUSE, b" memory limit", r"\bExceeded (?:job|step) memory limit\s*$"),
    _sign(_HOST, _CAUSE, _SRUN, rf"{_TASKS}Out Of Memory"),
    # DeepSpeed and fairseq, when the gradients are not finite at any scale; and torchvision
    _sign(
        _NAN,
        _CAUSE,
        b"already at minimum",
        r"\bCurrent loss scale already at minimum - cannot decrease",
    ),
    _sign(
        _NAN, _CAUSE, b"loss scale reached", r"^(?:\w+Error|Exception): Minimum loss scale reached"
    ),
    _sign(_NAN, _CAUSE, b", stopping training", r"^Loss is .*(?:nan|inf).*, stopping training"),
    _sign(_NAN, _CAUSE, b"found NaN in", r"\bfound NaN in (?:local|the) "),
    _sign(_NAN, _CAUSE, b"found Inf in", r"\bfound Inf in (?:local|the) "),
    # A fault of a GPU: another node helps.
    _sign(
        _NODE_FAILURE,
        _CAUSE,
        b"uncorrectable",
        rf"\b{_DEVICE} error: uncorrectable (?:ECC|NVLink) error",
    ),
    _sign(_NODE_FAILURE, _CAUSE, b" off the bus", r"\bGPU has fallen off the bus"),
    _sign(_NODE_FAILURE, _CAUSE, b"GPU is lost", r"\bdevice handle for GPU.*: GPU is lost"),
    _sign(
        _TIME_LIMIT,
        _END,
        _CANCELLED_BY_SLURM,
        rf"{CANCELLED_AT} DUE TO TIME LIMIT",
        _CONSEQUENCE,
        _EXIT,
    ),
    _sign(_TIME_LIMIT, _END, b"time limit", r"\bJob \S+ has exceeded its time limit"),
    _sign(
        _TIME_LIMIT,
        _END,
        _JOB_KILLED,
        r"^TERM_(?:RUNLIMIT|CPULIMIT|DEADLINE|WINDOW): job killed",
        _CONSEQUENCE,
        _EXIT,
    ),
    _sign(
        _TIME_LIMIT,
        _END,
        _JOB_KILLED,
        rf"{_PBS}(?:walltime|p?cput) \S+ exceeded limit",
        _CONSEQUENCE,
        _EXIT,
    ),
    _sign(_TIME_LIMIT, _END, _FLUX, rf"{_FLUX_ENDS}timeout severity=0", _CONSEQUENCE, _EXIT),
    # Kubernetes
    _sign(_TIME_LIMIT, _END, b"specified deadline", r"\bJob was active longer than specified dead"),
    # GNU's timeout
    _sign(_TIME_LIMIT, _END, b": sending signal", r"^timeout: sending signal \w+ to command "),
    _sign(
        _TIME_LIMIT, _END, b": this job is ", r"\bCaught signal SIG\w+ on .*: this job is timed-o"
    ),
    _sign(
        _PREEMPTED, _END, b": this job is ", r"\bCaught signal SIG\w+ on .*: this job is preempt"
    ),
    _sign(_PREEMPTED, _END, _CANCELLED_BY_SLURM, rf"{CANCELLED_AT} DUE TO PREEMPTION"),
    # NeMo 2 after a SIGTERM; Slurm may later report why it sent the signal.
    _sign(
        _PREEMPTED,
        _AFTERMATH,
        b"Preemption detected",
        r"\bpreemption:[0-9]+\] Preemption detected, saving checkpoint and exiting",
    ),
    _sign(_PREEMPTED, _END, _JOB_KILLED, r"^TERM_PREEMPT: job killed"),
    _sign(_NODE_FAILURE, _END, _JOB_KILLED, rf"{_PBS}node [0-9]+ .*\bsister MOM"),
    _sign(_NODE_FAILURE, _END, _FLUX, rf"{_FLUX_ENDS}exec severity=0 (?:node failure|lost con)"),
    _sign(_NODE_FAILURE, _END, _CANCELLED_BY_SLURM, rf"{CANCELLED_AT} DUE TO NODE (?:\S+ )?FAIL"),
    _sign(_NODE_FAILURE, _END, b" UNCORRECTABLE ", rf"{_STEPD}\bUNCORRECTABLE MEMORY ERROR"),
    _sign(_NODE_FAILURE, _END, b"Node failure on", r"\b(?:srun|salloc): error: Node failure on"),
    _sign(_ERROR, _EXIT, _CANCELLED_BY_SLURM, rf"{CANCELLED_AT} DUE TO TASK FAILURE"),
    _sign(_ERROR, _EXIT, b"FAILED (non-zero", rf"{_STEPD} FAILED \(non-zero exit code"),
    # A job is also cancelled when one of its tasks has died.
    _sign(_CANCELLED, _END, _CANCELLED_BY_SLURM, CANCELLED_AT, _CONSEQUENCE, _EXIT),
    # Ray
    _sign(_PREEMPTED, _CAUSE, b" node was preempted", r"^\s*the actor's node was preempted"),
    _sign(
        _NODE_FAILURE, _END, b" its node has died", r"\bThe actor (?:is dead|died) because its nod"
    ),
    _sign(
        _CANCELLED,
        _END,
        b"has been revoked",
        r"\b(?:srun|salloc): (?:error: )?Job allocation [0-9]+ has been revoked",
        _CONSEQUENCE,
        _EXIT,
    ),
    _sign(
        _CANCELLED,
        _END,
        _JOB_KILLED,
        r"^TERM_\w*(?:OWNER|ADMIN): job killed",
        _CONSEQUENCE,
        _EXIT,
    ),
    _sign(_CANCELLED, _END, _FLUX, rf"{_FLUX_ENDS}cancel severity=0", _CONSEQUENCE, _EXIT),
    _sign(_CANCELLED, _END, b"Job '", rf"{_RAY_JOB} was stopped\s*$", _CONSEQUENCE, _EXIT),
    _sign(_KILLED, _END, _JOB_KILLED, rf"(?:^TERM_\w+: job killed|{_PBS})", _EXIT),
    _sign(_KILLED, _END, b"task(s) Killed", r"\bflux-job: task\(s\) Killed", _EXIT),
    _sign(_KILLED, _END, _SRUN, rf"{_TASKS}Killed", _EXIT),
    _sign(_KILLED, _END, _BASH, rf"{_PROCESS}Killed\b", _EXIT),
    _sign(_KILLED, _END, b"Killed", r"^Killed\s*$", _EXIT),
    _sign(_COMMUNICATION, _CONSEQUENCE, b"Watchdog caught", r"\bWatchdog caught collective "),
    # A watchdog of torch ends the process. An older torch gives the reason on the fatal line [F…].
    _sign(
        _COMMUNICATION,
        _CONSEQUENCE,
        b"watchdog hang",
        r"\] Terminating the process after .*, due to \w+ watchdog hang",
    ),
    _sign(_COMMUNICATION, _CONSEQUENCE, b"watchdog got", r"\[F.*\] \w+'s watchdog got stuck for "),
    _sign(_COMMUNICATION, _CONSEQUENCE, b"CCL error", r"\b[NH]CCL error in: \S"),
    _sign(_COMMUNICATION, _CONSEQUENCE, b"ncclRemoteError", r"\bncclRemoteError: \S"),
    _sign(_COMMUNICATION, _CONSEQUENCE, b"ncclSystemError", r"\bncclSystemError: \S"),
    _sign(_COMMUNICATION, _CONSEQUENCE, b"Got completion", r"\bNET/IB ?: Got completion .* error"),
    # HCCL, Ascend's library: no answer from another rank
    _sign(_COMMUNICATION, _CONSEQUENCE, b"EI00", r"^\s*EI00(?:02|06|09|13|15): \S"),
    _sign(
        _COMMUNICATION,
        _CONSEQUENCE,
        b"Terminating process because",
        r"\] Terminating process because the (?:JAX distributed service|coordinator) detected",
    ),
    # Messages of the program itself; its launcher later reports only an exit code.
    _sign(
        _ERROR,
        _END,
        b": error: ",
        r"^\S+: error: (?:unrecognized arguments|arguments? |ambiguous option|the following arg)",
    ),
    _sign(_ERROR, _END, b"can't open file", r"can't open file '.*': \[Errno"),
    _sign(_ERROR, _END, b"__main__' module", r"can't find '__main__' module in '"),
    # OLMo logs an exception with this line; the traceback may be missing.
    _sign(_ERROR, _END, b"Uncaught ", r"\bCRITICAL\b.*\bUncaught \w+: "),
    # Faults on a GPU, as torch's watchdog, C++ and AMD's driver report them
    _sign(
        _ERROR,
        _END,
        b"terminated with exception",
        rf"\bwatchdog thread terminated with exception: {_DEVICE} error: ",
    ),
    _sign(_ERROR, _END, b"what():  ", rf"^\s*what\(\):  {_DEVICE} error: "),
    _sign(
        _ERROR, _END, b" by GPU node-", r"^(?:Memory access fault|HW Exception) by GPU node-[0-9]"
    ),
    _sign(_ERROR, _END, b"HSA_STATUS_ERROR", r"[Aa]borting with error : HSA_STATUS_ERROR"),
    # Python prints these errors of the program's own file without a traceback.
    _sign(_ERROR, _END, b"SyntaxError: ", r"^SyntaxError: \S"),
    _sign(_ERROR, _END, b"IndentationError: ", r"^IndentationError: \S"),
    _sign(_ERROR, _END, b"TabError: ", r"^TabError: \S"),
    _sign(_ERROR, _END, b"finding module spec", r"Error while finding module specification for '"),
    _sign(_ERROR, _END, b": No module named ", r"^\S*python\S*: No module named \S"),
    # Scripts of teralog end with the first command that fails; Slurm has a name of its own for
    # them, and what they start on each node is called so.
    _sign(_ERROR, _EXIT, b"/job.sh: line ", rf"/job\.sh{_NOT_FOUND}"),
    _sign(_ERROR, _EXIT, b"/slurm_script: line ", rf"/slurm_script{_NOT_FOUND}"),
    _sign(_ERROR, _EXIT, b"node: line ", rf"(?:^|: )node{_NOT_FOUND}"),
    *_exits(b"exitcode", r"\(exitcode: <code>\)|^\s*exitcode\s*: <code> \(pid"),
    *_exits(b"return code", r"exits with return code = <code>"),
    *_exits(_SRUN, rf"{_TASKS}Exited with exit code <code>"),
    *_exits(b"Exit code ", r"\bLAUNCH INFO .* Exit code <code>"),
    *_exits(b" crashed with exit", r"\bRank [0-9]+ crashed with exit code <code>"),
    *_exits(b"ssh exited", r"^pdsh@\S+: .*: ssh exited with exit code <code>"),
    # docker compose, and mpiexec of HPE
    *_exits(b"exited with code ", r"^(?:\S+ )?(?:rank [0-9]+ )?exited with code <code>\s*$"),
    *_exits(b" died from signal", r"\brank [0-9]+ died from signal <code>", _SIGNALS),
    *_exits(b"command terminated", r"^command terminated with exit code <code>\s*$"),  # kubectl
    *_exits(b"Exited with exit", r"^Exited with exit code <code>\.\s*$"),  # LSF
    *_exits(b"task(s) exited", r"\bflux-job: task\(s\) exited with exit code <code>"),
    _sign(_ERROR, _EXIT, _FLUX, rf"{_FLUX_ENDS}\S+ severity=0"),
    _sign(_ERROR, _EXIT, b"Job '", rf"{_RAY_JOB} failed\s*$"),
    _sign(_ERROR, _EXIT, b"FAILED", rf"{_JOB_FINISHED}FAILED\b"),
    *_exits(b"EXIT_CODE=", r"^EXIT_CODE=<code>\s*$"),  # Google's xpk
    *_exits(b"entrypoint command", r"\bJob entrypoint command failed with exit code <code>"),  # Ray
    *_exits(_MPIRUN, r" exited on signal <code>", _SIGNALS),
    *_exits(b"THE EXIT STRING", r"THE EXIT STRING: \w.*\(signal <code>\)", _SIGNALS),
    *_exits(b"KILLED BY SIGNAL", r"\bKILLED BY SIGNAL: <code>", _SIGNALS),  # Intel's mpiexec
    _sign(_ERROR, _EXIT, _MPIRUN, r"noticed that process rank [0-9]+ with PID [0-9]+ on node "),
    _sign(
        _ERROR, _EXIT, b"non-zero status", r"detected that one or more processes exited with non"
    ),
    _sign(_ERROR, _EXIT, b"THE EXIT STRING", r"APPLICATION TERMINATED WITH THE EXIT STRING: "),
    _sign(_ERROR, _EXIT, _BASH, rf"{_PROCESS}{_CRASH}\b"),
    _sign(_ERROR, _EXIT, b"Segmentation fault", r"(?:^|: )Segmentation fault"),
    _sign(_ERROR, _EXIT, b"Bus error", r"(?:^|: )Bus error"),
    _sign(_ERROR, _EXIT, _SRUN, rf"{_TASKS}Aborted"),
    _sign(_ERROR, _EXIT, _SRUN, r"srun: error: Unable to create step for job"),
    _sign(_ERROR, _EXIT, _SRUN, r"srun: error: Application launch failed: "),
    # C++ programs: UCX, and Google's libraries
    _sign(_ERROR, _EXIT, b"Caught signal ", r"\] Caught signal [0-9]+ \(\w+"),
    _sign(_ERROR, _EXIT, b" received at time=", r"^\*\*\* SIG(?!TERM|INT)[A-Z]+ received at time="),
    _sign(_ERROR, _EXIT, b"Check failed: ", rf"{_FATAL}.*Check failed: "),
    _sign(_ERROR, _EXIT, b"Non-OK-status: ", rf"{_FATAL}.*Non-OK-status: "),
    # Paddle
    _sign(_KILLED, _AFTERMATH, _DETECTED, r"^FatalError: `Termination signal` is detected"),
    _sign(_ERROR, _EXIT, _DETECTED, r"^FatalError: `.*` is detected"),
    # Lightning, and a script that Slurm cannot start
    _sign(
        _ERROR, _EXIT, b"Child process with", r"\bChild process with PID [0-9]+ terminated with c"
    ),
    _sign(_ERROR, _EXIT, b"error: execve():", r"\berror: execve\(\): "),
    _sign(_ERROR, _EXIT, b"Fatal Python error: ", r"^Fatal Python error: "),
    _sign(_ERROR, _EXIT, b"terminate called", r"^terminate called after throwing an instance of"),
    # torch.distributed.launch stops its processes if one has died, and if it is stopped itself.
    _sign(_KILLED, _AFTERMATH, b"Killing subprocess", r"\bKilling subprocess [0-9]+"),
    _sign(_KILLED, _AFTERMATH, b"received SIGTERM", r"\bMain process received SIGTERM, exiting"),
    _sign(_KILLED, _AFTERMATH, b"closing signal", r"\bSending process [0-9]+ closing signal SIG"),
    _sign(
        _CANCELLED, _END, b" death signal, ", r"\bReceived (?:2|\S*SIGINT) death signal, shutting"
    ),
    _sign(_KILLED, _AFTERMATH, b" death signal, ", r"\bReceived \S+ death signal, shutting down w"),
    # NeMo, which saves a checkpoint, and programs in general
    _sign(_PREEMPTED, _AFTERMATH, b"Preemption detected", r"\bPreemption detected, saving checkp"),
    _sign(_KILLED, _AFTERMATH, b"SIGTERM", r"\b[Rr]eceived (?:signal )?SIGTERM\b"),
    _sign(_KILLED, _AFTERMATH, b"SIGTERM", r"^\*\*\* SIGTERM received"),
    _sign(_KILLED, _AFTERMATH, _SRUN, rf"{_TASKS}Terminated"),
    # Slurm kills processes that do not end by themselves when their job or step is over.
    _sign(_KILLED, _AFTERMATH, b"srun: Force Terminated ", r"srun: Force Terminated "),
    _sign(_KILLED, _AFTERMATH, _SRUN, r"Timed out waiting for job step to complete"),
    _sign(_KILLED, _AFTERMATH, b"STEPD TERMINATED ", rf"{_STEPD}STEPD TERMINATED ON "),
    _sign(_KILLED, _AFTERMATH, b"task(s) Terminated", r"\bflux-job: task\(s\) Terminated"),
    _sign(_COMPLETED, Weight.LAUNCHER, b"exits success", r"Process [0-9]+ exits succ"),
    _sign(_COMPLETED, Weight.LAUNCHER, b"EXIT_CODE=", r"^EXIT_CODE=0\s*$"),
    _sign(
        _COMPLETED, Weight.LAUNCHER, b"Successfully completed.", r"^Successfully completed\.\s*$"
    ),
    _sign(_COMPLETED, Weight.LAUNCHER, b"Job '", rf"{_RAY_JOB} succeeded\s*$"),
    _sign(_COMPLETED, Weight.LAUNCHER, b"SUCCEEDED", rf"{_JOB_FINISHED}SUCCEEDED\b"),
)

# Information of NCCL, and a command that `set -x` prints
NO_SIGN = re.compile(r"\bNCCL INFO\b|^\++ ")

# What a traceback shows by its exception, from the first pattern that matches it.
EXCEPTIONS = (
    # of a process that has lost another one; the numbers are Ascend's codes of time-outs
    (
        re.compile(
            r"Dist(?:Backend|Network|Store)Error|[NH]CCL error|nccl(?:Remote|System)Error"
            r"|remote process exited|Connection (?:closed by|reset)|Socket Timeout"
            r"|client socket has (?:timed out|failed)|Rendezvous(?:Connection|Timeout|Closed)Error"
            r"|(?:Xla|Jax)RuntimeError: (?:DEADLINE_EXCEEDED|UNAVAILABLE): "
            r"|monitoredBarrier|store based barrier|Timed out waiting [0-9]+ms for (?:send|recv)"
            r"|NCCL communicator was aborted|Application timeout caused pair closure"
            r"|\bHccl\w+, error code|error code is (?:107020|50704[678])(?![0-9])"
        ),
        _COMMUNICATION,
        _CONSEQUENCE,
    ),
    (
        re.compile(
            r"(?i)^\S+: (?:.*\bloss\b.{0,40}\b(?:nan|inf|infinite|non-?finite)\b"
            r"|.*\b(?:nan|infinite|non-?finite)\b.{0,20}\bloss\b)"
        ),
        _NAN,
        _CAUSE,
    ),
    (re.compile(r"^KeyboardInterrupt"), _CANCELLED, _END),
    (re.compile(r"SignalException: Process \S+ got signal: 2\b"), _CANCELLED, _END),
    (re.compile(r"SignalException: Process \S+ got signal: (?:1|15)\b"), _KILLED, _AFTERMATH),
    (
        re.compile(
            r"killed by signal: Killed|with (?:signal |<Signals\.)SIGKILL|exit status 137\b"
        ),
        _KILLED,
        _END,
    ),
    # of a process that reports the end of another one
    (
        re.compile(
            r"ChildFailedError|CalledProcessError|SignalException|Broken pipe"
            r"|^(?:\w+\.)*(?:ActorDied|RayActor|WorkerCrashed)Error\b"
        ),
        _ERROR,
        _EXIT,
    ),
    (re.compile(""), _ERROR, _END),
)
