"""Check that teralog prints Slurm's message if Slurm refuses a job, and can then continue."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from practice.plan import ACCOUNT
from practice.running import Cluster

pytestmark = pytest.mark.slurm


@dataclass(frozen=True)
class Mistake:
    """A wrong value in a cluster profile, the right value, and Slurm's message about it."""

    right: str
    wrong: str
    message: str
    cluster: str = "slurm"


MISTAKES = {
    "account": Mistake(
        "memory: 1G", "memory: 1G\naccount: nobody-s", "Invalid account", "slurm_with_accounting"
    ),
    "qos": Mistake(
        "memory: 1G", "memory: 1G\nqos: gold", "Invalid qos specification", "slurm_with_accounting"
    ),
    "constraint": Mistake("v100-32g", "a100", "Invalid feature specification"),
    "partition": Mistake(
        "memory: 1G", "memory: 1G\npartition: gpu_p13", "invalid partition specified"
    ),
    "memory": Mistake(
        "memory: 1G", "memory: 900G", "Requested node configuration is not available"
    ),
    "cores": Mistake(
        "memory: 1G",
        "memory: 1G\ncores_per_rank: 81",
        "Requested node configuration is not available",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
@pytest.mark.parametrize("command", ["submit", "test-only"])
def test_a_mistake_in_a_profile_is_reported_and_can_be_corrected(
    playground, request: pytest.FixtureRequest, what: str, command: str
) -> None:
    """If Slurm refuses a wrong value in a profile, no run counts as started.

    With the right value, the campaign can be submitted.
    """
    mistake = MISTAKES[what]
    playground.environment |= request.getfixturevalue(mistake.cluster).environment
    playground.write_slurm_campaign("true", matrix="seed: [1, 2]")
    profile = playground.path / "slurm.yaml"
    right = profile.read_text()
    assert mistake.right in right
    profile.write_text(right.replace(mistake.right, mistake.wrong))
    options = ["--test-only"] if command == "test-only" else []
    refused = playground.teralog("submit", "campaign.yaml", *options)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert mistake.message in refused.stderr
    assert "Traceback" not in refused.stderr
    if command == "test-only":
        assert not (playground.path / "results").exists()
        return
    assert [(run["state"], run["attempts"]) for run in playground.status()] == [
        ("NOT_STARTED", 0)
    ] * 2
    profile.write_text(right)
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    runs = playground.wait_for(["COMPLETED"] * 2)
    assert [run["attempts"] for run in runs] == [1, 1]


def test_more_gpus_than_a_node_has_are_refused_and_fewer_run(playground, slurm) -> None:
    """Slurm refuses runs with eight GPUs per node; after a correction, runs with four complete."""
    playground.environment |= slurm.environment
    playground.write_slurm_campaign("true", matrix="seed: [1, 2]", gpus_per_node=8)
    profile = playground.path / "slurm.yaml"
    profile.write_text(profile.read_text().replace("gpus_per_node: 4", "gpus_per_node: 8"))
    refused = playground.teralog("submit", "campaign.yaml")
    assert refused.returncode == 1
    assert "Requested node configuration is not available" in refused.stderr
    playground.write_slurm_campaign("true", matrix="seed: [1, 2]", gpus_per_node=4)
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    playground.wait_for(["COMPLETED"] * 2)


@pytest.fixture
def limited(slurm_with_accounting: Cluster) -> Iterator[Cluster]:
    """Yield a cluster that allows twelve jobs in the queue."""

    def limit(count: int) -> None:
        done = slurm_with_accounting.run(
            *("sacctmgr", "--immediate", "modify", "account", ACCOUNT),
            *("set", f"GrpSubmitJobs={count}"),
        )
        assert done.returncode == 0, done.stderr

    limit(12)
    yield slurm_with_accounting
    limit(-1)


def test_as_many_runs_are_submitted_as_slurm_accepts(playground, limited) -> None:
    """With a limit of twelve jobs, Slurm accepts an array of eleven runs and one further run."""
    playground.environment |= limited.environment
    playground.write_slurm_campaign(
        'while ! test -e "$LEDGER.go"; do sleep 0.1; done', matrix=f"seed: {list(range(20))}"
    )
    first = playground.teralog("submit", "campaign.yaml")
    assert (first.returncode, "Traceback" in first.stderr) == (0, False)
    array, alone, left = first.stdout.splitlines()
    assert (array.endswith(": 11 runs"), alone.endswith(" seed=11")) == (True, True)
    assert left.startswith("8 runs left: Slurm accepts no more jobs now (AssocGrpSubmitJobsLimit)")
    assert "submission_limit" in left
    playground.go()
    playground.wait_for(["COMPLETED"] * 12 + ["NOT_STARTED"] * 8)
    second = playground.teralog("submit", "campaign.yaml")
    assert (second.returncode, second.stdout.endswith(": 8 runs\n")) == (0, True)
    runs = playground.wait_for(["COMPLETED"] * 20)
    assert {run["attempts"] for run in runs} == {1}
    assert sorted(playground.starts().values()) == [1] * 20


def test_no_run_is_submitted_while_slurm_accepts_none(playground, limited) -> None:
    """If Slurm accepts no job, `submit` reports this and starts no run.

    Once Slurm accepts jobs again, the next submit starts the runs.
    """
    playground.environment |= limited.environment
    held = limited.run(
        *("sbatch", "--parsable", "--hold", "--mem=1M", "--output=/dev/null"),
        *("--array=0-10", "--wrap", "true"),
    )
    other = limited.run(
        "sbatch", "--hold", "--mem=1M", "--output=/dev/null", "--wrap", "true", "--parsable"
    )
    assert (held.returncode, other.returncode) == (0, 0)
    playground.write_slurm_campaign("true", matrix="seed: [1, 2]")
    for _ in range(2):
        full = playground.teralog("submit", "campaign.yaml")
        assert full.returncode == 0
        assert full.stdout.startswith("2 runs left: Slurm accepts no more jobs now")
    assert playground.states() == ["NOT_STARTED"] * 2
    limited.run("scancel", held.stdout.strip(), other.stdout.strip())
    assert playground.teralog("submit", "campaign.yaml", "--wait").returncode == 0
    runs = playground.wait_for(["COMPLETED"] * 2)
    assert {run["attempts"] for run in runs} == {1}


def test_submit_wait_submits_the_rest_as_room_appears(playground, limited) -> None:
    """`submit --wait` submits all runs, some of them later, when Slurm accepts jobs again.

    Refused jobs leave no attempts.
    """
    playground.environment |= limited.environment
    playground.write_slurm_campaign("true", matrix=f"seed: {list(range(20))}")
    submitted = playground.teralog("submit", "campaign.yaml", "--wait")
    assert (submitted.returncode, submitted.stderr.count("Traceback")) == (0, 0)
    assert "runs left: Slurm accepts no more jobs now" in submitted.stdout
    playground.wait_for(["COMPLETED"] * 20)
    assert sorted(playground.starts().values()) == [1] * 20
    attempts = playground.path.glob("results/play/*/attempt-*")
    assert {path.name for path in attempts} == {"attempt-1"}


def test_every_command_works_on_a_site_without_sacct(playground, slurm, tmp_path: Path) -> None:
    """The commands `submit`, `status` and `retry` work on a machine without sacct.

    In the test, all programs of this machine except sacct are on the PATH.
    """
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in reversed(slurm.environment["PATH"].split(os.pathsep)):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if program.name != "sacct":
                (folder / program.name).unlink(missing_ok=True)
                (folder / program.name).symlink_to(program)
    playground.environment |= {**slurm.environment, "PATH": str(folder)}
    playground.write_slurm_campaign(
        '[[ $SLURM_ARRAY_TASK_ID != 1 ]] || test -e "$LEDGER.go" || exit 1', matrix="seed: [1, 2]"
    )
    submitted = playground.teralog("submit", "campaign.yaml")
    assert (submitted.returncode, "sacct" in submitted.stderr) == (0, False)
    runs: list[dict[str, Any]] = playground.wait_for(["COMPLETED", "FAILED"])
    assert [run["scheduler_state_by"] for run in runs] == ["squeue"] * 2
    playground.go()
    assert playground.teralog("retry", "campaign.yaml").returncode == 0
    status = playground.teralog("status", "campaign.yaml")
    assert (status.returncode, status.stderr) == (0, "")
    playground.wait_for(["COMPLETED"] * 2)


OVERRULING = {
    "SBATCH_PARTITION": "prepost",
    "SBATCH_CONSTRAINT": "no-such-feature",
    "SBATCH_EXPORT": "NONE",
    "SBATCH_TIMELIMIT": "7:00:00",
    "SBATCH_GRES": "gpu:3",
}


def test_variables_of_sbatch_change_no_job_and_are_named(playground, slurm) -> None:
    """SBATCH_ variables that would override #SBATCH lines are not used; a message names them."""
    playground.environment |= {**slurm.environment, **OVERRULING, "SEEN_BY_THE_JOB": "yes"}
    playground.write_slurm_campaign('echo "seen: $SEEN_BY_THE_JOB"', matrix="seed: [1]")
    estimated = playground.teralog("submit", "campaign.yaml", "--test-only")
    submitted = playground.teralog("submit", "campaign.yaml", "--hold")
    for done in (estimated, submitted):
        assert done.returncode == 0, done.stderr
        assert f"{', '.join(sorted(OVERRULING))}: not used" in done.stderr
    job = submitted.stdout.partition(":")[0]
    shown = slurm.run("scontrol", "show", "job", job).stdout
    assert "Features=v100-32g " in shown
    assert "TimeLimit=07:00:00" not in shown
    assert "Partition=prepost" not in shown
    assert "gpu:3" not in shown
    slurm.run("scontrol", "release", job)
    (run,) = playground.wait_for(["COMPLETED"])
    result = playground.teralog("logs", "campaign.yaml", run["run_id"]).stdout
    assert "seen: yes" in result.splitlines()


@pytest.mark.parametrize(
    ("profile", "account"), [("", "theirs"), ("account: ours\n", "ours")], ids=["open", "set"]
)
def test_the_account_of_the_profile_counts_before_that_of_the_environment(
    playground, slurm, profile: str, account: str
) -> None:
    """The account from the environment is used only if the profile has none."""
    playground.environment |= {**slurm.environment, "SBATCH_ACCOUNT": "theirs"}
    playground.write_slurm_campaign("true", matrix="seed: [1]", profile=profile)
    submitted = playground.teralog("submit", "campaign.yaml", "--hold")
    assert ("SBATCH_ACCOUNT: not used" in submitted.stderr) == bool(profile)
    shown = slurm.run("scontrol", "show", "job", submitted.stdout.partition(":")[0]).stdout
    assert f"Account={account}" in shown
    playground.teralog("cancel", "campaign.yaml", "--all")


# Makes os.link fail as on a file system without hard links.
NO_LINKS = """\
import errno, os
def link(*_, **__):
    raise OSError(errno.EPERM, "Operation not permitted")
os.link = link
"""


def test_a_file_system_without_hard_links_is_noticed_before_sbatch(playground, slurm) -> None:
    """Without hard links two submits could claim the same run, so submit refuses to start."""
    playground.environment |= slurm.environment
    (playground.path / "sitecustomize.py").write_text(NO_LINKS)
    playground.write_slurm_campaign("true")
    playground.environment["PYTHONPATH"] = str(playground.path)
    submit = playground.start("submit", "campaign.yaml")
    errors = submit.communicate(timeout=60)
    assert (submit.returncode, errors[0]) == (1, "")
    assert "play: this file system has no hard links (Operation not permitted)" in errors[1]
    assert "use --results with a folder on another file system" in errors[1]
    del playground.environment["PYTHONPATH"]
    assert playground.states() == ["NOT_STARTED"] * 4
    assert not [*playground.path.glob("results/play/submissions/*")]
