"""Recognize each message about the end of a run, and ignore similar lines."""

from collections.abc import Callable
from string import ascii_letters

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reports import CUDA_OOM, EXIT_9, OOM_KILL, OWN_END, OWN_START, SLURM

from parsers.records import Outcome, OutcomeKind
from parsers.runs.outcome import read_outcome
from parsers.scan.compression import compression

Read = Callable[..., Outcome | None]

GPU, HOST = OutcomeKind.GPU_OUT_OF_MEMORY, OutcomeKind.HOST_OUT_OF_MEMORY
NAN, TIME_LIMIT = OutcomeKind.NAN_LOSS, OutcomeKind.TIME_LIMIT
CANCELLED, KILLED = OutcomeKind.CANCELLED, OutcomeKind.KILLED
ERROR, TRUNCATED = OutcomeKind.ERROR, OutcomeKind.TRUNCATED
COMMUNICATION = OutcomeKind.COMMUNICATION_FAILURE
COMPLETED, PREEMPTED = OutcomeKind.COMPLETED, OutcomeKind.PREEMPTED
NODE_FAILURE = OutcomeKind.NODE_FAILURE


LINES = {
    "train.py: error: unrecognized arguments: --num-layer 2": (ERROR, None),
    "train.py: error: the following arguments are required: --num-layers": (ERROR, None),
    "can't open file '/a/train.py': [Errno 2] No such file or directory": (ERROR, None),
    "/usr/bin/python3: No module named torch": (ERROR, None),
    "/usr/bin/python3: Error while finding module specification for 'torch.distributed.run' "
    "(ModuleNotFoundError: No module named 'torch')": (ERROR, None),
    "SyntaxError: invalid syntax": (ERROR, None),
    "IndentationError: unexpected indent": (ERROR, None),
    "TabError: inconsistent use of tabs and spaces in indentation": (ERROR, None),
    "/usr/bin/python3: can't find '__main__' module in '/a'": (ERROR, None),
    "/a b/job.sh: line 57: /usr/bin/python9: No such file or directory": (ERROR, None),
    "/a b/job.sh: line 21: module: command not found": (ERROR, None),
    "/var/spool/slurmd/job00012/slurm_script: line 17: module: command not found": (ERROR, None),
    "/spool/job7/slurm_script: line 9: /no/env.sh: No such file or directory": (ERROR, None),
    "node: line 1: /no/python: No such file or directory": (ERROR, None),
    OWN_END: (COMPLETED, None),
    "| End of training | test time:  8.50s | test loss  3.12 | test ppl    22.646": (
        COMPLETED,
        None,
    ),
    "2026-01-02 03:04:05 (UTC) - 0:03:47 - train - INFO - done!": (COMPLETED, None),
    OWN_END.replace("6.25", "nan"): (NAN, None),
    OWN_END.replace("6.25", "-inf"): (NAN, None),
    "[INFO] [launch.py:460:main] Process 47963 exits successfully.": (COMPLETED, None),
    "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 6.00 GiB": (GPU, 0.5),
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.75 GiB": (GPU, 10.75),
    CUDA_OOM: (GPU, 1.5),
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has": (GPU, 2.0),
    "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory": (GPU, None),
    "  what():  CUDA out of memory. Tried to allocate 0 bytes": (GPU, 0.0),
    "RuntimeError: CUDA error: out of memory": (GPU, None),
    "RuntimeError: CUDA driver error: out of memory": (GPU, None),
    "[5.1] Out of memory: Killed process 430069 (python) total-vm:9000kB": (HOST, None),
    "[5.1] Memory cgroup out of memory: Killed process 7 (python) total-vm:9000kB": (HOST, None),
    "OSError: [Errno 12] Cannot allocate memory": (HOST, None),
    "RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58": (GPU, None),
    "n1:1:1 [0] include/alloc.h:1 NCCL WARN Cuda failure 2 'out of memory'": (GPU, None),
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate": (GPU, None),
    "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate "
    "memory: you tried to allocate 3221225472 bytes. Error code 12": (HOST, 3.0),
    "MemoryError": (HOST, None),
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for": (HOST, 7454.72),
    "slurmstepd: error: Detected 1 oom-kill event(s) in step 5.batch cgroup. Some": (HOST, None),
    "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=191.0. Some of your": (HOST, None),
    OOM_KILL: (HOST, None),
    "slurmstepd: error: StepId=12.batch exceeded memory limit (322 > 52), being killed": (
        HOST,
        None,
    ),
    "slurmstepd: error: Job 12 exceeded virtual memory limit (322 > 52), being killed": (
        HOST,
        None,
    ),
    "srun: error: node01: tasks 1-3: Out Of Memory": (HOST, None),
    "srun: Exceeded job memory limit": (HOST, None),
    "slurmstepd: error: Exceeded step memory limit": (HOST, None),
    "AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3": (NAN, None),
    f"{SLURM} DUE TO TIME LIMIT ***": (TIME_LIMIT, None),
    "salloc: Job 12 has exceeded its time limit and its allocation has been revoked.": (
        TIME_LIMIT,
        None,
    ),
    f"{SLURM} DUE TO PREEMPTION ***": (PREEMPTED, None),
    f"{SLURM} DUE TO NODE FAILURE, SEE SLURMCTLD LOG": (
        NODE_FAILURE,
        None,
    ),
    f"{SLURM} DUE TO NODE n7 FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***": (NODE_FAILURE, None),
    "slurmstepd: error: *** JOB 12 ON n1 UNCORRECTABLE MEMORY ERROR AT 2026-01-02T03:04:05 ***": (
        NODE_FAILURE,
        None,
    ),
    "srun: error: Node failure on node01": (NODE_FAILURE, None),
    "salloc: error: Node failure on node01": (NODE_FAILURE, None),
    "salloc: Job allocation 12 has been revoked.": (CANCELLED, None),
    "slurmstepd: error: *** JOB 12 CANCELLED DUE TO TIME LIMIT ***": (TIME_LIMIT, None),
    "slurmd[n1]: *** JOB 12 CANCELLED AT 2012-01-02T03:04:05 DUE TO TIME LIMIT ***": (
        TIME_LIMIT,
        None,
    ),
    "slurmd[n1]: *** JOB 12 CANCELLED AT 2012-01-02T03:04:05 ***": (CANCELLED, None),
    f"{SLURM} ***": (CANCELLED, None),
    f"{SLURM} DUE to SIGNAL Terminated ***": (CANCELLED, None),
    "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***": (CANCELLED, None),
    EXIT_9: (KILLED, None),
    "E0102 03:04:05.6 26 api.py:869] failed (exitcode: -9) local_rank: 5 (pid: 2630)": (
        KILLED,
        None,
    ),
    "  exitcode  : -9 (pid: 14750)": (KILLED, None),
    "srun: error: node01: task 0: Killed": (KILLED, None),
    "/var/spool/slurm_script: line 33: 430069 Killed   python train.py": (KILLED, None),
    "E0102 03:04:05.6 26 api.py:869] failed (exitcode: -11) local_rank: 0": (ERROR, None),
    "  exitcode  : 1 (pid: 14750)": (ERROR, None),
    EXIT_9.replace("-9", "1"): (ERROR, None),
    "srun: error: node01: task 3: Exited with exit code 1": (ERROR, None),
    "srun: error: node01: task 5: Segmentation fault (core dumped)": (ERROR, None),
    "srun: error: node01: task 289: Bus error": (ERROR, None),
    "[exiting program at iteration 200] datetime: 2026-01-02 03:04:05 ": (COMPLETED, None),
    "exiting program after 55.2 minutes": (COMPLETED, None),
    "[exiting program after receiving SIGTERM.] datetime: 2026-01-02 03:04:05": (CANCELLED, None),
    "[NeMo I 2025-03-07 22:48:03 preemption:67] Preemption detected, saving checkpoint and exit"
    "ing": (PREEMPTED, None),
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -15) local_rank: 0": (
        *(KILLED, None),
    ),
    "  exitcode  : -15 (pid: 14750)": (KILLED, None),
    "[launch.py:321:sigkill_handler] ['python'] exits with return code = -15": (KILLED, None),
    "srun: error: node01: tasks 0-1: Exited with exit code 143": (KILLED, None),
    "srun: error: node01: tasks 0-1: Aborted (core dumped)": (ERROR, None),
    "srun: Force Terminated StepId=40341.0": (KILLED, None),
    "srun: error: Timed out waiting for job step to complete": (KILLED, None),
    "slurmstepd: error: *** JOB 7 STEPD TERMINATED ON n1 AT 2026-01-02T03:04:05 DUE TO JOB NOT"
    " ENDING WITH SIGNALS ***": (KILLED, None),
    "run.sh: line 7: 430069 Segmentation fault      (core dumped) python train.py": (ERROR, None),
    "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TASK FAILURE": (
        ERROR,
        None,
    ),
    "slurmstepd: error: *** STEP 1.0 ON n1 FAILED (non-zero exit code or other failure mode) ***": (
        ERROR,
        None,
    ),
    "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: Work": (
        COMMUNICATION,
        None,
    ),
    "[F102 03:04:05.6 a.cpp:1497] [PG 0 Rank 0] Terminating the process after attempting to dump "
    "debug info, due to ProcessGroupNCCL watchdog hang.": (COMMUNICATION, None),
    "[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 5] ProcessGroupNCCL's watchdog got stuck for "
    "600 seconds without making progress": (COMMUNICATION, None),
    "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:514, unhandled system error": (
        COMMUNICATION,
        None,
    ),
    "ncclRemoteError: A call failed possibly due to a network error or a remote process": (
        COMMUNICATION,
        None,
    ),
    "n1:1:1 [0] transport/net_ib.cc:86 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with"
    " error 12, opcode 0": (COMMUNICATION, None),
    "Killing subprocess 4303": (KILLED, None),
    "[INFO] [launch.py:319:sigkill_handler] Killing subprocess 4303": (KILLED, None),
    "[INFO] [launch.py:319:sigkill_handler] Main process received SIGTERM, exiting": (KILLED, None),
    "W0102 03:04:05.6 26 api.py:897] Sending process 812914 closing signal SIGTERM": (KILLED, None),
    "W0102 03:04:05 26 api.py:723] Received 1 death signal, shutting down workers": (
        KILLED,
        None,
    ),
    "srun: error: node01: tasks 0-2: Terminated": (KILLED, None),
    "srun: error: Unable to create step for job 12: Memory required by task is not available": (
        ERROR,
        None,
    ),
    "terminate called after throwing an instance of 'c10::CUDAError'": (ERROR, None),
    "[after training is done] datetime: 2026-01-02 03:04:05": (COMPLETED, None),
    "{'train_runtime': 871.7, 'train_samples_per_second': 1.1, 'epoch': 1.0}": (COMPLETED, None),
    "{'train_runtime': '871', 'train_samples_per_second': '1.1', 'epoch': '1'}": (COMPLETED, None),
    "{'train_runtime': 8.0, 'train_loss': nan, 'epoch': 1.0}": (NAN, None),
    "{'train_runtime': '8', 'train_loss': 'nan', 'epoch': '1'}": (NAN, None),
    "[INFO|trainer_pt_utils.py:907] 2026-01-02 03:04:05,027 >> ***** train metrics *****": (
        COMPLETED,
        None,
    ),
    "step:3350/3350 val_loss:3.27874 train_time:496.855s step_avg:146.79ms": (COMPLETED, None),
    "2022-10-18 04:41:48 | INFO | fairseq_cli.train | done training in 559.6 seconds": (
        COMPLETED,
        None,
    ),
    "Training completed. ": (COMPLETED, None),
    "[2022-11-25 23:31:05,459] [    INFO] - The training process is complete.": (COMPLETED, None),
    "Epoch 0: 20%|█| 7/9 [1:22<1:35, loss=0.Time limit reached. Elapsed time is 1 day, 0:00:03. "
    "Signaling Trainer to stop.": (COMPLETED, None),
    "Peak CUDA mem: 12.34 GB": (COMPLETED, None),
    "Overall throughput: 4.93 samples/s": (COMPLETED, None),
    "Throughput: 1.75 samples/sec, TFLOPS per GPU by Megatron: 5.25, TFLOPS per GPU: 4.50": (
        COMPLETED,
        None,
    ),
    # submitit, LSF and PBS
    "submitit WARNING (2026-01-02 03:04) - Caught signal SIGHUP on n1: this job is preempted.": (
        PREEMPTED,
        None,
    ),
    "submitit WARNING (2026-01-02 03:04) - Caught signal SIGUSR2 on n1: this job is timed-out.": (
        TIME_LIMIT,
        None,
    ),
    "slurmstepd: error: *** JOB 6 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO JOB REQUEUE ***": (
        CANCELLED,
        None,
    ),
    "TERM_RUNLIMIT: job killed after reaching LSF run time limit.": (TIME_LIMIT, None),
    "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.": (HOST, None),
    "=>> PBS: job killed: walltime 7242 exceeded limit 7200": (TIME_LIMIT, None),
    "=>> PBS: job killed: mem 9437184kb exceeded limit 8388608kb": (HOST, None),
    "=>> PBS: job killed: cput 7242 exceeded limit 7200": (TIME_LIMIT, None),
    "=>> PBS: job killed: ncpus 4.10 exceeded limit 1 (sum)": (KILLED, None),
    "=>> PBS: job killed: node 1 (n2) requested job terminate, 'EOF' (code 1099) - received "
    "SISTER_EOF attempting to communicate with sister MOM's": (NODE_FAILURE, None),
    "TERM_OWNER: job killed by owner.": (CANCELLED, None),
    "TERM_FORCE_ADMIN: job killed by root or LSF administrator without time for cleanup.": (
        CANCELLED,
        None,
    ),
    "TERM_PREEMPT: job killed after preemption.": (PREEMPTED, None),
    "TERM_CPULIMIT: job killed after reaching LSF CPU usage limit.": (TIME_LIMIT, None),
    "TERM_SWAP: job killed after reaching LSF swap usage limit.": (HOST, None),
    "TERM_EXTERNAL_SIGNAL: job killed by a signal external to LSF.": (KILLED, None),
    "Successfully completed.": (COMPLETED, None),
    # Flux
    "64.201s: job.exception type=timeout severity=0 resource allocation expired": (
        TIME_LIMIT,
        None,
    ),
    "64.201s: job.exception f4HyWQTU3iMo type=timeout severity=0 resource allocation expired": (
        TIME_LIMIT,
        None,
    ),
    "4.1s: job.exception type=cancel severity=0 ": (CANCELLED, None),
    "4.1s: job.exception type=exec severity=0 node failure on n1 (rank 1)": (NODE_FAILURE, None),
    "4.1s: job.exception type=exec severity=0 python: No such file or directory": (ERROR, None),
    "flux-job: task(s) exited with exit code 1": (ERROR, None),
    "flux-job: task(s) Killed": (KILLED, None),
    "flux-job: task(s) Terminated": (KILLED, None),
    # Kubernetes, xpk, Ray, torchx, SkyPilot
    "      Reason:       OOMKilled": (HOST, None),
    "      reason: OOMKilled": (HOST, None),
    "train-worker-0   0/1     OOMKilled   0          5m": (HOST, None),
    "Message: The node was low on resource: memory. Threshold quantity: 100Mi": (HOST, None),
    "Warning  DeadlineExceeded  2m  job-controller  Job was active longer than specified "
    "deadline": (TIME_LIMIT, None),
    "timeout: sending signal TERM to command 'python'": (TIME_LIMIT, None),
    "EXIT_CODE=0": (COMPLETED, None),
    "Job 'raysubmit_hXacRZtV7BeZUNA9' succeeded": (COMPLETED, None),
    "2025-04-21 10:42:35,395 ERR cli.py:64 -- Job 'raysubmit_hXacRZtV7BeZUNA9' failed": (
        ERROR,
        None,
    ),
    "Job 'raysubmit_hXacRZtV7BeZUNA9' was stopped": (CANCELLED, None),
    "INFO     Job pretrain-z8xg finished: SUCCEEDED": (COMPLETED, None),
    "torchx 2023-01-02 03:04:05 INFO     Job finished: FAILED": (ERROR, None),
    "Job finished (status: SUCCEEDED).": (COMPLETED, None),
    # memory of other devices, and in the words of other libraries
    "RuntimeError: NPU out of memory. Tried to allocate 5.50 GiB (NPU 3; 60.96 GiB": (GPU, 5.5),
    "RuntimeError: MPS backend out of memory (MPS allocated: 17.55 GB, other allocations: 384 KB, "
    "max allowed: 18.13 GB). Tried to allocate 1.50 GB on private pool.": (GPU, 1.5),
    "RuntimeError: /a/util/cuda_runtime.cpp:48 in function f: CUDA Error: out of memory": (
        GPU,
        None,
    ),
    "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED": (GPU, None),
    "EL0004: 2024-03-01-10:00:00.123.456 Failed to allocate memory.": (GPU, None),
    "RuntimeError: Device(id:0) memory isn't enough and alloc failed, kernel name: x": (GPU, None),
    ":0:rocdevice.cpp:2660: Callback: Queue 0x7f aborting with error : "
    "HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. "
    "Code: 0x1008 Available Free mem : 0 MB": (GPU, None),
    "terminate called after throwing an instance of 'std::bad_alloc'": (HOST, None),
    "Failed to CUDA calloc async 608 bytes": (GPU, None),
    "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::9": (
        GPU,
        None,
    ),
    "Out of memory error on GPU 0. Cannot allocate 512.000000MB memory on GPU 0, 23.623291GB": (
        GPU,
        0.5,
    ),
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 3221225472 "
    "bytes.": (GPU, 3.0),
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
    "allocate 3221225472 bytes.": (GPU, 3.0),
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to "
    "allocate 15.5G. That was not possible.": (GPU, 15.5),
    "XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in "
    "memory space hbm. Used 21.90G of 7.48G hbm.": (GPU, None),
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.": (
        HOST,
        None,
    ),
    "(raylet) [2026-01-02 03:04:05,6 E 5 5] (raylet) node_manager.cc:3099: 1 Workers (tasks / "
    "actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons": (
        HOST,
        None,
    ),
    "RuntimeError: unable to mmap 1073741824 bytes from file </torch_1_2>: Cannot allocate memory "
    "(12)": (HOST, None),
    "job.sh: fork: Cannot allocate memory": (HOST, None),
    # faults of GPUs, lost peers, launchers
    "RuntimeError: CUDA error: uncorrectable ECC error encountered": (NODE_FAILURE, None),
    "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution": (
        NODE_FAILURE,
        None,
    ),
    "RuntimeError: Rank 3, device 3: Unexpected result inf (message='found Inf in local forward "
    "loss calculation')": (NAN, None),
    "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting "
    "run.": (NAN, None),
    "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.": (
        NAN,
        None,
    ),
    "Loss is nan, stopping training": (NAN, None),
    "RuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 3221225472 bytes.": (GPU, 3.0),
    "RuntimeError: level_zero backend failed: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)": (
        GPU,
        None,
    ),
    "The actor is dead because its node has died. Node Id: 677df2a9": (NODE_FAILURE, None),
    "the actor's node was preempted: spot": (PREEMPTED, None),
    "W0102 03:04:05 26 api.py:723] Received 2 death signal, shutting down workers": (
        CANCELLED,
        None,
    ),
    "[NeMo I 2024-12-02 preemption:67] Preemption detected, saving checkpoint and exiting": (
        PREEMPTED,
        None,
    ),
    "[rank: 0] Received SIGTERM: 15": (KILLED, None),
    "*** SIGTERM received by PID 1 (TID 1) on cpu 0 from PID 0; stack trace: ***": (KILLED, None),
    "  0%| | 1/7800 [00:01<2:37,  1.21s/it]F0000 00:00:1717141650.8    9276 client.cc:487] "
    "Non-OK-status: status status: INTERNAL: Core halted unexpectedly": (ERROR, None),
    "FatalError: `Termination signal` is detected by the operating system.": (KILLED, None),
    "FatalError: `Segmentation fault` is detected by the operating system.": (ERROR, None),
    "[rank: 1] Child process with PID 23026 terminated with code 1. Forcefully terminating": (
        ERROR,
        None,
    ),
    "slurmstepd: error: execve(): /spool/job7/slurm_script: No such file or directory": (
        ERROR,
        None,
    ),
    # MaxText
    "I0101 00:00:00.1 12 train.py:1061] Training stopped: Job is preempted.": (PREEMPTED, None),
    "Training stopped: Job received termination signal (SIGTERM).": (CANCELLED, None),
    "Training stopped: Checkpointing failed. x": (ERROR, None),
    "Training stopped: Target loss self.config.target_eval_loss=2.5 is achieved.": (
        COMPLETED,
        None,
    ),
    "E0101 00:00:00.1 12 metric_logger.py:298] Aborting training due to NaN loss.": (NAN, None),
    "NVRM: Xid (PCI:0000:4a:00): 79, pid=7, name=python, GPU has fallen off the bus.": (
        NODE_FAILURE,
        None,
    ),
    "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the": (
        NODE_FAILURE,
        None,
    ),
    "EI0002: [PID: 7] 2025-06-25-10:45:23.586.187 The wait execution of the Notify register times "
    "out.": (COMMUNICATION, None),
    "EI0006: 2024-08-05-18:15:21.270.506 Getting socket times out.": (COMMUNICATION, None),
    "[E817 17:40:34.2 ProcessGroupNCCL.cpp:1515] [PG 0 Rank 12] Process group watchdog thread "
    "terminated with exception: CUDA error: an illegal memory access was encountered": (
        ERROR,
        None,
    ),
    "  what():  HIP error: an illegal memory access was encountered": (ERROR, None),
    "Memory access fault by GPU node-2 (Agent handle: 0x55fe) on address 0x7f. Reason: Page not": (
        ERROR,
        None,
    ),
    "HW Exception by GPU node-1 (Agent handle: 0x1b0fc990) reason :GPU Hang": (ERROR, None),
    ":0:rocdevice.cpp:3586: Callback: Queue 0x7f78 aborting with error : HSA_STATUS_ERROR_EXCEPTION"
    ": An HSAIL operation resulted in a hardware exception. code: 0x1016": (ERROR, None),
    "[n1:5275 :0:5275] Caught signal 7 (Bus error: nonexistent physical address)": (ERROR, None),
    "*** SIGSEGV received at time=1700000000 on cpu 3 ***": (ERROR, None),
    "F0102 03:04:05.123456    1234 pjrt_client.cc:77] Check failed: status.ok() INTERNAL": (
        ERROR,
        None,
    ),
    "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/ProcessGroupHCCL.cpp:64": (
        COMMUNICATION,
        None,
    ),
    "F0102 03:04:05.123456    1234 client.h:77] Terminating process because the JAX distributed "
    "service detected fatal errors.": (COMMUNICATION, None),
    "Killed": (KILLED, None),
    "mpirun noticed that process rank 7 with PID 0 on node n1 exited on signal 9 (Killed).": (
        KILLED,
        None,
    ),
    "mpiexec noticed that process rank 0 with PID 5 on node n1 exited on signal 6 (Aborted).": (
        ERROR,
        None,
    ),
    "mpirun detected that one or more processes exited with non-zero status, thus causing": (
        ERROR,
        None,
    ),
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)": (KILLED, None),
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Hangup (signal 1)": (ERROR, None),
    "pdsh@login1: n2: ssh exited with exit code 1": (ERROR, None),
    "srun: error: node01: task 0: Exited with exit code 137": (KILLED, None),
    "  exitcode  : 137 (pid: 14750)": (KILLED, None),
    EXIT_9.replace("-9", "247"): (KILLED, None),
    EXIT_9.replace("-9", "-99"): (ERROR, None),
    "command terminated with exit code 137": (KILLED, None),
    "command terminated with exit code 143": (KILLED, None),
    "command terminated with exit code 1": (ERROR, None),
    "trainer-1 exited with code 137": (KILLED, None),
    "trainer-1 exited with code 1": (ERROR, None),
    "Exited with exit code 140.": (ERROR, None),
    "EXIT_CODE=1": (ERROR, None),
    "EXIT_CODE=143": (KILLED, None),
    "Job entrypoint command failed with exit code -11, last available logs (truncated to 20,000": (
        ERROR,
        None,
    ),
    "mpirun noticed that process rank 7 with PID 0 on node n1 exited on signal 15 (Terminated).": (
        KILLED,
        None,
    ),
    "prterun noticed that process rank 7 with PID 0 on node n1 exited on signal 6 (Aborted).": (
        ERROR,
        None,
    ),
    "=   KILLED BY SIGNAL: 9 (Killed)": (KILLED, None),
    "LAUNCH INFO 2026-01-02 03:04:05,678 Exit code 1": (ERROR, None),
    "Total training time: 99.00m": (COMPLETED, None),
    "peak memory allocated: 10184 MiB reserved: 10200 MiB": (COMPLETED, None),
    "step:3350/3350 val_loss:3.2783 train_time:492.485s step_avg:147.03ms": (COMPLETED, None),
    "step:9/9 val_loss:3.25 val_bpb:1.25 train_time:600012ms": (COMPLETED, None),
    "stopping_early: wallclock_cap train_time:600012ms step:1234/20000": (COMPLETED, None),
    "stopping_early: wallclock_cap train_time: 590012ms step: 1234/20000": (COMPLETED, None),
    "peak_vram_mb:     45060.2": (COMPLETED, None),
    "02:40:54 SUCCESS SFT trainer finished!": (COMPLETED, None),
    "02:40:54 SUCCESS RL trainer finished!": (COMPLETED, None),
    "| - Training Time : 48.30 s": (COMPLETED, None),
    "| - Training Time             :  241.49 s": (COMPLETED, None),
    "ERROR:composer.cli.launcher:Rank 0 crashed with exit code 1.": (ERROR, None),
    "ERROR:composer.cli.launcher:Rank 3 crashed with exit code -9.": (KILLED, None),
    "2026-01-02 03:04:05.123 n1:0 olmo.util:158 CRITICAL Uncaught OLMoThreadError: generator "
    "thread data thread 3 failed": (ERROR, None),
    "2026-01-02 03:04:05.123 n1:0 olmo_core.utils:158 CRITICAL Uncaught OutOfMemoryError: CUDA "
    "out of memory. Tried to allocate 2.00 GiB. GPU 0 has": (GPU, 2.0),
    "srun: error: Application launch failed: Communication connection failure": (ERROR, None),
    "run.sh: line 7: 430069 Illegal instruction     (core dumped) python train.py": (ERROR, None),
    "Fatal Python error: Aborted": (ERROR, None),
    "Final validation metrics: {'val/loss': 0.019425522536039352}": (COMPLETED, None),
    "(\"Final validation metrics: {'val-core/openai/gsm8k/acc/mean@1': \"": (
        COMPLETED,
        None,
    ),
}

