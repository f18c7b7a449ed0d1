"""Check the arguments in a run's `extra_args` against the options of the program.

The options come from the user's checkout of the program, or from a record of options.
"""

import json
from pathlib import Path

import pytest
from fixture_types import RunOf

from orchestrator.campaign.user_paths import user_paths
from orchestrator.frameworks.accepted_options import accepted_options, argument_findings
from orchestrator.frameworks.megatron import releases
from orchestrator.frameworks.options import record
from orchestrator.frameworks.options.record import recorded
from orchestrator.run.identity import run_id
from orchestrator.run.model import Run

SOURCE = """
import argparse
def parse_args(extra_args_provider=None):
    parser = argparse.ArgumentParser()
    parser.add_argument('--use-mup', action='store_true')
    parser.add_argument('--style', choices=['a', 'b'])
    parser.add_argument('--log-interval', type=int)
    return parser.parse_args()
"""


def findings(run: Run, folder: Path) -> tuple[list[str], list[str]]:
    """Return two lists: the problems and the warnings about the arguments of a run.

    folder: the folder of the campaign file.
    """
    return argument_findings(run, user_paths(run, folder))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let teralog cache the options that it reads in a temporary folder; return this folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    record.record_of_source.cache_clear()
    return tmp_path / "cache" / "teralog" / "options"


@pytest.fixture
def fork(tmp_path: Path) -> Path:
    """Write a checkout of a Megatron fork with some options of its own; return its folder."""
    arguments = tmp_path / "fork" / "megatron" / "training" / "arguments.py"
    arguments.parent.mkdir(parents=True)
    arguments.write_text(SOURCE)
    (tmp_path / "fork" / "pretrain_gpt.py").write_text("print('never run')\n")
    return tmp_path / "fork"


@pytest.mark.parametrize(
    ("words", "sentences"),
    [
        (["--use-mup", "--style", "b"], []),
        (["--use-mop"], ["--use-mop is not an option of {program}; did you mean '--use-mup'?"]),
        (["--mock-data"], ["--mock-data is not an option of {program}"]),
        (
            ["--style", "c"],
            ["argument --style: invalid choice: 'c' (choose from 'a', 'b'), in {program}"],
        ),
        (
            ["--log-interval 10"],
            [
                (
                    "unrecognized arguments: --log-interval 10; write two items: "
                    "[--log-interval, 10], in {program}"
                )
            ],
        ),
    ],
)
def test_an_option_missing_in_the_own_source_makes_a_run_impossible(
    run_of: RunOf, fork: Path, words: list[str], sentences: list[str]
):
    run = run_of(framework="megatron", source="fork", extra_args=words)
    program = fork / "pretrain_gpt.py"
    expected = [f"extra_args: {sentence.format(program=program)}" for sentence in sentences]
    assert findings(run, fork.parent) == (expected, [])


@pytest.mark.parametrize(
    ("option", "rest"),
    [
        ("--use-mup", ";"),
        ("--swigglu", "; did you mean '--swiglu'? Else"),
    ],
)
def test_an_option_missing_in_a_record_gives_a_warning_that_names_the_record(
    run_of: RunOf, tmp_path: Path, option: str, rest: str
):
    run = run_of(framework="megatron", source="no", version="core-0.16", extra_args=[option])
    assert findings(run, tmp_path) == (
        [],
        [
            (
                f"extra_args: {option} is not an option of Megatron core 0.16.1 (recorded){rest} "
                "correct `source` or give `options_record`, because this machine has no program in "
                f"{tmp_path / 'no'}"
            )
        ],
    )


@pytest.mark.parametrize(
    "more",
    [
        "[parser.add_argument(f'--{name}') for name in open('names')]",
        "from another_package import add_options; add_options(parser)",
    ],
)
def test_a_possible_option_that_only_the_running_program_knows_gives_a_warning(
    run_of: RunOf, fork: Path, more: str
):
    arguments = fork / "megatron" / "training" / "arguments.py"
    arguments.write_text(SOURCE.replace("    return", f"    {more}\n    return"))
    run = run_of(framework="megatron", source="fork", extra_args=["--use-it"])
    problems, warnings = findings(run, fork.parent)
    assert problems == []
    (warning,) = warnings
    assert warning.startswith(f"extra_args: --use-it is not an option of {fork}/pretrain_gpt.py; ")
    assert warning.endswith(
        "; check the program itself, because teralog could not read all of its options"
    )
    assert findings(run, fork.parent) == (problems, warnings)


