"""Read cluster profiles: where runs go, and what a job script needs for that."""

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Annotated, Literal

from pydantic import Field
from pydantic.functional_validators import AfterValidator

from orchestrator.common.errors import MAX_LISTED, UserError
from orchestrator.common.paths import absolute, unset_in
from orchestrator.common.validation import field_types, mapping_problems
from orchestrator.common.yaml_files import read_yaml
from orchestrator.hardware.free_lines import checked_lines
from orchestrator.hardware.gpus import Figure, peak_tflops
from orchestrator.hardware.machine import visible_gpus
from orchestrator.hardware.time_limit import time_limit_seconds
from orchestrator.workloads.precision import Precision

LOCAL = "local"


def _written_as(pattern: str, what: str) -> AfterValidator:
    """Return a check that a text is as Slurm takes it; `what` says what it is, and examples."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(f"{value!r} is no {what}")
        return value

    return AfterValidator(check)


_MEMORY = _written_as(r"[0-9]+[KMGT]?", "amount of memory; write it as 160G, or as 160000M")
_SWITCHES = _written_as(
    r"[0-9]+(@[0-9:-]+)?",
    "number of switches; write it as '1', or as 1@2:00:00 to wait no longer than that",
)
_GPU_TYPE = _written_as(r"[A-Za-z0-9][\w.+-]*", "type of GPU as Slurm has it; write it as a100")
_MAIL_EVENTS = (
    "NONE, BEGIN, END, FAIL, REQUEUE, ALL, INVALID_DEPEND, STAGE_OUT, TIME_LIMIT, TIME_LIMIT_90, "
    "TIME_LIMIT_80, TIME_LIMIT_50, ARRAY_TASKS"
)
_MAIL_EVENT = f"({'|'.join(_MAIL_EVENTS.split(', '))})"
_MAIL_TYPE = _written_as(
    rf"{_MAIL_EVENT}(,{_MAIL_EVENT})*",
    f"list of events; write it as END,FAIL, of {_MAIL_EVENTS}",
)
_SIGNAL = _written_as(
    r"([BR]+:)?[A-Z0-9]+(@[0-9]+)?",
    "signal; write it as USR2@90, or as B:USR2@90 to send it to the job's shell alone",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A place to run, as its profile describes it; absent is None and asks for nothing.

    gpus_per_node: GPUs of a node; 0 where there are none, and ranks are plain processes.
    gpu: their model, as "V100-SXM2-32GB".
    gpu_peak_tflops, gpu_memory_gib: what one can do at most, dense, by precision, and hold; over
        what the table of GPUs says, and for those it does not have.
    cores_per_rank: what Slurm calls cpus-per-task is this times the ranks of a node.
    gpu_type: what Slurm calls that model, e.g. a100; a job then asks for gpu:a100:4.
    memory, memory_per_gpu: of a node's memory, as Slurm takes it: 160G; one of them at most.
    exclusive, switches: whole nodes (`user`: shared with jobs of the same user alone), and how many
        leaf switches at most (`1`, or `1@2:00:00` to wait no longer than that), so that runs can be
        compared.
    reservation, nodelist, exclude, licenses: as sbatch takes them. A job gets all nodes of
        `nodelist`.
    sbatch, srun: further options of these commands, for what no key is for: `--core-spec=2`.
    begin, nice: when a job may start, and how much its priority is lowered, as sbatch takes them.
    gpus_per_task: GPUs that a task sees, if not all of its node.
    mail_user, mail_type: who gets mail, and about what: END,FAIL.
    time_limit: of runs that give none.
    requeue: whether Slurm may start a run again after a node failure or a preemption.
    signal: what Slurm sends before the time is up, as `USR2@90`.
    throttle: how many runs of a campaign go at once. max_array_size: how many an array holds;
        Slurm is asked where it is not given. submission_limit: how many runs of a campaign are in
        the queue at once.
    log_folder: where logs are written, if not beside the run; a link leads there. Absolute.
    modules, setup: modules to load and lines to run before the training command.
    python: the Python that job scripts call, an absolute path or a name on their PATH; this one
        where it is None.
    """

    name: Annotated[str, Field(min_length=1)]
    scheduler: Literal["local", "slurm"] = "slurm"
    nodes: Annotated[int, Field(ge=1)] | None = None
    gpus_per_node: Annotated[int, Field(ge=0)] | None = None
    gpu: str | None = None
    gpu_type: Annotated[str, _GPU_TYPE] | None = None
    gpu_peak_tflops: dict[Precision, Annotated[float, Field(gt=0)]] | None = None
    gpu_memory_gib: Annotated[float, Field(gt=0)] | None = None
    gpus_per_task: Annotated[int, Field(ge=1)] | None = None
    cores_per_rank: Annotated[int, Field(ge=1)] | None = None
    partition: str | None = None
    constraint: str | None = None
    account: str | None = None
    qos: str | None = None
    hint: str | None = None
    memory: Annotated[str, _MEMORY] | None = None
    memory_per_gpu: Annotated[str, _MEMORY] | None = None
    reservation: str | None = None
    nodelist: str | None = None
    exclude: str | None = None
    licenses: str | None = None
    begin: str | None = None
    nice: Annotated[int, Field(ge=-2147483645, le=2147483645)] | None = None
    mail_user: str | None = None
    mail_type: Annotated[str, _MAIL_TYPE] | None = None
    sbatch: Annotated[list[str], checked_lines("sbatch")] | None = None
    srun: Annotated[list[str], checked_lines("srun")] | None = None
    exclusive: bool | Literal["user"] = False
    switches: Annotated[str, _SWITCHES] | None = None
    time_limit: Annotated[int | str, AfterValidator(time_limit_seconds)] | None = None
    requeue: bool | None = None
    signal: Annotated[str, _SIGNAL] | None = None
    throttle: Annotated[int, Field(ge=1)] | None = None
    max_array_size: Annotated[int, Field(ge=1)] | None = None
    submission_limit: Annotated[int, Field(ge=1)] | None = None
    log_folder: str | None = None
    modules: list[str] | None = None
    setup: list[str] | None = None
    python: str | None = None

    @property
    def has_gpus(self) -> bool:
        """Whether ranks are GPUs rather than processes."""
        return self.gpus_per_node != 0

    def peak_tflops(self, precision: str, device: str | None = None) -> Figure | None:
        """Return what a GPU of the cluster can do at most, or None where no GPU is named.

        `device` is what a log calls it, if it does: the profile names what was asked for, the log
        what was there.
        """
        name = device or self.gpu
        if device == "cpu" or not self.has_gpus:
            return None
        for known, peak in (self.gpu_peak_tflops or {}).items():
            if known == precision:
                return Figure(peak, f"{peak:g} TFLOP/s in {precision}, cluster profile {self.name}")
        return None if name is None else peak_tflops(name, precision)


