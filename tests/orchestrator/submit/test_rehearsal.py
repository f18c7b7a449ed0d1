"""Rehearse campaigns: every job script starts, no rank trains, and mistakes are found."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import workloads
from orchestrator.hardware.cluster import Cluster
from orchestrator.submit.rehearsal import rehearsal_order


def call_this_python(playground: Any, more: str = "") -> None:
    """Write a cluster profile for this machine, whose Python is the one that runs the tests.

    more: more lines of the profile.
    """
    (playground.path / "here.yaml").write_text(
        f"scheduler: local\ngpus_per_node: 0\npython: {sys.executable}\n{more}"
    )


def bash(script: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Start a job script by hand in a folder."""
    return subprocess.run(
        ["bash", str(script)], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("values", "program"),
    [
        ({"framework": "gpt"}, "gpt.py"),
        ({"framework": "gpt", "strategy": "zero1"}, "gpt.py"),
        ({"framework": "hf_deepspeed"}, "hf_gpt.py"),
    ],
)
def test_all_imports_of_our_programs_are_declared(
    run_of: Any, values: dict[str, Any], program: str
) -> None:
    """A rehearsal checks all modules that teralog's own training programs import.

    Modules of the standard library are left out.
    """
    source = (Path(workloads.__file__).parent / program).read_text()
    loaded = re.findall(r"^(?:import|from) (\w+)|\bload_module\(\s*\"(\w+)", source, re.MULTILINE)
    imported = {name for names in loaded for name in names if name} - sys.stdlib_module_names
    run = run_of(**values)
    checked = set(rehearsal_order(run, Cluster(name="far"), {}, [])["imports"])
    assert checked - {"teralog"} == imported - ({"deepspeed"} if run.zero_stage is None else set())


@pytest.mark.train
def test_rehearsals_are_stored_apart_from_measurements(playground) -> None:
    """A rehearsal of a run has a state, a log and a folder of its own.

    The state of the run itself stays "not started".
    """
    playground.write_campaign("true", matrix="seed: [1, 2]")
    campaign = playground.path / "campaign.yaml"
    call_this_python(playground)
    pytest.importorskip("torch")
    done = playground.teralog("submit", campaign.name, "--rehearse")
    assert done.returncode == 0, done.stderr
    assert "2 rehearsed runs: 2 completed" in done.stderr
    status = playground.teralog("status", campaign.name)
    assert "2 runs: 2 not started" in status.stdout
    assert "`teralog status campaign.yaml --rehearsed`" in status.stderr
    rehearsed = playground.teralog("status", campaign.name, "--rehearsed", "--json").stdout
    assert {(run["state"], run["rehearsed"]) for run in json.loads(rehearsed)} == {
        ("COMPLETED", True)
    }
    log = playground.teralog("logs", campaign.name, "seed=1", "--rehearsed").stdout
    assert "would start: nothing was trained" in log
    (record, _) = (playground.path / "results" / "play" / "rehearsal").glob("*/run.json")
    assert json.loads(record.read_text())["rehearsal"] is True
    refused = playground.teralog("cancel", campaign.name, "--all")
    assert refused.returncode == 1
    assert (
        "To cancel the rehearsal, type `teralog cancel campaign.yaml --rehearsed --all`"
        in refused.stderr
    )
    report = playground.teralog("report", campaign.name, "--runs")
    assert report.stdout.count("not started") == 2
    assert "play was only rehearsed; none of its runs was started" in report.stderr
    (playground.path / "results" / "play" / "campaign.json").write_text("{}")
    assert "was rehearsed" not in playground.teralog("report", campaign.name).stderr


