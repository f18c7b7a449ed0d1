"""Which refusals of sbatch are limits on submitted jobs, which end when other jobs end."""

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


@pytest.mark.parametrize(("said", "limit", "fewer"), REFUSALS.values(), ids=REFUSALS)
def test_only_limits_on_submitted_jobs_may_accept_fewer_runs(
    said: str, limit: str | None, fewer: bool
) -> None:
    """Of a limit that is not named, only the number of accepted tasks shows which one it is."""
    refused = RefusedError(said)
    assert (refused.limit, refused.may_accept_fewer) == (limit, fewer)