NO_ENDS = (
    "02:40:54 SUCCESS Evals finished!",
    "step:125/3350 val_loss:4.27874 train_time:18.355s step_avg:146.79ms",
    (
        "W0102 03:04:05.6 341 bfc_allocator.cc:291] Allocator (GPU_0_bfc) ran out of memory trying "
        "to allocate 3.36GiB with freed_by_count=0. The caller indicates that this is not a failure"
    ),
    (
        "n1:1:1 [0] misc/ibvwrap.cc:254 NCCL WARN Call to ibv_reg_mr failed with error Cannot "
        "allocate memory"
    ),
    "grpc: RESOURCE_EXHAUSTED: Received message larger than max",
    "(1) The process is killed by SIGKILL by OOM killer due to high memory usage.",
    "LAUNCH INFO 2026-01-02 03:04:05,678 Exit code 0",
    "Killed 3 stale workers",
    "submitit INFO (2026-01-02 03:04:05,6) - Job has not timed out. Ran 1 minutes out of 20.",
    "  test_freq ....................................... Final validation metrics: never",
    "possible_oom: false",
    "SLURM_OOM_KILL_STEP=0",
    "slurmstepd: error: Exceeded step memory limit at some point.",
    "salloc: Relinquishing job allocation 12",
    "STATE: CANCELLED by 1000",
    "+ srun --oom-kill-step=1 python train.py",
    "n1:1:1 [0] NCCL INFO Cuda failure 2 'out of memory'",
    "n1:1:1 [0] NCCL INFO CUDA out of memory. Tried to allocate",
    "  on_out_of_memory ................................ skip",
    "    except torch.cuda.OutOfMemoryError: pass",
    '    raise RuntimeError("CUDA out of memory")',
    "OSError: [Errno 12] could not be raised: Cannot allocate memory is no text of it",
    "  on_terminate .................................... terminate called after throwing",
    "if you run out of memory, try a smaller micro-batch",
    "  except MemoryError:",
    "MemoryErrorPolicy: retry",
    "  exitcode  : 0 (pid: 1)",
    "exits with return code = 0",
    "  time limit ...................................... None",
    "EXIT_CODE=$?",
    "XlaRuntimeError: RESOURCE_EXHAUSTED: Received message larger than max (9 vs. 4)",
    "TensorBoard caught SIGTERM; exiting...",
    "+ trap 'echo received SIGTERM; exit 143' TERM",
    "++ echo 'RuntimeError: CUDA error: out of memory'",
    "SIGTERM handler installed: a checkpoint is saved when the signal comes",
    "WARNING: overflow detected, setting loss scale to: 0.0625",
    "  min_loss_scale .................................. 1.0",
    "CUDA out of memory detected. Train microbatch size will be decreased from 4 -> 2.",
    (
        "[rank0]:[W312 00:49:03.9 a.cpp:1250] Warning: WARNING: process group has NOT "
        "been destroyed before we destruct ProcessGroupNCCL."
    ),
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072",
    "NCCL WARN NET/IB : No device found.",
    "wandb: ERROR Error while calling W&B API: internal database error (<Response [500]>)",
    "srun: Job 12 step creation temporarily disabled, retrying (Requested nodes are busy)",
    "srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1",
    "Early stopping: the loss is not nan",
    "[W NPUStream.cpp:409] Warning: NPU warning, error code is 507046[Error]:",
    "EI0002 in the manual: the wait execution of the Notify register times out",
    "Job 'raysubmit_hXacRZtV7BeZUNA9' submitted successfully",
    "0.1s: job.exception type=note severity=3 waiting for the scheduler",
    "# on TERM_OWNER: job killed by owner, submit again",
    "The container may be OOMKilled if its memory is too small.",
    "timeout: 1800",
    "Successfully completed 3 of 5 shards.",
    "trainer-1 exited with code 0",
    "CANCELLED",
    "the queue said: JOB 12 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT",
    "grep 'Detected 1 oom_kill event' job.log",
    "  check_for_nan ................................... found NaN in: stop",
    "print('Traceback (most recent call last):')",
    "srun: Job step aborted: Waiting up to 62 seconds for job step to finish.",
    "{'loss': 2.5, 'train_runtime': 8.1, 'epoch': 0.3}",
    "{'train_runtime': 8.1, 'epoch': 0.",
    "***** Running training *****",
    "training ...",
    "Training completed. Elapsed: see below",
    "n1:1:1 [0] NCCL INFO NET/IB : Got completion from peer with error 12",
    "n1:1:1 [0] NCCL INFO ncclRemoteError: x",
    (
        "[E102 03:04:05.6 a.cpp:1] [PG 0 Rank 0] monitor thread is disabled, but would have "
        "terminated the process after attempting to dump debug info, due to ProcessGroupNCCL "
        "watchdog hang."
    ),
    "[E102 03:04:05.6 a.cpp:1] [PG 0 Rank 0] ProcessGroupNCCL's watchdog got stuck for 480 seconds",
    "  TORCH_NCCL_ASYNC_ERROR_HANDLING=1 Watchdog thread started",
    "Making experience throughput: 1.234 samples/sec, TFLOPS: 5.678",
    OWN_END.removesuffix(" | max_memory_allocated_gib 0.402"),
    OWN_START,
)


