"""Group the runs whose scripts ask Slurm for the same, so that they go as one array."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# What a script says of itself rather than asks for.
_OWN = ("--job-name=", "--comment=", "--output=")


@dataclass(frozen=True, slots=True)
class Script:
    """A run's job script, and the run.

    after: the run that must have completed before, where there is one that has not ended.
    """

    run_id: str
    text: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where Slurm has a run: a job, and the index of its task where the job is an array."""

    job_id: str
    index: int | None = None

    @classmethod
    def of(cls, job_id: str) -> "Place":
        """Return the place that Slurm writes as `7`, or as `7_3`."""
        job, _, index = job_id.partition("_")
        return cls(job, int(index) if index else None)

    @property
    def said(self) -> str:
        """The place as Slurm writes it."""
        return self.job_id if self.index is None else f"{self.job_id}_{self.index}"


def directives(text: str) -> tuple[str, ...]:
    """Return what a script asks of Slurm, as its #SBATCH lines, without what is its own."""
    lines = []
    for line in text.splitlines():
        # sbatch reads no further than the first line of shell.
        if line and not line.startswith("#"):
            break
        if line.startswith("#SBATCH ") and not line.split()[1].startswith(_OWN):
            lines.append(line)
    return tuple(lines)


def batches(
    scripts: Sequence[Script],
    max_array_size: int,
    *,
    arrays: bool = True,
    places: Mapping[str, Place] | None = None,
) -> Iterator[list[Script]]:
    """Yield the scripts that are to be submitted together, in their order.

    They ask for the same, come after tasks of the same array or after none, and are at most as many
    as an array may have; one by one where there are to be no arrays. `places` are those of the runs
    that others come after.
    """
    groups: dict[tuple[str | None, tuple[str, ...]], list[Script]] = {}
    for script in scripts:
        before = None if places is None or script.after is None else places[script.after].job_id
        groups.setdefault((before, directives(script.text)), []).append(script)
    size = max(max_array_size, 1) if arrays else 1
    for group in groups.values():
        for start in range(0, len(group), size):
            yield group[start : start + size]
