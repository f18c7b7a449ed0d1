"""Submit a campaign to Slurm: every run once, even if submits overlap or are killed.

A submit claims a run by making the folder of the run's attempt. Only one submit can make
this folder. From its creation, the folder contains the name of the batch of runs that one
sbatch call will submit. The batch of runs also has its own folder, with the script; this
folder exists before sbatch is called. So, if a submit is interrupted, the next submit can
find the job by the name. If Slurm has no such job, the next submit withdraws the batch of runs:
if Slurm accepts the job later, the job ends before it runs anything.
"""

import secrets
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.common.errors import UserError
from orchestrator.common.files import at_once, disk_errors, require_hard_links
from orchestrator.common.text import counted, printable
from orchestrator.hardware.cluster import Cluster
from orchestrator.slurm.arrays import Place, Script, batches
from orchestrator.slurm.batch_script import batch_script
from orchestrator.slurm.commands import SilenceError, ask_jobs, cancel_jobs, max_array_size
from orchestrator.slurm.executor import RefusedError, ScriptExecutor
from orchestrator.slurm.sbatch_options import SbatchOptions, dependency, sbatch_options, sbatch_path
from orchestrator.slurm.throttle import throttle_after
from orchestrator.slurm.tracking import close, job_ids, queued_attempts, recover, refresh, withdraw
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.folders import BatchFolder
from orchestrator.store.record_files import utc_now
from orchestrator.store.records import Attempt, Intent, Receipt, RunBatch
from orchestrator.submit.backend import StartOptions
from orchestrator.submit.render import render_runs

# The number of characters of a run's label in Slurm's comment.
_COMMENT_LENGTH = 200
_LATER = "; submit again when some runs have ended, or let `submit --wait` do this"


class _LimitError(UserError):
    """Raised if Slurm accepts no more jobs at this time, because a limit is reached.

    submitted: how many runs of the current group were submitted before Slurm refused the
    others.
    """

    def __init__(self, refused: RefusedError, submitted: int = 0) -> None:
        super().__init__(refused.limit or str(refused))
        self.refused, self.submitted = refused, submitted