@pytest.mark.parametrize(("line", "expected"), LINES.items())
@pytest.mark.parametrize("before", ["", "[rank1]: ", " 12: ", " 5%|█  | 1/20 [00:01]\r"])
def test_a_line_shows_how_the_run_ended(
    outcome: Read, line: str, expected: tuple[OutcomeKind, float | None], before: str
) -> None:
    """A line about the end of a run gives the outcome: its kind, and the line's text and offset.

    The text is without rank label and progress bar. If the line contains a requested memory size,
    the outcome contains this size.
    """
    kind, requested_gib = expected
    run_end = outcome(f"noise\n{before}{line}\r\nnoise\n")
    assert run_end is not None
    assert (run_end.kind, run_end.text, run_end.offset) == (kind, line.strip(), 6)
    assert run_end.requested_gib == pytest.approx(requested_gib)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("x1000c0s1b0n0.hsn.example.org: rank 3 exited with code 1", ERROR),
        ("x1000c0s1b0n0.hsn.example.org: rank 3 died from signal 9", KILLED),
        ("x1000c0s1b0n0.hsn.example.org: rank 3 died from signal 15", KILLED),
        ("x1000c0s1b0n0.hsn.example.org: rank 3 died from signal 11", ERROR),
    ],
)
def test_mpiexec_names_the_node_before_the_rank(
    outcome: Read, line: str, kind: OutcomeKind
) -> None:
    """A message of HPE's mpiexec is recognized; its text does not contain the name of the node."""
    run_end = outcome(f"{line}\n")
    assert run_end is not None
    assert (run_end.kind, run_end.text) == (kind, line.partition(": ")[2])


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("slurmstepd: ")])
def test_slurmstepd_is_known_where_it_adds_its_node_s_name(outcome: Read, line: str) -> None:
    """A message of slurmstepd is recognized even if it contains the name of the node."""
    run_end = outcome(line.replace("slurmstepd: ", "slurmstepd-gpu001: "))
    assert run_end is not None
    assert run_end.kind is LINES[line][0]


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("slurmstepd: ")])
@pytest.mark.parametrize("before", ["", "5%|█| 1/9 [00:01<00:09]"])
def test_slurmstepd_is_known_where_it_prints_the_time_instead_of_its_name(
    outcome: Read, line: str, before: str
) -> None:
    """A message of slurmstepd is recognized in the form that Slurm prints since version 25.05."""
    run_end = outcome(line.replace("slurmstepd: ", f"{before}[2026-01-02T03:04:05.678] "))
    assert run_end is not None
    assert run_end.kind is LINES[line][0]


