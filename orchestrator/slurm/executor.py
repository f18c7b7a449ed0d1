"""Submit a finished script to Slurm through submitit.

submitit itself writes a script around a pickled function, and waits 0.2 s between two jobs. It asks
only sacct for a job's state, and asks forever if sacct is missing. The executor in this module
passes the script to sbatch unchanged, and returns only the job's id.
"""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from submitit.slurm.slurm import SlurmExecutor, SlurmJob

from orchestrator.common.errors import UserError
from orchestrator.slurm.arrays import directives
from orchestrator.slurm.commands import SBATCH_ACCOUNT, SBATCH_SECONDS, environment

# Slurm's names for the limits of an account, a user or a QOS.
_LIMIT = re.compile(r"\b(?:Assoc|QOS)\w*Limit\b")


class RefusedError(Exception):
    """sbatch printed no job id; the message contains the reason. A job may exist anyway."""

    @property
    def limit(self) -> str | None:
        """The name of the limit on submitted jobs that was reached, e.g. AssocMaxSubmitJobLimit.

        None if sbatch's message does not contain the name of such a limit.
        """
        names = _LIMIT.findall(str(self))
        return next((name for name in names if "SubmitJob" in name), None)

    @property
    def may_accept_fewer(self) -> bool:
        """Whether sbatch may have refused an array because too many jobs are submitted.

        After such a refusal, Slurm may accept an array with fewer tasks now, or the same array
        later.
        """
        if _LIMIT.search(str(self)):
            return self.limit is not None
        # Older versions print this text without a name, also if the time limit is too long.
        return "job submit limit" in str(self)


class ScriptExecutor(SlurmExecutor):
    """A SlurmExecutor that submits a script unchanged, with options on sbatch's command line.

    inherited: file descriptors that sbatch inherits, so that their locks are held until sbatch
    ends.
    """

    def __init__(self, folder: Path, inherited: Sequence[int] = ()) -> None:
        try:
            super().__init__(folder)
        except RuntimeError:
            raise UserError(
                "there is no Slurm on this machine: srun is not on the PATH; run the command "
                "on a login node of the cluster"
            ) from None
        self._inherited = tuple(inherited)

    def submit_script(self, script: Path, options: Sequence[str]) -> str:
        """Submit the script in a file, and return its job's id.

        Raises RefusedError if sbatch prints no job id.
        """
        self._script, self._options = script, tuple(options)
        return self._submit_command("").job_id

    def accepted(self, script: str, runs: int) -> "tuple[int, RefusedError | None]":
        """Test how large an array Slurm accepts now; submit nothing.

        Returns a pair: how many of the array's tasks Slurm accepts, and the error with which Slurm
        refused the whole array. The error is None if Slurm accepts all tasks.
        runs: the number of tasks of the whole array.
        Only limits on submitted jobs are tested. Slurm may still refuse the array for another
        reason when it is submitted.
        """
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".sh") as file:
            file.write(script)
            file.flush()

            def refusal(tasks: int) -> RefusedError | None:
                try:
                    self.test(Path(file.name), f"--array=0-{tasks - 1}")
                except RefusedError as refused:
                    return refused if refused.may_accept_fewer else None
                return None

            why = refusal(runs)
            fewest, most = (0, runs - 1) if why else (runs, runs)
            while fewest < most:
                middle = (fewest + most + 1) // 2
                fewest, most = (fewest, middle - 1) if refusal(middle) else (middle, most)
            return fewest, why

    def test(self, script: Path, *options: str) -> str:
        """Return when Slurm would start a script, in Slurm's words; submit nothing.

        Raises RefusedError if Slurm would never start the script.
        """
        done = self._run(["sbatch", "--test-only", *options, str(script)], script)
        return done.stderr.strip().removeprefix("sbatch: ")

    def _submit_command(self, command: str) -> SlurmJob[Any]:
        done = self._run(self._make_submission_command(self._script), self._script)
        return SlurmJob(self.folder, self._get_job_id_from_submission_command(done.stdout))

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        return ["sbatch", "--parsable", *self._options, str(submission_file_path)]

    @staticmethod
    def _get_job_id_from_submission_command(string: str | bytes) -> str:
        text = string if isinstance(string, str) else string.decode()
        # With several clusters, the id is followed by the cluster's name.
        job_id = text.strip().rpartition("\n")[2].partition(";")[0]
        if not job_id.isdecimal():
            raise RefusedError(f"printed {text.strip()!r} instead of a job id")
        return job_id

    def _run(self, command: list[str], script: Path) -> "subprocess.CompletedProcess[str]":
        variables = environment()
        with suppress(OSError):
            asked = directives(script.read_text(encoding="utf-8"))
            if any(line.startswith("#SBATCH --account=") for line in asked):
                variables.pop(SBATCH_ACCOUNT, None)
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env=variables,
                pass_fds=self._inherited,
                timeout=SBATCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RefusedError(f"gave no answer within {SBATCH_SECONDS} s") from None
        if done.returncode:
            raise RefusedError(_sentence(done.stderr) or f"exits with {done.returncode}")
        return done


def _sentence(errors: str) -> str:
    """Return the error message of sbatch on one line."""
    lines = (line.removeprefix("sbatch: ").removeprefix("error: ") for line in errors.splitlines())
    return "; ".join(line.strip() for line in lines if line.strip())
