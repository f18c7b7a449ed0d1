"""Check whether a run is possible on its cluster, and warn about unusual settings."""

from collections.abc import Iterator
from pathlib import Path

from orchestrator.campaign.user_paths import missing_files, unset_variables
from orchestrator.common.errors import did_you_mean
from orchestrator.common.paths import unset_in
from orchestrator.frameworks.launchers import LAUNCHERS
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster, unset_paths
from orchestrator.hardware.container import option_problem
from orchestrator.hardware.gpus import (
    Capability,
    compute_capability,
    full_names,
    lacks_bf16,
    matching,
    memory_gib,
)
from orchestrator.run.model import Run
from parsers.summary.warmup import Warmup


def run_problems(run: Run, cluster: Cluster, warmup: Warmup) -> Iterator[str]:
    """Yield every reason why `run` cannot run on `cluster`, or cannot be measured there."""
    yield from _model_problems(run)
    yield from _batch_problems(run)
    yield from _cluster_problems(run, cluster)
    yield from _capability_problems(run, cluster)
    yield from FRAMEWORKS[run.framework].checks.problems(run)
    if warmup.least_iterations(run.training.train_iters) >= run.training.train_iters:
        iterations = run.training.train_iters
        yield (
            f"warmup is {warmup}, which leaves no iteration of train_iters={iterations}; lower "
            "warmup, or raise train_iters"
        )


def run_warnings(run: Run, cluster: Cluster, folder: Path) -> Iterator[str]:
    """Yield warnings about valid but unusual settings of a run.

    folder: the folder of the campaign file. On a cluster with scheduler `local`, there is also a
    warning for each missing file that the run would open.
    """
    yield from unset_variables(run)
    yield from unset_in("log_folder", cluster.log_folder)
    yield from unset_paths(cluster)
    if cluster.gpu is not None and cluster.has_gpus:
        yield from _gpu_warnings(cluster, cluster.gpu, run.training.precision)
    framework = FRAMEWORKS[run.framework]
    if cluster.has_gpus and cluster.cores_per_rank is None and framework.start.steps_on_cpu(run):
        yield (
            "the optimizer runs on the CPU with one thread; for more threads, set cores_per_rank "
            "in the cluster profile"
        )
    if not cluster.has_gpus and (what := framework.checks.needs_gpus(run)):
        yield f"{what} trains only on GPUs, and cluster {cluster.name} has none"
    if cluster.scheduler == "local":
        yield from missing_files(run, folder)
    tensor, gpus = run.parallelism.tensor_parallel_size, run.resources.gpus_per_node
    if run.resources.nodes > 1 and gpus % tensor:
        yield (
            f"tensor_parallel_size={tensor} does not divide gpus_per_node={gpus}: each layer "
            "is divided over several nodes and waits for the network"
        )
    yield from framework.checks.warnings(run)


def _gpu_warnings(cluster: Cluster, gpu: str, precision: str) -> Iterator[str]:
    if matching(gpu):
        if cluster.gpu_memory_gib is None and (room := memory_gib(gpu)).value is None:
            yield f"gpu: {room.explanation}"
        return
    missing = {}
    if precision not in (cluster.gpu_peak_tflops or {}):
        missing["gpu_peak_tflops"] = "to compute MFU"
    if cluster.gpu_memory_gib is None:
        missing["gpu_memory_gib"] = "to check whether runs fit into memory"
    if missing:
        hint = did_you_mean(gpu.upper(), full_names()) or "."
        yield (
            f"gpu: {gpu!r} is not a GPU that teralog knows{hint} For an unknown GPU, give "
            f"{' and '.join(missing)} in the cluster profile, {' and '.join(missing.values())}"
        )


def _model_problems(run: Run) -> Iterator[str]:
    if run.model is None:
        return
    yield from FRAMEWORKS[run.framework].model.problems(run)
    hidden, heads = run.model.hidden_size, run.model.num_attention_heads
    if run.model.described is None and hidden % heads:
        yield f"hidden_size={hidden} is not divisible by num_attention_heads={heads}"


def _batch_problems(run: Run) -> Iterator[str]:
    context = "*context_parallel_size" if run.parallelism.context_parallel_size > 1 else ""
    split = f"tensor_parallel_size*pipeline_parallel_size{context}"
    if run.data_parallel_size is None:
        yield (
            f"world_size={run.world_size} is not divisible by "
            f"{split}={run.parallelism.ranks_per_replica}"
        )
    elif (copies := run.parallelism.contradicted_data_parallel_size) is not None:
        yield (
            f"data_parallel_size={copies} contradicts world_size/({split})={run.data_parallel_size}"
        )
    elif (count := run.batch.contradicted_num_microbatches) is not None:
        made = run.batch.micro_batch_size * count * run.data_parallel_size
        yield (
            f"global_batch_size={run.batch.global_batch_size} contradicts "
            f"micro_batch_size*num_microbatches*data_parallel_size={made}"
        )
    elif run.num_microbatches is None:
        each = run.batch.micro_batch_size * run.data_parallel_size
        yield (
            f"global_batch_size={run.batch.global_batch_size} is not divisible by "
            f"micro_batch_size*data_parallel_size={each}"
        )


def _cluster_problems(run: Run, cluster: Cluster) -> Iterator[str]:
    nodes, gpus = run.resources.nodes, run.resources.gpus_per_node
    if cluster.nodes is not None and nodes > cluster.nodes:
        yield f"nodes={nodes}, but cluster {cluster.name} has {cluster.nodes}"
    elif cluster.scheduler == "local" and nodes > 1:
        yield f"nodes={nodes}, but cluster {cluster.name} is this one machine"
    if cluster.gpus_per_node and gpus > cluster.gpus_per_node:
        yield f"gpus_per_node={gpus}, but cluster {cluster.name} has {cluster.gpus_per_node}"
    if run.training.precision == "fp16" and not cluster.has_gpus:
        yield f"precision=fp16 needs a GPU, and cluster {cluster.name} has none; try bf16 or fp32"
    if run.training.precision == "bf16" and cluster.gpu is not None and lacks_bf16(cluster.gpu):
        yield f"precision=bf16 is not supported by {cluster.gpu}; try fp16"
    launcher = run.options.launcher
    if LAUNCHERS[launcher].needs_slurm and cluster.scheduler != "slurm":
        yield f"launcher={launcher} needs a Slurm cluster, and {cluster.name} is not one"
    if cluster.container is not None:
        yield from (
            f"srun: {problem}" for line in run.resources.srun if (problem := option_problem(line))
        )


def _capability_problems(run: Run, cluster: Cluster) -> Iterator[str]:
    for what, least in FRAMEWORKS[run.framework].checks.needs_capability(run):
        has = None if cluster.gpu is None else compute_capability(cluster.gpu)
        if has is not None and has < least:
            yield (
                f"{what} needs a GPU of compute capability {_version(least)} or more, and "
                f"{cluster.gpu} has {_version(has)}"
            )


def _version(capability: Capability) -> str:
    return "{}.{}".format(*capability)