@pytest.mark.parametrize("line", NO_ENDS)
def test_a_line_that_only_resembles_an_end_is_not_one(outcome: Read, line: str) -> None:
    """Options, source lines and messages that only mention a failure do not end a run."""
    assert outcome(f"{line}\n{line}\n") == Outcome(kind=TRUNCATED)
    assert outcome(f"{line}\n", complete=False) is None


letterless = st.binary(max_size=50).map(lambda noise: noise.translate(None, ascii_letters.encode()))


@given(noise=st.lists(letterless, max_size=8))
def test_noise_around_an_end_does_not_hide_it(
    tmp_path_factory: pytest.TempPathFactory, noise: list[bytes]
) -> None:
    """Invalid UTF-8, carriage returns and digits around a message do not change the outcome."""
    log = tmp_path_factory.getbasetemp() / "end.log"
    around = b"\n".join(noise)
    assume(compression(around) is None)
    log.write_bytes(around)
    assert read_outcome(log) == Outcome(kind=TRUNCATED)
    log.write_bytes(b"\n".join((around, CUDA_OOM.encode(), around)))
    outcome = read_outcome(log)
    assert outcome is not None
    assert (outcome.kind, outcome.text, outcome.offset) == (GPU, CUDA_OOM, len(around) + 1)


@given(start=st.sampled_from([*LINES, *NO_ENDS]), cut=st.integers(0, 99), rest=st.binary())
def test_no_bytes_raise_an_error(
    tmp_path_factory: pytest.TempPathFactory, start: str, cut: int, rest: bytes
) -> None:
    """No line raises an error, wherever it is torn and whatever follows."""
    log = tmp_path_factory.getbasetemp() / "random.log"
    log.write_bytes(start.encode()[:cut] + rest)
    assert isinstance(read_outcome(log), Outcome)