@dataclass(slots=True)
class SlurmSession:
    """One call of `submit` on a Slurm cluster.

    lock: the file descriptor of the campaign's lock; None if the file system has no locks. This
    process and every sbatch that it starts have the lock.
    """

    campaign: Campaign
    store: CampaignStore
    lock: int | None
    _numbers: dict[str, int] = field(default_factory=dict)
    _earlier_marks: frozenset[str] = frozenset()

    def settle(self, runs: Sequence[PlannedRun]) -> list[str]:
        """Record whether interrupted submissions have a job; ask Slurm about all open attempts.

        Returns messages for the user.
        """
        self._earlier_marks = self.store.cancel_marks.names()
        if self.lock is not None:
            self.store.cancel_marks.remove(self._earlier_marks)
        self._restore(runs)
        # The numbers are read first: if two submits decide to start the same run, they use the same
        # number, and only one of them can claim the run.
        self._numbers = {run.run_id: self.store.run(run.run_id).next_number for run in runs}
        with disk_errors(self.store.path):
            notes = recover(runs, self.store, alone=self.lock is not None)
        return [*notes, *refresh(runs, self.store)]

    def start(self, runs: Sequence[PlannedRun], options: StartOptions) -> Iterator[str]:
        """Submit `runs`; yield a line for each job, and lines on why runs were not submitted.

        Raises UserError if Slurm refuses a job. The message contains the ids of the jobs that were
        submitted before, and how many runs were submitted. Also raises UserError if the campaign
        has `order: interleaved`, because its runs must share one allocation, and so cannot be
        separate jobs.
        """
        if self.campaign.order_seed is not None and runs:
            raise UserError(
                f"{self.campaign.path}: `order: interleaved` needs runs that share an "
                "allocation, but here each run would be a separate job. `teralog salloc "
                "--batch --run` submits one job per block; in an allocation, `teralog submit "
                "--here` starts the runs in this order"
            )
        cluster = self.campaign.cluster
        executor = ScriptExecutor(self.store.path, () if self.lock is None else (self.lock,))
        fitting, line = self._within_limit(runs)
        texts = render_runs(self.campaign, fitting, self.store)
        with disk_errors(self.store.path):
            require_hard_links(self.store.path)
        opened = queued_attempts(self.campaign.runs, self.store)
        places = {
            attempt.run_id: Place.of(job) for job, attempt in job_ids(opened, self.store).items()
        }
        scripts = self._scripts(fitting, texts, {open_attempt.run_id for open_attempt in opened})
        asked = _with_defaults(options.sbatch, cluster)
        size = cluster.max_array_size or (max_array_size() if len(scripts) > 1 else 1)
        # If a path contains a backslash, sbatch does not replace the index of an array in it.
        arrays = "\\" not in str(self.store.path)
        labels = {run.run_id: run.label for run in fitting}
        throttle = throttle_after(asked.throttle, list(job_ids(opened, self.store)))
        done, total, before = 0, len(scripts), set(places)
        while ready := [
            script for script in scripts if script.after is None or script.after in places
        ]:
            scripts = [
                script
                for script in scripts
                if script.after is not None and script.after not in places
            ]
            for group in batches(ready, size, arrays=arrays, places=places):
                waits = throttle.waits_for(len(group))
                ours = replace(asked, dependency=",".join(filter(None, (asked.dependency, waits))))
                try:
                    yield from self._submit_accepted(
                        group, executor, replace(options, sbatch=ours), labels, places
                    )
                except _LimitError as limit:
                    rest = counted(total - done - limit.submitted, "run")
                    yield (
                        f"{rest} left: Slurm accepts no more jobs now ({limit}){_LATER}; to stay "
                        "below this limit, set `submission_limit` in the cluster profile"
                    )
                    return
                except UserError as error:
                    done += sum(script.run_id in places for script in group)
                    if not done:
                        raise
                    jobs = [places[run_id].job_id for run_id in places if run_id not in before]
                    halfway = _halfway(done, total - done, list(dict.fromkeys(jobs)))
                    raise UserError(*error.problems, halfway) from None
                except _CancelledError:
                    raise UserError(_cancelled(self.store.path, done, total - done)) from None
                done += len(group)
                for submitted in group:
                    if (place := places.get(submitted.run_id)) is not None:
                        throttle.add(place.job_id)
        if scripts:
            yield (
                f"{counted(len(scripts), 'run')} left: another submit is submitting earlier runs "
                "of the same series"
            )
        if line:
            yield line
        self._refuse_missed([run for run in fitting if run.run_id not in places])

    def _refuse_missed(self, runs: Sequence[PlannedRun]) -> None:
        """Raise UserError if `teralog cancel` named some of `runs`.

        runs: runs that this submit did not submit. The message explains why, and how to start them.
        """
        named = self._named()
        if missed := sum(run.run_id in named for run in runs):
            them = "it" if missed == 1 else "them"
            raise UserError(
                f"{self.store.path}: {counted(missed, 'run was', 'runs were')} not submitted, "
                f"because `teralog cancel` cancelled {them}; `teralog retry` starts cancelled "
                "runs"
            )

    def _named(self) -> set[str]:
        """Return the ids of the runs that `teralog cancel` named after this submit began."""
        return self.store.cancel_marks.runs(without=self._earlier_marks)

    def _scripts(
        self, runs: Sequence[PlannedRun], texts: Mapping[str, str], queued: Collection[str]
    ) -> list[Script]:
        """Return the job scripts of runs, each with the id of the run that must complete first.

        A run of a series must wait for the nearest earlier run of the series that has not ended.
        The id is None for a run that waits for none. texts: the text of each job script, by run
        id. queued: the ids of runs in Slurm's queue.
        """
        unended = {run.run_id for run in runs}.union(queued)

        def script(run: PlannedRun) -> Script:
            before = () if run.series is None else run.series.before(run.run_id)
            after = next((identity for identity in reversed(before) if identity in unended), None)
            return Script(run.run_id, texts[run.run_id], after)

        return [script(run) for run in runs]

    def _restore(self, runs: Sequence[PlannedRun]) -> None:
        """Restore the folders of attempts that a user deleted before the attempts' jobs ended.

        Raises UserError if Slurm does not report whether the jobs have ended.
        """
        planned = {run.run_id: run for run in runs}
        lost = {
            job_id: (batch, run_id, number)
            for batch, job_id, run_id, number in self.store.deleted_attempts()
            if run_id in planned
        }
        answer = ask_jobs(list(lost), {batch.name for batch, *_ in lost.values()})
        if not answer.complete:
            raise UserError(
                f"the folders of {counted(len(lost), 'run')} were deleted, and Slurm does not "
                f"answer whether {'this run is' if len(lost) == 1 else 'these runs are'} still "
                f"running ({'; '.join(answer.silences)}): submit again when Slurm answers"
            )
        for job_id, (batch, run_id, number) in lost.items():
            state = answer.states.get(job_id)
            if state is None or state.final or state.name != batch.name:
                continue
            texts = render_runs(self.campaign, [planned[run_id]], self.store)
            self._numbers[run_id] = number
            self._claim(
                Script(run_id, texts[run_id]), Intent(batch.name, batch.host, batch.created_at)
            )

    def _within_limit(self, runs: Sequence[PlannedRun]) -> tuple[Sequence[PlannedRun], str | None]:
        limit = self.campaign.cluster.submission_limit
        if limit is None:
            return runs, None
        queued = len(queued_attempts(self.campaign.runs, self.store))
        room = max(limit - queued, 0)
        if len(runs) <= room:
            return runs, None
        # In a series, the runs on which others depend come first.
        return sorted(runs, key=_rank)[:room], (
            f"{counted(len(runs) - room, 'run')} left: the profile's submission_limit is {limit}, "
            f"and {counted(queued, 'run was', 'runs were')} in the queue{_LATER}"
        )

    def _submit_accepted(
        self,
        group: Sequence[Script],
        executor: ScriptExecutor,
        options: StartOptions,
        labels: dict[str, str],
        places: dict[str, Place],
    ) -> Iterator[str]:
        """Submit a group of runs, or as many of its first runs as Slurm accepts now.

        First the whole group is submitted. If Slurm refuses the group, Slurm is asked how many
        runs it accepts, and only these are submitted. With `submit --wait`, Slurm is asked before
        anything is submitted. Raises _LimitError if Slurm does not accept all runs now.
        """
        accepted, why = len(group), None
        if options.wait:
            accepted, why = executor.accepted(group[0].text, len(group))
        if why is None:
            try:
                yield from self._submit(group, executor, options.sbatch, labels, places)
            except _LimitError as limit:
                accepted, why = executor.accepted(group[0].text, len(group))
                why = why or limit.refused
                self._numbers |= {
                    script.run_id: self.store.run(script.run_id).next_number for script in group
                }
            else:
                return
        if not accepted and why.limit is None:
            # Another limit may be the reason, e.g. one that does not change with time.
            raise UserError(f"sbatch: {why}")
        if accepted:
            some = group[:accepted]
            yield from self._submit(some, executor, options.sbatch, labels, places)
        if accepted < len(group):
            raise _LimitError(why, accepted)

    def _submit(
        self,
        group: Sequence[Script],
        executor: ScriptExecutor,
        options: SbatchOptions,
        labels: dict[str, str],
        places: dict[str, Place],
    ) -> Iterator[str]:
        kind = group[0].run_id if len(group) == 1 else "array"
        name = f"{self.campaign.name}-{kind}-{secrets.token_hex(6)}"
        before = {
            script.run_id: places[script.after] for script in group if script.after is not None
        }
        intent = Intent(name, socket.gethostname(), utc_now(), chained=bool(before))
        with disk_errors(self.store.path):
            with self.store.shared_intent(intent) as written:
                ours = at_once(lambda script: self._claim(script, intent, written), group)
            claimed = [script for script, is_ours in zip(group, ours, strict=True) if is_ours]
            if not claimed:
                return
            array = len(claimed) > 1
            members = tuple((script.run_id, self._numbers[script.run_id]) for script in claimed)
            # A task waits for the earlier task with the same index; other tasks may have any index.
            indices = tuple(
                index if (place := before.get(script.run_id)) is None else place.index or 0
                for index, script in enumerate(claimed)
            )
            batch = RunBatch(name, intent.host, intent.created_at, members, array, indices)
            attempts = [self._attempt(script.run_id, intent) for script in claimed]
            folder = self.store.batch(name)
            text = batch_script(claimed[0].text, folder.path, None if array else attempts[0].folder)
            if self.store.new_batch(batch, text) is None:
                raise UserError(
                    f"{folder.path}: another submit withdrew this batch of runs; submit again"
                )
        self._heed_cancel(folder, attempts, claimed)
        output = sbatch_path(folder.path) + "/%a/output.log"
        if not array:
            output = sbatch_path(attempts[0].log)
        arguments = sbatch_options(
            name=name,
            comment=counted(len(claimed), "run") if array else _comment(claimed[0].run_id, labels),
            output=output,
            folder=str(folder.path if array else attempts[0].folder),
            options=options,
            indices=indices if array else (),
            after=dependency(
                [before[script.run_id] for script in claimed if script.run_id in before]
            ),
        )
        unwritten = None
        try:
            job_id = executor.submit_script(folder.script, arguments)
            receipt = Receipt(job_id, utc_now())
            try:
                receipt = folder.close(receipt)
            except OSError as error:
                unwritten = error
            if receipt.job_id is None:
                cancel_jobs([job_id])
                raise UserError(
                    f"job {job_id} was cancelled, because another submit withdrew its batch of runs"
                )
        except RefusedError as refused:
            receipt = self._refused(batch, intent, attempts, refused)
        now = [Place(receipt.job_id or "", index if array else None) for index in indices]
        places.update((script.run_id, place) for script, place in zip(claimed, now, strict=True))
        what = counted(len(claimed), "run") if array else f"{kind} {labels[claimed[0].run_id]}"
        yield f"{receipt.job_id}: {what}"
        if unwritten is not None:
            with disk_errors(folder.path):
                raise unwritten

    def _heed_cancel(
        self, folder: BatchFolder, attempts: Sequence[Attempt], claimed: Sequence[Script]
    ) -> None:
        """Raise _CancelledError if `teralog cancel` names one of the claimed runs.

        Before it raises the error, the method closes the attempts of all claimed runs. Call this
        method only after the runs were claimed. Then a `cancel` that begins later finds the claims,
        and waits for this submit.
        """
        if self._named().isdisjoint(script.run_id for script in claimed):
            return
        with disk_errors(folder.path):
            close(folder.close(Receipt(None, utc_now())), attempts)
        raise _CancelledError

    def _refused(
        self, batch: RunBatch, intent: Intent, attempts: Sequence[Attempt], refused: RefusedError
    ) -> Receipt:
        """Handle an error of sbatch: return the receipt of the job if sbatch created one anyway.

        refused: the error. If sbatch created no job, raises _LimitError if Slurm may accept fewer
        runs, otherwise UserError. Also raises UserError if Slurm does not answer whether a job
        exists, or if the receipt cannot be written.
        """
        message = str(refused)
        try:
            receipt = withdraw(self.store.batch(batch.name), intent)
        except SilenceError as silence:
            raise UserError(
                f"sbatch: {message}; Slurm does not answer whether it created a job ({silence}): "
                "submit again when Slurm answers"
            ) from None
        except OSError as error:
            path = self.store.path
            raise UserError(
                f"sbatch: {message}", f"{path}: cannot be written: {error.strerror}; submit again"
            ) from None
        if receipt.job_id is None:
            close(receipt, attempts)
            if refused.may_accept_fewer:
                raise _LimitError(refused)
            raise UserError(f"sbatch: {message}")
        return receipt

    def _claim(self, script: Script, intent: Intent, written: Path | None = None) -> bool:
        folder = self.store.run(script.run_id)
        number = self._numbers[script.run_id]
        log = self.campaign.cluster.log_folder
        if log is None:
            return folder.claim(number, intent, script.text, written=written)
        path = Path(log) / self.campaign.name / script.run_id
        path.mkdir(parents=True, exist_ok=True)
        # The number alone is not unique: it starts from 1 in rehearsals, in other results folders,
        # and after a run was deleted.
        printed = str(path / f"attempt-{number}-{intent.batch.rpartition('-')[2]}.log")
        return folder.claim(number, intent, script.text, printed, written)

    def _attempt(self, run_id: str, intent: Intent) -> Attempt:
        number = self._numbers[run_id]
        folder = self.store.run(run_id).attempt_folder(number)
        return Attempt(number, folder, started=None, ended=None, intent=intent)


