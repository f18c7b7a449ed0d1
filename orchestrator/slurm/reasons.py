"""Explain why a job waits: Slurm's reasons, their meanings, and what to do."""

import re
from collections import Counter
from collections.abc import Iterable

from orchestrator.common.text import counted, printable

# Pairs of a pattern and a meaning. The first pattern that matches the start of a reason is used.
_MEANINGS: tuple[tuple[str, str], ...] = (
    ("Priority", "jobs with a higher priority go first; nothing to do"),
    ("Resources", "no suitable nodes are free; the job starts when they become free"),
    (
        "DependencyNeverSatisfied",
        (
            "a job that this job depends on failed, so this job will never start: "
            "`teralog cancel`, then `teralog retry`"
        ),
    ),
    ("Dependency", "the job starts when the job that it depends on has ended as required"),
    ("JobArrayTaskLimit", "--throttle allows no more runs at once; nothing to do"),
    (
        "JobHeldUser",
        "a user holds the job, e.g. with `submit --hold`: release it with `scontrol release`",
    ),
    ("JobHeldAdmin", "an administrator holds the job, and only an administrator can release it"),
    (
        "JobHoldMaxRequeue",
        (
            "Slurm requeued the job too often and holds it: read the log of the job, then release "
            "it with `scontrol release`"
        ),
    ),
    (
        "launch failed",
        (
            "Slurm could not launch the job, e.g. because of a bad node: release the job with "
            "`scontrol release`, or cancel it"
        ),
    ),
    ("BeginTime", "the job's begin time is later, e.g. just after a requeue; nothing to do"),
    ("Licenses", "licenses that the job requests are in use; the job starts when some are free"),
    (
        "ReqNodeNotAvail|ReservedMaintenance|Nodes_required|Nodes required",
        "nodes that the job needs are down or reserved: see `sinfo -R`",
    ),
    (
        "Reservation",
        "the job's reservation has not begun, or has ended: see `scontrol show reservation`",
    ),
    (
        "PartitionTimeLimit",
        (
            "the time limit of the job exceeds the limit of its partition: cancel the job, then "
            "`retry --time` with less time"
        ),
    ),
    (
        "PartitionNodeLimit",
        (
            "the job requests more nodes than its partition allows: cancel it, then lower "
            "`nodes` in the campaign file"
        ),
    ),
    ("PartitionDown|PartitionInactive", "the job's partition starts no jobs now: see `sinfo -s`"),
    ("NodeDown", "a node that the job needs is down: see `sinfo -R`"),
    (
        "BadConstraints",
        "no node has all that the job asks for: cancel it, then correct the cluster profile",
    ),
    (
        "AccountNotAllowed|InvalidAccount|QOSNotAllowed|InvalidQOS",
        (
            "Slurm does not accept the job's account or QOS: cancel the job, then correct the "
            "cluster profile"
        ),
    ),
    (
        "QOSMaxWallDurationPerJobLimit|AssocMaxWallDurationPerJobLimit",
        (
            "the time limit of the job exceeds what its account or QOS allows: cancel the job, "
            "then `retry --time` with less time"
        ),
    ),
    (
        "QOSMax(Jobs|Submit)|AssocMax(Jobs|Submit)",
        "you have as many jobs as your account or QOS allows; this job starts when one ends",
    ),
    (
        "(QOSGrp|AssocGrp)[A-Za-z]*(Minutes|RunMinutes)",
        (
            "the hours of your account or QOS are used up or reserved: see `sshare`, and ask an "
            "administrator for more"
        ),
    ),
    (
        "QOSGrp|AssocGrp",
        (
            "the jobs of your group use all that the group's account or QOS allows; this job "
            "starts when other jobs of the group end"
        ),
    ),
    (
        "(QOS|Assoc)(Max|Min)[A-Za-z]*PerJob",
        (
            "the job asks for more than its account or QOS allows per job: cancel it, "
            "then change the cluster profile"
        ),
    ),
    (
        "QOSMax|AssocMax",
        (
            "your jobs use all that your account or QOS allows; this job starts when your other "
            "jobs end"
        ),
    ),
    ("Prolog|Cleaning", "the job's nodes are being prepared or cleaned; nothing to do"),
)
# These jobs start without any action by the user.
_ORDINARY = re.compile(
    r"(Priority|Resources|JobArrayTaskLimit|BeginTime|Prolog|Cleaning|Licenses"
    r"|Dependency(?!NeverSatisfied)|QOSMax(Jobs|Submit)|AssocMax(Jobs|Submit))"
)


def is_ordinary(reason: str) -> bool:
    """Return whether a job that waits for a reason will start without any action by the user.

    reason: Slurm's word, e.g. Priority.
    """
    return _ORDINARY.match(reason) is not None


def meaning(reason: str) -> str:
    """Return what one of Slurm's reasons for a waiting job means, and what the user can do."""
    meanings = (text for pattern, text in _MEANINGS if re.match(pattern, reason, re.IGNORECASE))
    return next(meanings, "see JOB REASON CODES in `man squeue`")


def reason_lines(reasons: Iterable[str]) -> list[str]:
    """Return a line for each reason why jobs wait, the most frequent reason first.

    reasons: the reason of each waiting run. A line contains the reason, the number of runs that
    wait for it, its meaning, and what to do.
    """
    counts = Counter(re.split(r"[,(]", reason)[0].strip() for reason in reasons)
    return [
        printable(f"{reason} ({counted(number, 'run')}): {meaning(reason)}")
        for reason, number in counts.most_common()
    ]
