"""Limit how many jobs of a campaign run at once, over all its arrays."""

import pytest

from orchestrator.slurm.throttle import throttle_after

# The throttle, the tasks that are queued, the sizes of new jobs, and what each of them waits for.
CASES = {
    "no throttle": (None, ["7_0"], [5, 5], [None, None]),
    "one array": (4, [], [100], [None]),
    "two arrays that are larger than the throttle": (4, [], [100, 9], [None, "afterany:1"]),
    "three parts of an array": (4, [], [9, 9, 1], [None, "afterany:1", "afterany:2"]),
    "jobs that fit next to each other": (4, [], [1, 2, 1], [None] * 3),
    "single jobs, as many as fit at a time": (
        2,
        [],
        [1] * 5,
        [None, None, "afterany:1:2", "afterany:1:2", "afterany:3:4"],
    ),
    "a small one after a large one": (4, [], [9, 1, 3], [None, "afterany:1", "afterany:1"]),
    "an array in the queue": (4, ["7_0", "7_1", "7_2", "7_5"], [1], ["afterany:7"]),
    "two jobs in the queue": (2, ["7", "8"], [1, 1], ["afterany:7:8"] * 2),
    "room next to what is in the queue": (4, ["7_3"], [3, 1], [None, "afterany:7:1"]),
}


@pytest.mark.parametrize(("most", "queued", "sizes", "expected"), CASES.values(), ids=CASES)
def test_jobs_that_together_exceed_the_throttle_run_one_after_another(
    most: int | None, queued: list[str], sizes: list[int], expected: list[str | None]
) -> None:
    """If jobs and arrays together have more runs than the throttle allows, some wait for others.

    They wait until the earlier jobs or arrays have ended.
    """
    throttle = throttle_after(most, queued)
    collected = []
    for job_id, size in enumerate(sizes, 1):
        collected.append(throttle.waits_for(size))
        throttle.add(str(job_id))
    assert collected == expected
