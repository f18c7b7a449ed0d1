"""Check that values with shell syntax are never executed, on the way to a real Slurm and back."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from practice.jobs import wait_until

pytestmark = pytest.mark.slurm

TERALOG = str(Path(sys.executable).parent / "teralog")
# If a shell executes any part of the value, it creates a file next to the ledger.
TOUCH = "touch $LEDGER.canary"
HOSTILE = {
    "substitutions": f"$({TOUCH}) `{TOUCH}`",
    "quotes": f"two  words; {TOUCH} '; {TOUCH}; ' \"; {TOUCH}; \" && {TOUCH} #",
}


@pytest.fixture(params=HOSTILE)
def play(playground, slurm, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Return a playground with shell syntax in its folder name, its profile and its runs."""
    text = HOSTILE[request.param]
    path = tmp_path / text
    path.mkdir()
    play = replace(playground, path=path)
    play.environment |= slurm.environment
    play.environment |= {"LEDGER": str(playground.ledger), "SHELL": "/bin/sh"}
    play.write_slurm_campaign(
        'printf "%s\\n" "$@"',
        matrix=f"script_args: {json.dumps([[text], [text, text]])}",
        profile=f"account: {json.dumps(text)}\nlog_folder: {json.dumps(str(path / text))}\n",
        framework="deepspeed",
        script=f"{text}.py",
    )
    campaign = play.path / "campaign.yaml"
    campaign.write_text(campaign.read_text().replace(', "model": "s"', ""))
    play.text = text
    return play


def no_canary(play) -> None:
    """Fail if a canary file exists. The test values create this file if a shell executes them."""
    places = (play.ledger.parent, play.path)
    canaries = [path for place in places for path in place.rglob("*canary") if path.is_file()]
    # If the shell that executed it lacks $LEDGER, the file is in one of these folders.
    canaries += [path for place in ("/", ".") if (path := Path(place, ".canary")).exists()]
    assert not canaries


def test_a_shell_that_executes_a_value_creates_the_canary_file(playground) -> None:
    """If a shell executes a test value, the value creates the canary file.

    This shows that the check for this file, which other tests make, can fail.
    """
    for text in HOSTILE.values():
        subprocess.run(
            ["bash", "-c", text],
            cwd=playground.path,
            env={**os.environ, "LEDGER": str(playground.ledger)},
            check=False,
            capture_output=True,
        )
        playground.ledger.with_name("ledger.canary").unlink()


def test_no_command_executes_a_part_of_a_value(play) -> None:
    """No command executes shell syntax in paths, arguments, run names or sbatch options."""
    play.environment["TERALOG_RESULTS"] = str(play.path / f"results {play.text}")
    assert play.teralog("submit", "campaign.yaml", "--test-only").returncode == 0
    for option in ("--exclude", "--dependency"):
        refused = play.teralog("submit", "campaign.yaml", option, play.text)
        assert refused.returncode == 1, refused.stdout
        assert "Traceback" not in refused.stderr
    assert play.states() == ["NOT_STARTED"] * 2
    submitted = play.teralog("submit", "campaign.yaml", "--hold")
    assert submitted.returncode == 0, submitted.stderr
    for arguments in (("cancel", play.text), ("retry", play.text), ("logs", play.text)):
        command, name = arguments
        refused = play.teralog(command, "campaign.yaml", name)
        assert (refused.returncode, "there is no run" in refused.stderr) == (1, True)
    play.teralog("cancel", "campaign.yaml", "--state", play.text)
    assert play.states() == ["PENDING"] * 2
    assert play.teralog("cancel", "campaign.yaml", "--all").returncode == 0
    assert play.teralog("retry", "campaign.yaml", "--time", play.text).returncode == 1
    assert play.teralog("retry", "campaign.yaml").returncode == 0
    runs = play.wait_for(["COMPLETED"] * 2)
    for run in runs:
        result = play.teralog("logs", "campaign.yaml", run["run_id"]).stdout
        assert play.text in result.splitlines()
    no_canary(play)


def test_no_part_of_a_value_is_executed_in_an_allocation(play) -> None:
    """`submit --here`, called in the shell of `salloc --run`, executes no part of a value."""
    done = subprocess.run(
        [TERALOG, "salloc", "campaign.yaml", "--run"],
        cwd=play.path,
        env={**os.environ, **play.environment},
        input=f"exec {TERALOG} submit campaign.yaml --here\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wait_until(lambda: play.states() == ["COMPLETED"] * 2, lambda: str(play.status()))
    no_canary(play)


@pytest.mark.parametrize(
    "where", ["account", "partition", "constraint", "log_folder", "python", "results", "script"]
)
def test_a_line_break_in_a_value_is_refused_in_a_sentence(playground, slurm, where: str) -> None:
    """A value with a line break is refused: a shell would execute the text after the line break."""
    text = f"x\n{TOUCH}\n"
    play = playground
    play.environment |= slurm.environment
    profile = "" if where in {"results", "script", "python"} else f"{where}: {json.dumps(text)}\n"
    play.write_slurm_campaign("true", matrix="seed: [1, 2]")
    profiled = play.path / "slurm.yaml"
    if where == "constraint":
        profiled.write_text(profiled.read_text().replace("constraint: v100-32g\n", ""))
    if where == "python":
        lines = profiled.read_text().splitlines()[:-1]
        profile = "\n".join([*lines, f"python: {json.dumps(text)}\n"])
        profiled.write_text("")
    profiled.write_text(profiled.read_text() + profile)
    if where == "results":
        play.environment["TERALOG_RESULTS"] = str(play.path / text)
    if where == "script":
        campaign = play.path / "campaign.yaml"
        campaign.write_text(
            campaign.read_text()
            .replace('"gpt", "model": "s"', f'"deepspeed", "script": {json.dumps(text)}')
            .replace("seed: [1, 2]", "script_args: [[a], [b]]")
        )
    for options in ((), ("--test-only",)):
        refused = play.teralog("submit", "campaign.yaml", *options)
        assert (refused.returncode, refused.stdout) == (1, ""), refused.stderr
        assert "Traceback" not in refused.stderr
        assert refused.stderr.startswith("teralog: ")
    no_canary(play)
