"""Ask Megatron's own code, without a GPU, whether it accepts the arguments of a run.

In these tests, the code is `tests/data/small_megatron`, which has the structure of Megatron core.
It imports a package that is not installed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.workloads import ask_megatron

pytestmark = pytest.mark.train
SOURCE = Path(__file__).parents[2] / "data" / "small_megatron"
ACCEPTED = ["--lr", "0.1", "--num-layers", "4"]


def answers_to(
    folder: Path, *commands: list[str], source: Path = SOURCE, **values: Any
) -> list[dict[str, Any]]:
    """Call `ask_megatron` once about several runs; return its answer for each run.

    commands: the arguments of each run. source: the folder of Megatron's code. values: more keys
    of the query for each run.
    """
    pytest.importorskip("torch", reason="needs the train extra")
    orders = [
        {
            "program": str(source / "pretrain_gpt.py"),
            "arguments": command,
            "world_size": 8,
            "gpus_per_node": 4,
            "compute_capability": [9, 0],
            **values,
        }
        for command in commands
    ]
    file = folder / "orders.json"
    file.write_text(json.dumps(orders))
    done = subprocess.run(
        [sys.executable, ask_megatron.__file__, str(file)],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers


REFUSED = {
    "an option that it does not have": (
        ["--no-such", "3"],
        ("--no-such", "unrecognized arguments: --no-such"),
    ),
    "a value that is not a choice": (
        ["--optimizer", "lion"],
        (
            "--optimizer",
            "argument --optimizer: invalid choice: 'lion' (choose from 'adam', 'muon')",
        ),
    ),
    "an assertion without words": (
        ["--squared-relu", "--swiglu"],
        ("--swiglu", "assert not args.swiglu"),
    ),
    "an assertion of several lines": (
        ["--expert-model-parallel-size", "2"],
        ("--expert-model-parallel-size", "experts are split, and there are none"),
    ),
    "the set-up of groups": (
        ["--num-experts", "3", "--expert-model-parallel-size=3"],
        (
            "--expert-model-parallel-size",
            "RuntimeError: world_size (8) is not divisible by the experts' ranks",
        ),
    ),
    "a configuration of the model, and a renamed option": (
        ["--renamed-layers", "5"],
        ("--renamed-layers", "too many renamed layers"),
    ),
    "a configuration of the optimizer": (
        ["--decoupled-lr", "0.5"],
        ("--decoupled-lr", "decoupled_lr (0.5) is above lr"),
    ),
    "a message that names nothing": (["--opaque"], ("--opaque", "this does not work")),
}


def test_the_program_answers_in_its_own_words_and_names_the_argument(tmp_path: Path):
    commands = [[*ACCEPTED, *arguments] for arguments, _ in REFUSED.values()]
    answers = answers_to(tmp_path, *commands)
    assert [answer["problems"] for answer in answers] == [
        [{"argument": argument, "message": message}] for _, (argument, message) in REFUSED.values()
    ]
    assert [answer["error"] for answer in answers] == [None] * len(REFUSED)


def test_all_that_the_parser_refuses_is_reported_or_the_first_that_validation_does(tmp_path: Path):
    of_parser = ["--no-such", "3", "--nor-this", "--optimizer", "lion"]
    of_validation = ["--opaque", "--fp8"]
    answers = answers_to(
        tmp_path,
        [*ACCEPTED, *of_parser, *of_validation],
        [*ACCEPTED, *of_validation],
        compute_capability=[8, 0],
    )
    assert [[problem["argument"] for problem in answer["problems"]] for answer in answers] == [
        ["--optimizer", "--no-such", "--nor-this"],
        ["--fp8"],
    ]


def test_accepted_arguments_are_asked_at_every_step(tmp_path: Path):
    (answer,) = answers_to(tmp_path, ACCEPTED)
    assert answer["problems"] == []
    assert answer["asked"] == [
        "the start of pretrain_gpt.py",
        "parse_args and validate_args",
        "the set-up of model-parallel groups",
        "TransformerConfig",
        "OptimizerConfig",
    ]
    remark = "code that uses packages that this Python lacks was not checked: missing_kernels"
    assert remark in answer["not_asked"]


@pytest.mark.parametrize(("capability", "refused"), [([8, 0], True), ([9, 0], False)])
def test_the_gpu_that_is_shown_has_the_capability_of_the_run_s(
    tmp_path: Path, capability: list[int], *, refused: bool
):
    (answer,) = answers_to(tmp_path, [*ACCEPTED, "--fp8"], compute_capability=capability)
    assert [problem["message"] for problem in answer["problems"]] == (
        ["--fp8 needs a later GPU"] * refused
    )


@pytest.mark.parametrize(
    ("option", "lacking"),
    [
        ("--needs-package", "package_that_is_not_here"),
        ("--needs-driver", "no NVIDIA driver"),
        ("--needs-installation", "no-such-package"),
    ],
)
def test_what_this_machine_lacks_is_not_the_program_s_refusal(
    tmp_path: Path, option: str, lacking: str
):
    (answer,) = answers_to(tmp_path, [*ACCEPTED, option])
    assert answer["problems"] == []
    assert any(lacking in text for text in answer["not_asked"])


@pytest.mark.parametrize("option", ["--fuse-rope", "--group-options"])
def test_what_comes_after_an_option_that_needs_a_gpu_s_package_is_asked_too(
    tmp_path: Path, option: str
):
    accepted, refused = answers_to(
        tmp_path, [*ACCEPTED, option], [*ACCEPTED, option, "--renamed-layers", "5"]
    )
    assert accepted["problems"] == []
    assert accepted["asked"][-1] == "OptimizerConfig"
    assert [problem["argument"] for problem in refused["problems"]] == ["--renamed-layers"]


def test_a_program_that_cannot_be_imported_is_an_error_and_no_refusal(tmp_path: Path):
    shutil.copytree(SOURCE, tmp_path / "broken")
    (tmp_path / "broken" / "pretrain_gpt.py").write_text("from megatron import nothing\n")
    (answer,) = answers_to(tmp_path, ACCEPTED, source=tmp_path / "broken")
    assert answer["problems"] == []
    assert "cannot import name 'nothing'" in answer["error"]


def test_asking_writes_nothing_into_the_source(tmp_path: Path):
    source = Path(shutil.copytree(SOURCE, tmp_path / "source"))
    before = sorted(source.rglob("*"))
    answers_to(tmp_path, ACCEPTED, source=source)
    assert sorted(source.rglob("*")) == before
