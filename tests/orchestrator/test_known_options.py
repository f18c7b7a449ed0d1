"""Every script that is rendered says nothing that its program would refuse."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from orchestrator.campaign import load_campaign
from orchestrator.frameworks import FRAMEWORKS
from orchestrator.scripts import job_script
from orchestrator.workloads.rehearsal import option_problems

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "orchestrator" / "known_options"
CAMPAIGNS = sorted(
    (*(ROOT / "tests" / "scripts").glob("*.yaml"), *(ROOT / "examples").glob("[!_]*.yaml"))
)

ACCEPTED = {
    "--num-layers": {"type": "int", "required": True},
    "--lr": {"type": "float"},
    "--fp16": {"values": 0},
    "--betas": {"values": 2, "type": "float"},
    "--data-path": {"values": "*"},
    "--split": {},
    "--backend": {"choices": ["nccl", "gloo"]},
}


@pytest.mark.parametrize(
    "words",
    [
        "--num-layers 4",
        "--num-layers=4 --lr 1e-4 --fp16",
        "--num-layers 4 --betas 0.9 -0.95 --data-path",
        "--num-layers 4 --data-path a b c --split 949,50,1 --backend gloo",
    ],
)
def test_what_a_program_accepts_is_no_problem(words: str):
    assert not list(option_problems(words.split(), ACCEPTED))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--num-layer 4 --num-layers 4", "unrecognized arguments: --num-layer 4"),
        ("stray --num-layers 4", "unrecognized arguments: stray"),
        ("--num-layers four", "argument --num-layers: invalid int value: 'four'"),
        ("--num-layers", "argument --num-layers: expected 1 values, got []"),
        ("--num-layers 4 --fp16 yes", "argument --fp16: expected 0 values, got ['yes']"),
        ("--num-layers 4 --betas 0.9", "argument --betas: expected 2 values, got ['0.9']"),
        ("--num-layers 4 --backend mpi", "argument --backend: invalid choice: 'mpi'"),
        ("--lr 1", "the following arguments are required: --num-layers"),
    ],
)
def test_what_a_program_refuses_is_said_in_argparse_s_words(words: str, problem: str):
    (said,) = option_problems(words.split(), ACCEPTED)
    assert said.startswith(problem)


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_a_record_says_what_it_is_of_and_where_that_lies(path: Path):
    record = json.loads(path.read_text())
    assert record["program"]
    assert record["source"].startswith("https://")
    for option, takes in record["options"].items():
        assert option.startswith("-")
        assert takes.keys() <= {"values", "type", "choices", "required"}


@cache
def accepted(program: str) -> dict[str, Any]:
    """Return the options that a program accepts, by its record."""
    options: dict[str, Any] = json.loads((RECORDS / f"{program}.json").read_text())["options"]
    return options


def handed(script: str) -> str:
    """Return the bash of a script that makes what it hands to its program."""
    text = script[script.index("\nargs=(") :]
    return text[: text.index("\n)\n") + 3]


@cache
def arguments(array: str) -> list[str]:
    """Return what a script hands to its program, as bash reads it."""
    environment = {"MASTER_ADDR": "host", "node_ips": "10.0.0.1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", f"{array}printf '%s\\0' \"${{args[@]}}\""],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_every_rendered_option_is_one_that_the_program_has(path: Path):
    campaign = load_campaign(path)
    for planned in campaign.runs:
        program = FRAMEWORKS[planned.run.framework].program(planned.run)
        if program is None:
            continue
        script = job_script(planned, campaign, Path("/results/campaign") / planned.run_id)
        words = arguments(handed(script))
        assert not list(option_problems(words, accepted(program))), planned.label