def test_a_run_can_switch_off_the_check_of_options(run_of: RunOf, fork: Path):
    run = run_of(
        framework="megatron", source="fork", extra_args=["--nix"], allow_unknown_arguments=True
    )
    assert findings(run, fork.parent) == ([], [])


def test_a_source_that_changes_is_read_again(run_of: RunOf, fork: Path, cache: Path):
    run = run_of(framework="megatron", source="fork", extra_args=["--later"])
    assert findings(run, fork.parent)[0]
    assert len(list(cache.glob("*.json"))) == 1
    arguments = fork / "megatron" / "training" / "arguments.py"
    arguments.write_text(SOURCE.replace("--use-mup", "--later"))
    record.record_of_source.cache_clear()
    assert findings(run, fork.parent) == ([], [])


def test_a_damaged_cache_is_made_again(run_of: RunOf, fork: Path, cache: Path):
    run = run_of(framework="megatron", source="fork", extra_args=["--use-mup"])
    assert findings(run, fork.parent) == ([], [])
    (kept,) = cache.glob("*.json")
    kept.write_text("[]")
    record.record_of_source.cache_clear()
    assert findings(run, fork.parent) == ([], [])


def test_a_file_of_options_replaces_a_checkout_on_another_machine(run_of: RunOf, tmp_path: Path):
    content = {"program": "our fork", "source": "/elsewhere", "options": {"--ours": {}}}
    (tmp_path / "options.json").write_text(json.dumps(content))
    run = run_of(
        framework="megatron", source="no", options_record="options.json", extra_args=["--theirs"]
    )
    problems, _ = findings(run, tmp_path)
    assert problems == ["extra_args: --theirs is not an option of our fork"]


def test_a_check_does_not_change_the_identity_of_a_run(run_of: RunOf):
    plain = run_of(framework="megatron", source="megatron")
    checked = run_of(
        framework="megatron",
        source="megatron",
        options_record="x",
        allow_unknown_arguments=True,
    )
    assert run_id(checked) == run_id(plain)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("2", "megatron-lm-2.4"),
        ("core", "megatron-lm-core-main"),
        ("core-0.12", "megatron-lm-core-0.12"),
        ("0.16", "megatron-lm-core-0.16"),
        ("0.16.1", "megatron-lm-core-0.16"),
        ("core_v0.17.1", "megatron-lm-core-0.17"),
        ("core_r0.16.0", "megatron-lm-core-0.16"),
        ("v0.13.0rc3", "megatron-lm-core-0.13"),
        ("main", "megatron-lm-core-main"),
        ("0.9", "megatron-lm-core-0.12"),
        ("core-0.21", "megatron-lm-core-main"),
    ],
)
def test_a_release_is_found_however_it_is_written(version: str, name: str):
    assert releases.record_name(version) == name


@pytest.mark.parametrize("version", ["", "3", "core-", "latest", "1.2"])
def test_an_unknown_release_is_refused(version: str):
    with pytest.raises(ValueError, match=r"write 2, core, or a release such as core-0\.19"):
        releases.checked_version(version)


@pytest.mark.parametrize("release", releases.RECORDED)
def test_every_release_has_its_record(release: str):
    record = recorded(releases.record_name(f"core-{release}"))
    assert record.program.startswith("Megatron core")
    assert len(record.options) > 400
    assert record.options["--num-layers"]["type"] == "int"


def test_a_rehearsal_checks_against_the_same_options(run_of: RunOf, fork: Path):
    run = run_of(framework="megatron", source="fork")
    accepted = accepted_options(run, {"source": str(fork)})
    assert accepted is not None
    assert accepted.own
    assert accepted.options.keys() == {"--use-mup", "--style", "--log-interval"}
