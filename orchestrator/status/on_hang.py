"""Cancel or requeue the runs that hang, for `teralog watch --on-hang`."""

from collections.abc import Iterator, Sequence

from orchestrator.campaign.campaign import Campaign
from orchestrator.common.errors import UserError
from orchestrator.slurm.commands import SilenceError, requeue_job
from orchestrator.status.table import RunStatus
from orchestrator.status.watch import Look
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.records import RUNNING
from orchestrator.submit.choose_backend import backend

CANCEL = "cancel"
REQUEUE = "requeue"
# If a run hangs after this many restarts, it is not requeued again, and the user must act.
MOST_RESTARTS = 3


def refuse_on_hang(campaign: Campaign, what: str) -> None:
    """Raise UserError if the user asks to requeue hung runs, but the runs cannot be requeued.

    what: the action that the user gave with `--on-hang`: `cancel` or `requeue`.
    """
    if what != REQUEUE:
        return
    cluster = campaign.cluster
    if cluster.scheduler != "slurm":
        raise UserError(
            "--on-hang requeue: needs Slurm, and this campaign runs on this machine; "
            "use --on-hang cancel, then `teralog retry`"
        )
    if cluster.requeue is False:
        raise UserError(
            f"--on-hang requeue: the cluster profile {cluster.name!r} has `requeue: false`; "
            "use --on-hang cancel, or set `requeue: true` and submit again"
        )


class OnHang:
    """An action that cancels or requeues hung runs, at most once after each start of a run."""

    def __init__(self, campaign: Campaign, store: CampaignStore, what: str) -> None:
        """Store the action `what`: cancel or requeue.

        Raises UserError if the action is impossible.
        """
        refuse_on_hang(campaign, what)
        self._campaign, self._store, self._what = campaign, store, what
        self._done: set[tuple[str, int, int]] = set()

    def __call__(self, look: Look) -> Sequence[str]:
        """Cancel or requeue the hung runs of a snapshot; return a sentence for each."""
        return list(self._sentences(look))

    def _sentences(self, look: Look) -> Iterator[str]:
        for run in look.hung:
            status = run.status
            restarts = status.job.restarts if status.job else 0
            start = (status.planned.run_id, len(status.attempts), restarts)
            if start in self._done:
                continue
            self._done.add(start)
            try:
                done = self._cancel(status) if self._what == CANCEL else self._requeue(status)
            except UserError as error:
                done = f"could not be cancelled or requeued: {error}"
            yield f"{run.hung}: {done}"

    def _cancel(self, status: RunStatus) -> str:
        place = backend(self._campaign)
        notes: list[str] = []
        states = place.cancel(self._campaign, [status.planned], self._store, None, notes.append)
        # `cancel` adds the notes while the loop reads its results.
        done = next((state for _, state in states), "had already ended")
        return "; ".join([done, *notes])

    def _requeue(self, status: RunStatus) -> str:
        job = status.job
        if job is None or job.job_id is None:
            return (
                "not requeued, because the run is not a job of its own, but part of an allocation; "
                "cancel the run, then retry it"
            )
        if job.restarts >= MOST_RESTARTS:
            return (
                f"not requeued, because the run hangs again after {job.restarts} restarts; cancel "
                "the run and read its log"
            )
        # If the job has ended since the snapshot, Slurm would start it again.
        notes = backend(self._campaign).refresh([status.planned], self._store)
        if notes:
            return f"not requeued: {notes[0]}"
        if self._store.run(status.planned.run_id).state() != RUNNING:
            return "not requeued, because the run is not running any more"
        try:
            requeue_job(job.job_id)
        except SilenceError as silence:
            return f"not requeued: {silence}"
        return "requeued"