def load_cluster(name: str, folder: Path) -> Cluster:
    """Return the cluster called `name`: `local`, or a YAML profile relative to `folder`.

    Raises UserError, with all that is wrong with the profile.
    """
    if name == LOCAL:
        return Cluster(name=LOCAL, scheduler="local", nodes=1, gpus_per_node=len(visible_gpus()))
    path = folder / name
    if not path.is_file():
        raise UserError(_no_profile(name, folder))
    data = {"name": path.stem, **read_yaml(path, "a cluster profile")}
    problems = [*mapping_problems("", Cluster, data)]
    if "memory" in data and "memory_per_gpu" in data:
        problems.append("memory, memory_per_gpu: give one of them; Slurm takes no more")
    if problems:
        raise UserError(*(f"{path}: {problem}" for problem in problems))
    cluster = Cluster(**data)
    return replace(
        cluster,
        log_folder=_path(cluster.log_folder, path.parent),
        python=_path(cluster.python, path.parent) if _is_path(cluster.python) else cluster.python,
    )


def _path(written: str | None, folder: Path) -> str | None:
    # One with a variable that is not set is told as it is written, before anything is done by it.
    if written is None or any(unset_in("", written)):
        return written
    return absolute(written, folder)


def _is_path(python: str | None) -> bool:
    """Return whether a Python is where it is said to be, rather than on the PATH of a job."""
    return python is not None and ("/" in python or python.startswith(("~", "$")))


def _no_profile(name: str, folder: Path) -> str:
    """Return that there is no profile called `name`, which ones there are, and the nearest."""
    place = folder / PurePath(name).parent
    there = [path for path in sorted(place.glob("*.y*ml")) if _is_profile(path)]
    files = {path.stem: (PurePath(name).parent / path.name).as_posix() for path in there}
    listed = ", ".join([*files.values()][:MAX_LISTED])
    are = f"; there {'is' if len(files) == 1 else 'are'} {listed}" if files else ""
    near = get_close_matches(PurePath(name).stem, [*files, LOCAL], n=1)
    instead = "; give a file's name, or 'local' for this machine"
    hint = f"; did you mean {files.get(near[0], LOCAL)!r}?" if near else instead
    return f"cluster {name!r}: there is no such profile file in {place.absolute()}{are}{hint}"


def _is_profile(path: Path) -> bool:
    """Return whether a file is a cluster profile, rather than a campaign or something else."""
    try:
        return read_yaml(path, "a cluster profile").keys() <= field_types(Cluster).keys()
    except UserError:
        return False
