"""Cluster profiles: where runs go, and what a script must say to get there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from orchestrator.errors import UserError
from orchestrator.machine import visible_gpus
from orchestrator.validation import mapping_problems
from orchestrator.yaml_files import read_yaml

LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A place to run, as its profile describes it; absent is None and asks for nothing.

    gpus_per_node: GPUs of a node; 0 where there are none, and ranks are plain processes.
    gpu: their model, as "V100-SXM2-32GB".
    cores_per_rank: what Slurm calls cpus-per-task is this times the ranks of a node.
    modules, setup: modules to load and lines to run before the training command.
    python: the Python that job scripts call; this one where it is None.
    """

    name: Annotated[str, Field(min_length=1)]
    scheduler: Literal["local", "slurm"] = "slurm"
    nodes: Annotated[int, Field(ge=1)] | None = None
    gpus_per_node: Annotated[int, Field(ge=0)] | None = None
    gpu: str | None = None
    cores_per_rank: Annotated[int, Field(ge=1)] | None = None
    partition: str | None = None
    constraint: str | None = None
    account: str | None = None
    qos: str | None = None
    hint: str | None = None
    modules: list[str] | None = None
    setup: list[str] | None = None
    python: str | None = None

    @property
    def has_gpus(self) -> bool:
        """Whether ranks are GPUs rather than processes."""
        return self.gpus_per_node != 0


def load_cluster(name: str, folder: Path) -> Cluster:
    """Return the cluster called `name`: `local`, or a YAML profile relative to `folder`.

    Raises UserError, with all that is wrong with the profile.
    """
    if name == LOCAL:
        return Cluster(name=LOCAL, scheduler="local", nodes=1, gpus_per_node=len(visible_gpus()))
    path = folder / name
    if not path.is_file():
        raise UserError(
            f"cluster {name!r}: there is no such profile file in {folder}; "
            "give a file's name, or 'local' for this machine"
        )
    data = {"name": path.stem, **read_yaml(path, "a cluster profile")}
    problems = list(mapping_problems("", Cluster, data))
    if problems:
        raise UserError(*(f"{path}: {problem}" for problem in problems))
    return Cluster(**data)
