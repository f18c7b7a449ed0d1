"""Keep all jobs of a campaign within one throttle: a limit on how many runs run at once.

Slurm limits the running tasks of each array separately. So teralog puts jobs into groups that stay
within the throttle. Each group waits until all jobs of the group before it have ended.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Throttle:
    """The jobs of a campaign, in groups; only jobs of one group run at the same time.

    most: how many runs may run at once; None for no limit.
    group: the ids of the jobs in the current group.
    width: how many runs of the current group may run at once.
    before: the ids of the jobs in the previous group.
    """

    most: int | None
    width: int = 0
    group: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)

    def waits_for(self, runs: int) -> str | None:
        """Choose the group for a job with `runs` runs; return sbatch's --dependency for the job.

        If the current group stays within the throttle with this job, the job joins the group.
        Otherwise the job begins the next group. Returns None if the job need not wait.
        """
        if self.most is None:
            return None
        width = min(runs, self.most)
        if self.width + width > self.most:
            self.before, self.group, self.width = self.group or self.before, [], 0
        self.width += width
        return f"afterany:{':'.join(self.before)}" if self.before else None

    def add(self, job_id: str) -> None:
        """Add a submitted job to the current group."""
        if job_id not in self.group:
            self.group.append(job_id)


def throttle_after(most: int | None, queued: list[str]) -> Throttle:
    """Return the throttle for new jobs of a campaign that has queued jobs already.

    The queued jobs become the current group, so new jobs join them or wait for them.
    most: how many runs may run at once; None for no limit. queued: the job or task ids of the
    queued runs.
    """
    if most is None:
        return Throttle(None)
    jobs = list(dict.fromkeys(job_id.partition("_")[0] for job_id in queued))
    return Throttle(most, min(len(queued), most), jobs)
