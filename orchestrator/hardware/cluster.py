"""Read cluster profiles: where runs start, and what their job scripts need."""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.functional_validators import AfterValidator

from orchestrator.common.errors import MAX_LISTED, UserError
from orchestrator.common.paths import absolute, unset_in
from orchestrator.common.validation import field_types, mapping_problems
from orchestrator.common.yaml_files import read_yaml
from orchestrator.hardware.container import (
    Container,
    container_problems,
    located,
    unset_in_container,
)
from orchestrator.hardware.free_lines import checked_lines
from orchestrator.hardware.gpus import Figure, peak_tflops
from orchestrator.hardware.machine import visible_gpus
from orchestrator.hardware.time_limit import time_limit_seconds
from orchestrator.workloads.precision import Precision

LOCAL = "local"


def _written_as(pattern: str, what: str) -> AfterValidator:
    """Return a validator that checks whether a text has the form that Slurm requires.

    pattern: a regular expression for the form. what: a description of the form for the error
    message, with examples.
    """

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(f"{value!r} is not a valid {what}")
        return value

    return AfterValidator(check)


_MEMORY = _written_as(r"[0-9]+[KMGT]?", "amount of memory; write e.g. 160G or 160000M")
_SWITCHES = _written_as(
    r"[0-9]+(@[0-9:-]+)?",
    "number of switches; write e.g. '1', or 1@2:00:00 to wait at most 2 hours",
)
_GPU_TYPE = _written_as(r"[A-Za-z0-9][\w.+-]*", "type of GPU in Slurm's form; write e.g. a100")
_MAIL_EVENTS = (
    "NONE, BEGIN, END, FAIL, REQUEUE, ALL, INVALID_DEPEND, STAGE_OUT, TIME_LIMIT, TIME_LIMIT_90, "
    "TIME_LIMIT_80, TIME_LIMIT_50, ARRAY_TASKS"
)
_MAIL_EVENT = f"({'|'.join(_MAIL_EVENTS.split(', '))})"
_MAIL_TYPE = _written_as(
    rf"{_MAIL_EVENT}(,{_MAIL_EVENT})*",
    f"list of events; write e.g. END,FAIL; choose from {_MAIL_EVENTS}",
)
_SIGNAL = _written_as(
    r"([BR]+:)?[A-Z0-9]+(@[0-9]+)?",
    "signal; write e.g. USR2@90, or B:USR2@90 to send it only to the job's shell",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A place to run, as its cluster profile describes it.

    A key without a value is None and has no effect. `load_cluster` makes the paths absolute.
    """

    name: Annotated[
        str,
        Field(
            description="Name of the cluster in tables. Default: the name of the file.",
            min_length=1,
            # `load_cluster` takes it from the file's name.
            json_schema_extra={"optional": True},
        ),
    ]
    scheduler: Annotated[
        Literal["local", "slurm"],
        Field(description="What starts the runs: Slurm, or teralog itself on this machine."),
    ] = "slurm"
    nodes: Annotated[int | None, Field(description="Number of nodes that a run can use.", ge=1)] = (
        None
    )
    gpus_per_node: Annotated[
        int | None,
        Field(description="GPUs per node; with 0, ranks train on the CPU.", ge=0),
    ] = None
    gpu: Annotated[
        str | None,
        Field(description="Model of the GPUs, for MFU and memory forecasts, e.g. V100-SXM2-32GB."),
    ] = None
    gpu_type: Annotated[
        Annotated[str, _GPU_TYPE] | None,
        Field(
            description="Slurm's name for this type of GPU: with v100, a job asks for gpu:v100:4."
        ),
    ] = None
    gpu_peak_tflops: Annotated[
        dict[Precision, Annotated[float, Field(gt=0)]] | None,
        Field(
            description="Dense peak of a GPU in TFLOP/s by precision, e.g. {bf16: 312}; "
            "replaces the peak in teralog's table of GPUs."
        ),
    ] = None
    gpu_memory_gib: Annotated[
        float | None,
        Field(
            description="Memory of a GPU in GiB, e.g. 40; replaces the size in teralog's "
            "table of GPUs.",
            gt=0,
        ),
    ] = None
    gpus_per_task: Annotated[
        int | None,
        Field(
            description="GPUs that a task of srun sees; all GPUs of its node if not given.", ge=1
        ),
    ] = None
    cores_per_rank: Annotated[
        int | None,
        Field(
            description="Cores per rank; teralog computes Slurm's --cpus-per-task from this "
            "number.",
            ge=1,
        ),
    ] = None
    partition: Annotated[str | None, Field(description="Slurm partition of the jobs.")] = None
    constraint: Annotated[
        str | None, Field(description="Features that nodes must have, e.g. v100-32g.")
    ] = None
    account: Annotated[str | None, Field(description="Account that is charged for jobs.")] = None
    qos: Annotated[str | None, Field(description="Quality of service (QOS) of the jobs.")] = None
    hint: Annotated[str | None, Field(description="Slurm's --hint, e.g. nomultithread.")] = None
    memory: Annotated[
        Annotated[str, _MEMORY] | None,
        Field(
            description="Memory on each node of a job, e.g. 160G. Cannot be used with "
            "memory_per_gpu."
        ),
    ] = None
    memory_per_gpu: Annotated[
        Annotated[str, _MEMORY] | None,
        Field(description="Memory per GPU of a job, e.g. 40G. Cannot be used with memory."),
    ] = None
    reservation: Annotated[
        str | None, Field(description="Slurm reservation in which jobs run.")
    ] = None
    nodelist: Annotated[
        str | None, Field(description="Nodes that every job must have, e.g. node[1-4].")
    ] = None
    exclude: Annotated[
        str | None,
        Field(description="Nodes that no job may use, in addition to those of --exclude."),
    ] = None
    licenses: Annotated[
        str | None, Field(description="Licenses that each job needs, e.g. matlab:1.")
    ] = None
    begin: Annotated[
        str | None, Field(description="Earliest start of jobs, e.g. now+1hour or 20:00.")
    ] = None
    nice: Annotated[
        int | None,
        Field(
            description="Slurm's --nice: a higher number lowers the priority of jobs.",
            ge=-2147483645,
            le=2147483645,
        ),
    ] = None
    mail_user: Annotated[str | None, Field(description="Address for mail about jobs.")] = None
    mail_type: Annotated[
        Annotated[str, _MAIL_TYPE] | None,
        Field(description="Events about which Slurm sends mail, e.g. END,FAIL."),
    ] = None
    sbatch: Annotated[
        Annotated[list[str], checked_lines("sbatch")] | None,
        Field(description="Further options of sbatch, one per item, e.g. --core-spec=2."),
    ] = None
    srun: Annotated[
        Annotated[list[str], checked_lines("srun")] | None,
        Field(description="Further options of srun, one per item, e.g. --mpi=pmix."),
    ] = None
    exclusive: Annotated[
        bool | Literal["user"],
        Field(description="true: use whole nodes; user: share nodes only with your own jobs."),
    ] = False
    switches: Annotated[
        Annotated[str, _SWITCHES] | None,
        Field(
            description="Maximum number of leaf switches, e.g. '1'; with '1@2:00:00' a job waits "
            "at most 2 hours for such nodes."
        ),
    ] = None
    time_limit: Annotated[
        Annotated[int | str, AfterValidator(time_limit_seconds)] | None,
        Field(description="Time limit of runs that have none: minutes, or Slurm's H:MM:SS."),
    ] = None
    requeue: Annotated[
        bool | None,
        Field(
            description="Whether Slurm may start a run again after a node failure or a preemption; "
            "if not given, the cluster's own setting applies."
        ),
    ] = None
    signal: Annotated[
        Annotated[str, _SIGNAL] | None,
        Field(
            description="Signal that Slurm sends before the time limit, e.g. USR2@90: USR2, "
            "90 s before."
        ),
    ] = None
    throttle: Annotated[
        int | None,
        Field(description="Maximum number of runs of a campaign that run at once.", ge=1),
    ] = None
    max_array_size: Annotated[
        int | None,
        Field(description="Maximum number of runs in a job array; Slurm's own if not given.", ge=1),
    ] = None
    submission_limit: Annotated[
        int | None,
        Field(description="Maximum number of runs of a campaign in Slurm's queue.", ge=1),
    ] = None
    log_folder: Annotated[
        str | None,
        Field(
            description="Folder for logs; the folder of a run then contains a link to its log. If "
            "not given, the log itself is in the folder of the run."
        ),
    ] = None
    modules: Annotated[
        list[str] | None, Field(description="Environment modules that jobs load.")
    ] = None
    setup: Annotated[
        list[str] | None,
        Field(description="Shell lines that run before the training, e.g. export NCCL_DEBUG=WARN."),
    ] = None
    container: Annotated[
        Container | None,
        Field(description="The container in which launchers, ranks and rehearsals run."),
    ] = None
    binding: Annotated[
        Literal["none", "numa", "custom"],
        Field(
            description="numa: each rank has the cores of its GPU's NUMA node; custom: "
            "binding_command starts each rank."
        ),
    ] = "none"
    binding_command: Annotated[
        Annotated[list[str], Field(min_length=1)] | None,
        Field(
            description="With binding custom: the command that starts each rank, e.g. [./bind.sh]."
        ),
    ] = None
    python: Annotated[
        str | None,
        Field(
            description="The Python that job scripts call: a path, or a name on the job's "
            "PATH. Default: python3 in a container, else the Python that runs teralog."
        ),
    ] = None

    @property
    def script_python(self) -> str:
        """The Python that job scripts call: its path or its command."""
        return self.python or (sys.executable if self.container is None else "python3")

    @property
    def has_gpus(self) -> bool:
        """Whether each rank uses a GPU; if not, ranks compute on the cores of the nodes.

        False only if `gpus_per_node` is 0.
        """
        return self.gpus_per_node != 0

    def peak_tflops(self, precision: str, device: str | None = None) -> Figure | None:
        """Return the peak of the cluster's GPU at this precision, with its source.

        If the profile contains a peak for this precision, that peak is returned. Otherwise the peak
        is looked up by the GPU's name. If the name is not in the table of GPUs, the `value` of the
        result is None. Returns None instead of a result if the cluster has no GPUs, if `device` is
        `cpu`, or if no name is known.

        device: the name of the GPU in a log, if the log has it. It is used instead of the name in
        the profile, because the profile names only the requested GPU.
        """
        name = device or self.gpu
        if device == "cpu" or not self.has_gpus:
            return None
        for gpu_precision, peak in (self.gpu_peak_tflops or {}).items():
            if gpu_precision == precision:
                source = f"as set in cluster profile {self.name}"
                return Figure(peak, f"{peak:g} TFLOP/s in {precision}, {source}")
        return None if name is None else peak_tflops(name, precision)


def load_cluster(name: str, folder: Path) -> Cluster:
    """Return the cluster called `name`: `local`, or the path of a profile relative to `folder`.

    Raises UserError, with all problems of the profile.
    """
    if name == LOCAL:
        return Cluster(name=LOCAL, scheduler="local", nodes=1, gpus_per_node=len(visible_gpus()))
    path = folder / name
    if not path.is_file():
        raise UserError(_no_profile(name, folder))
    data = {"name": path.stem, **read_yaml(path, "a cluster profile")}
    container = data.pop("container", None)
    problems = [*mapping_problems("", Cluster, data), *_joint_problems(data)]
    if container is not None:
        problems += container_problems(container, data)
    if problems:
        raise UserError(*(f"{path}: {problem}" for problem in problems))
    cluster = Cluster(**data)
    command = cluster.binding_command
    if command is not None:
        program = _path(command[0], path.parent) if _is_path(command[0]) else command[0]
        command = [program or "", *command[1:]]
    return replace(
        cluster,
        log_folder=_path(cluster.log_folder, path.parent),
        python=_path(cluster.python, path.parent) if _is_path(cluster.python) else cluster.python,
        container=None if container is None else located(Container(**container), path.parent),
        binding_command=command,
    )


def unset_paths(cluster: Cluster) -> Iterator[str]:
    """Yield a sentence for each unset environment variable in the paths of a profile.

    Only the paths that job scripts contain are checked.
    """
    yield from unset_in("python", cluster.python)
    for word in (cluster.binding_command or ())[:1]:
        yield from unset_in("binding_command", word)
    if cluster.container is not None:
        yield from unset_in_container(cluster.container)


def _joint_problems(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each contradiction between keys of a profile."""
    if "memory" in data and "memory_per_gpu" in data:
        yield "memory, memory_per_gpu: give only one of them"
    custom = data.get("binding") == "custom"
    if custom and "binding_command" not in data:
        yield (
            "`binding: custom` needs a command that starts each rank; add e.g. "
            "`binding_command: [./bind.sh]`"
        )
    if not custom and "binding_command" in data:
        yield "binding_command: needs `binding: custom`; add it, or remove binding_command"


def _path(written: str | None, folder: Path) -> str | None:
    # A path with an unset variable stays as written. It is reported before it is used.
    if written is None or any(unset_in("", written)):
        return written
    return absolute(written, folder)


def _is_path(python: str | None) -> bool:
    """Return whether `python` of a profile is a path, and neither None nor a command."""
    return python is not None and ("/" in python or python.startswith(("~", "$")))


def _no_profile(name: str, folder: Path) -> str:
    """Return a message that no profile is called `name`; it lists the profiles that exist."""
    place = folder / PurePath(name).parent
    there = [path for path in sorted(place.glob("*.y*ml")) if _is_profile(path)]
    files = {path.stem: (PurePath(name).parent / path.name).as_posix() for path in there}
    listed = ", ".join([*files.values()][:MAX_LISTED])
    others = f"; profiles in this folder: {listed}" if files else ""
    near = get_close_matches(PurePath(name).stem, [*files, LOCAL], n=1)
    instead = "; give a file's name, or 'local' for this machine"
    hint = f"; did you mean {files.get(near[0], LOCAL)!r}?" if near else instead
    return f"cluster {name!r}: there is no such profile file in {place.absolute()}{others}{hint}"


def _is_profile(path: Path) -> bool:
    """Return whether a file is a cluster profile, and not a campaign or something else."""
    try:
        return read_yaml(path, "a cluster profile").keys() <= field_types(Cluster).keys()
    except UserError:
        return False