def _comment(run_id: str, labels: Mapping[str, str]) -> str:
    """Return the comment that squeue shows for the job of a run: the run's id and its label.

    A job array gets another comment when it is submitted: the number of its runs. When a task
    of the array starts, it sets its comment to the comment of its run.
    """
    return f"{run_id}: {printable(labels[run_id])[:_COMMENT_LENGTH]}"


class _CancelledError(Exception):
    """Raised if `teralog cancel` names a run that this submit was about to submit."""


def _with_defaults(asked: SbatchOptions, cluster: Cluster) -> SbatchOptions:
    """Return the user's sbatch options, with the profile's throttle if the user gave none.

    If the user excludes nodes, the nodes that the profile excludes are added.
    """
    if asked.throttle is None:
        asked = replace(asked, throttle=cluster.throttle)
    if asked.exclude and cluster.exclude:
        # On sbatch's command line, the option replaces that of the script.
        asked = replace(asked, exclude=f"{cluster.exclude},{asked.exclude}")
    return asked


def _rank(run: PlannedRun) -> int:
    """Return how many runs of a run's series start before the run; 0 without a series."""
    return 0 if run.series is None else len(run.series.before(run.run_id))


def _halfway(done: int, left: int, jobs: Sequence[str]) -> str:
    """Return a sentence about a submit that failed after some runs were submitted.

    done: how many runs were submitted. left: how many were not. jobs: the ids of the submitted
    jobs.
    """
    before = counted(done, "run was", "runs were")
    stay, them = "stays" if done == 1 else "stay", "it" if left == 1 else "them"
    as_jobs = f" as {'job' if len(jobs) == 1 else 'jobs'} {', '.join(jobs)}" if jobs else ""
    sentence = f"{before} submitted before this error{as_jobs}, and {stay} submitted"
    if not left:
        return sentence
    return (
        f"{sentence}; {counted(left, 'run was', 'runs were')} not submitted: submit again when "
        f"Slurm accepts {them}"
    )


def _cancelled(path: Path, done: int, left: int) -> str:
    """Return a sentence about a submit that `teralog cancel` stopped.

    path: the campaign's folder; the sentence begins with this path.
    done: how many runs were submitted before the cancel. left: how many runs were not submitted.
    """
    return (
        f"{path}: `teralog cancel` has stopped this submit: "
        f"{counted(done, 'run was', 'runs were')} submitted, and {counted(left, 'was', 'were')} "
        "not; `teralog submit` starts the runs that were not cancelled"
    )