def test_a_script_that_ends_before_the_checker_has_rehearsed_nothing(playground) -> None:
    """A rehearsal fails if its script ends before the checker starts, whatever its exit code."""
    playground.write_campaign("true", matrix="seed: [1, 2]")
    profile = playground.path / "here.yaml"
    profile.write_text(f"{profile.read_text()}setup: [exit 0]\n")
    done = playground.teralog("submit", "campaign.yaml", "--rehearse")
    assert done.returncode == 1
    assert "2 rehearsed runs: 2 failed" in done.stderr
    assert "seed=1: FAILED: the script ended before the rehearsal began" in done.stderr
    again = playground.teralog("retry", "campaign.yaml", "--rehearsed", "--only", "oom")
    assert "nothing to start again: no run ended with oom\n" in again.stderr
    playground.write_campaign("true", matrix="seed: [1, 2, 3]")
    again = playground.teralog("retry", "campaign.yaml", "--rehearsed", "--only", "oom")
    assert "`teralog submit campaign.yaml --rehearse` starts the missing runs" in again.stderr
    watched = playground.teralog("watch", "campaign.yaml", "--rehearsed", "--once")
    assert "`teralog submit campaign.yaml --rehearse` starts it" in watched.stderr


@pytest.mark.train
def test_a_run_that_is_forecast_not_to_fit_can_be_rehearsed(playground) -> None:
    """A run whose forecast exceeds the memory can be rehearsed: a rehearsal needs no memory.

    The run itself is still refused.
    """
    pytest.importorskip("torch")
    playground.write_campaign("true", matrix="model: [206B]")
    call_this_python(playground)
    done = playground.teralog("submit", "campaign.yaml", "--rehearse")
    assert "1 rehearsed run: 1 completed" in done.stderr
    assert "a rank needs at least" in playground.teralog("submit", "campaign.yaml").stderr


@pytest.mark.train
def test_a_rehearsal_needs_no_gpus(playground) -> None:
    """A rehearsal needs no GPUs, even with DeepSpeed's launcher, which usually looks for GPUs."""
    pytest.importorskip("deepspeed")
    (playground.path / "train.py").touch()
    (playground.path / "gpus.yaml").write_text(
        f"scheduler: local\ngpus_per_node: 3\ngpu: T4\npython: {sys.executable}\n"
    )
    (playground.path / "campaign.yaml").write_text(
        "name: play\ncluster: gpus.yaml\ndefaults: {framework: deepspeed, script: train.py, "
        "launcher: deepspeed, gpus_per_node: 3, precision: fp16}\n"
    )
    done = playground.teralog("submit", "campaign.yaml", "--rehearse")
    assert "1 rehearsed run: 1 completed" in done.stderr


@pytest.mark.train
def test_a_script_can_be_rehearsed_again_by_hand_wherever_its_setup_leads(playground) -> None:
    """The user can start the script of a rehearsal again by hand.

    This works even if set-up lines of the profile change the current folder. The ranks of each
    start find each other by files in a temporary folder, which is removed at the end. An EXIT trap
    of the set-up lines runs too.
    """
    pytest.importorskip("torch")
    playground.write_campaign("true", matrix="seed: [1]")
    elsewhere = playground.path / "elsewhere"
    elsewhere.mkdir()
    trap = "trap \"echo 'set-up ends'\" EXIT"
    call_this_python(playground, f"setup: [cd {elsewhere}, {json.dumps(trap)}]\n")
    done = playground.teralog("submit", "campaign.yaml", "--rehearse")
    assert "1 rehearsed run: 1 completed" in done.stderr
    (script,) = (playground.path / "results" / "play" / "rehearsal").glob("*/job.sh")
    by_hand = bash(script, script.parent)
    assert (by_hand.returncode, "would start: " in by_hand.stdout) == (0, True), by_hand.stdout
    assert by_hand.stdout.endswith("set-up ends\n")
    assert not list(elsewhere.iterdir())
    assert not list(script.parent.glob("**/ranks-*"))


@pytest.mark.train
def test_a_configuration_that_is_gone_fails_the_rehearsal(playground) -> None:
    """A rehearsal fails if the DeepSpeed configuration next to the job script was deleted."""
    pytest.importorskip("deepspeed")
    playground.write_campaign("true", matrix="strategy: [zero1]")
    call_this_python(playground)
    done = playground.teralog("submit", "campaign.yaml", "--rehearse")
    assert "1 rehearsed run: 1 completed" in done.stderr
    (config,) = (playground.path / "results" / "play" / "rehearsal").glob("*/ds_config.json")
    config.unlink()
    script = config.with_name("job.sh")
    by_hand = bash(script, playground.path)
    assert by_hand.returncode != 0
    assert f"FileNotFoundError: [Errno 2] No such file or directory: '{config}'" in by_hand.stdout
