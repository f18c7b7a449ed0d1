"""Explain why jobs wait: Slurm's reasons in words, and what the user can do."""

import pytest

from orchestrator.slurm.reasons import is_ordinary, meaning, reason_lines

# A part of the meaning, and whether the job starts without any action by the user.
REASONS = {
    "Priority": ("higher priority", True),
    "Resources": ("no suitable nodes are free", True),
    "JobArrayTaskLimit": ("--throttle", True),
    "BeginTime": ("begin time", True),
    "Licenses": ("licenses", True),
    "Dependency": ("has ended", True),
    "DependencyNeverSatisfied": ("never start", False),
    "QOSMaxJobsPerUserLimit": ("as many jobs", True),
    "AssocMaxJobsLimit": ("as many jobs", True),
    "AssocGrpGRES": ("your group", False),
    "QOSGrpGRES": ("your group", False),
    "AssocGrpGRESMinutes": ("hours", False),
    "AssocGrpCPURunMinutesLimit": ("hours", False),
    "QOSMaxWallDurationPerJobLimit": ("time limit", False),
    "QOSMaxGRESPerJob": ("allows per job", False),
    "QOSMaxGRESPerUser": ("your jobs use all", False),
    "PartitionTimeLimit": ("of its partition", False),
    "PartitionNodeLimit": ("more nodes", False),
    "PartitionDown": ("sinfo -s", False),
    "ReqNodeNotAvail, UnavailableNodes:gpu[001-003]": ("sinfo -R", False),
    "Nodes required for job are DOWN, DRAINED or reserved": ("sinfo -R", False),
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved": ("sinfo -R", False),
    "Reservation": ("reservation", False),
    "JobHeldUser": ("--hold", False),
    "JobHeldAdmin": ("administrator", False),
    "JobHoldMaxRequeue": ("requeued", False),
    "launch failed requeued held": ("could not launch", False),
    "BadConstraints": ("profile", False),
    "InvalidQOS": ("profile", False),
    "AReasonOfTomorrow": ("man squeue", False),
}


@pytest.mark.parametrize(("reason", "expected"), REASONS.items(), ids=REASONS)
def test_a_reason_has_a_meaning(reason: str, expected: tuple[str, bool]) -> None:
    """Each of Slurm's reasons has an explanation; some of these contain what the user can do."""
    part, ordinary = expected
    assert part in meaning(reason)
    assert is_ordinary(reason) == ordinary


def test_the_reasons_that_occur_have_a_line_each() -> None:
    """Each reason has one line of at most 80 columns, and the most frequent reason comes first.

    Text that Slurm adds to a reason is left out, e.g. names of nodes.
    """
    reasons = ["Priority", "ReqNodeNotAvail, UnavailableNodes:a", "Priority"]
    assert reason_lines([*reasons, "ReqNodeNotAvail, UnavailableNodes:b", "Priority"]) == [
        "Priority (3 runs): jobs with a higher priority go first; nothing to do",
        "ReqNodeNotAvail (2 runs): nodes that the job needs are down or reserved: see `sinfo -R`",
    ]
    assert reason_lines([]) == []


def test_users_are_not_advised_to_release_jobs_that_an_administrator_holds() -> None:
    """No message advises the user to release a job that an administrator holds.

    Slurm does not let users release such a job.
    """
    assert "release it to" not in meaning("JobHeldAdmin")
    assert "scontrol" not in meaning("JobHeldAdmin")


def test_a_reason_cannot_control_the_terminal() -> None:
    assert "\x1b" not in reason_lines(["\x1b[31mred"])[0]
