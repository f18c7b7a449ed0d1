"""Recognize when sbatch refuses runs only because too many jobs are submitted.

sbatch may accept such runs later.
"""

import pytest

from orchestrator.slurm.executor import RefusedError

VIOLATION = (
    "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's "
    "size and/or time limits)"
)
# What sbatch prints, the limit that it names, and whether Slurm may accept fewer tasks.
REFUSALS = {
    "of an account": (f"AssocGrpSubmitJobsLimit; {VIOLATION}", "AssocGrpSubmitJobsLimit", True),
    "of a user": (f"AssocMaxSubmitJobLimit; {VIOLATION}", "AssocMaxSubmitJobLimit", True),
    "of a QOS": (f"QOSMaxSubmitJobPerUserLimit; {VIOLATION}", "QOSMaxSubmitJobPerUserLimit", True),
    "not named": (VIOLATION, None, True),
    "a time limit": (f"QOSMaxWallDurationPerJobLimit; {VIOLATION}", None, False),
    "a size limit": (f"AssocMaxNodePerJobLimit; {VIOLATION}", None, False),
    "another mistake": ("invalid partition specified: gold", None, False),
}


@pytest.mark.parametrize(("message", "limit", "fewer"), REFUSALS.values(), ids=REFUSALS)
def test_only_limits_on_submitted_jobs_may_accept_fewer_runs(
    message: str, limit: str | None, fewer: bool
) -> None:
    """`may_accept_fewer` is true if sbatch may have refused because too many jobs are submitted.

    Then sbatch may accept a part of the runs now. After any other refusal, fewer runs do not help.
    Old versions of Slurm do not name the limit, so `limit` is None.
    """
    refused = RefusedError(message)
    assert (refused.limit, refused.may_accept_fewer) == (limit, fewer)
