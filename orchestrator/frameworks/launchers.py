"""The launchers of a run's ranks, in one table; `launch.sh.j2` has a section for each launcher."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Launcher:
    """The properties of a launcher on which job scripts depend.

    needs_slurm: whether the launcher works only in a Slurm job.
    imports: the top-level modules that the launcher needs.
    takes_first_gpus: whether a run on several nodes always gets the first GPUs of each node,
    even if another run has those GPUs.
    """

    needs_slurm: bool = False
    takes_first_gpus: bool = False
    imports: tuple[str, ...] = ()


LAUNCHERS = {
    "torchrun": Launcher(imports=("torch",)),
    # The launcher of torch before torchrun (2021).
    "launch": Launcher(imports=("torch",)),
    "deepspeed": Launcher(takes_first_gpus=True, imports=("deepspeed",)),
    "srun": Launcher(needs_slurm=True),
    # The launcher starts one process per node, which uses all GPUs of the node.
    "node": Launcher(),
}
