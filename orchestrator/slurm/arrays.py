"""Group runs whose scripts request the same resources, to submit each group as one job array."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# Options of #SBATCH lines that do not request resources: each run has its own values.
_OWN = ("--job-name=", "--comment=", "--output=")


@dataclass(frozen=True, slots=True)
class Script:
    """The job script of a run.

    after: the id of the run that must complete before this run starts. None if there is no such
    run, or if that run has ended.
    """

    run_id: str
    text: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The id of a run's job; for a task of an array, the array's id and the task's index."""

    job_id: str
    index: int | None = None

    @classmethod
    def of(cls, job_id: str) -> "Place":
        """Parse the id of a job, e.g. `7`, or of a task of an array, e.g. `7_3`."""
        job, _, index = job_id.partition("_")
        return cls(job, int(index) if index else None)

    @property
    def text(self) -> str:
        """The id in Slurm's notation: e.g. `7` for a job, or `7_3` for a task of an array."""
        return self.job_id if self.index is None else f"{self.job_id}_{self.index}"


def directives(text: str) -> tuple[str, ...]:
    """Return the #SBATCH lines of a script, without those for the job's name, comment and output.

    These three differ from run to run. All other lines must be equal within an array.
    """
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
    """Group scripts so that one call of sbatch can submit each group; yield the groups.

    All scripts of a group request the same resources. Either their runs wait for tasks of the same
    earlier job, or no run of the group waits. A group has at most `max_array_size` scripts, or one
    script if `arrays` is false.
    places: the job or array task of each run that other runs wait for, by run id.
    """
    groups: dict[tuple[str | None, tuple[str, ...]], list[Script]] = {}
    for script in scripts:
        before = None if places is None or script.after is None else places[script.after].job_id
        groups.setdefault((before, directives(script.text)), []).append(script)
    size = max(max_array_size, 1) if arrays else 1
    for group in groups.values():
        for start in range(0, len(group), size):
            yield group[start : start + size]
