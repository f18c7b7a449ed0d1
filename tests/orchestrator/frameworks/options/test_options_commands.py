"""The output of `plan` and `record-options` for a checkout of a training program."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main

CAMPAIGN = """
name: fork
cluster: cluster.yaml
defaults: {framework: megatron, source: fork, model: 18B, gpus_per_node: 8,
           tensor_parallel_size: 8, precision: bf16, extra_args: [--use-mop]}
"""
ARGUMENTS = """
import argparse
def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument('--use-mup', action='store_true')
    return parser.parse_args()
"""
REFUSED = "extra_args: --use-mop is not an option of"


@pytest.fixture(autouse=True)
def fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a campaign, and a checkout of a Megatron fork next to it.

    Return the folder of the checkout.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    (tmp_path / "cluster.yaml").write_text("gpus_per_node: 8\n")
    folder = tmp_path / "fork"
    (folder / "megatron").mkdir(parents=True)
    (folder / "megatron" / "arguments.py").write_text(ARGUMENTS)
    (folder / "pretrain_gpt.py").write_text("raise SystemExit('never run')\n")
    return folder


def typed(*words: str) -> Result:
    """Run a teralog command in this process, and return its result.

    words: the command line without `teralog`.
    """
    return CliRunner().invoke(main, words, env={"NO_COLOR": "1", "COLUMNS": "400"})


def lines(result: Result) -> str:
    """Return the output of a command as one line, because sentences wrap."""
    return " ".join(result.output.split())


def test_an_argument_that_the_fork_lacks_is_impossible_unless_it_is_allowed():
    refused, allowed = (
        typed("plan", "campaign.yaml"),
        typed("plan", "campaign.yaml", "--allow-unknown-arguments"),
    )
    assert refused.exit_code == 1
    assert f"impossible: {REFUSED}" in lines(refused)
    assert "did you mean '--use-mup'?" in lines(refused)
    assert allowed.exit_code == 0
    assert f"warning: {REFUSED}" in lines(allowed)


def test_render_takes_the_same_option():
    assert typed("render", "campaign.yaml").exit_code == 1
    assert typed("render", "campaign.yaml", "--allow-unknown-arguments").exit_code == 0


def test_a_record_is_carried_to_a_machine_without_the_checkout(fork: Path, tmp_path: Path):
    written = typed("record-options", "fork", "-o", "fork.json")
    assert written.exit_code == 0
    assert "wrote 1 option of pretrain_gpt.py in fork to fork.json" in lines(written)
    assert json.loads((tmp_path / "fork.json").read_text())["options"].keys() == {"--use-mup"}
    fork.rename(tmp_path / "elsewhere")
    (tmp_path / "campaign.yaml").write_text(
        CAMPAIGN.replace("source: fork", "source: fork, options_record: fork.json")
    )
    assert "is not an option of pretrain_gpt.py in fork" in lines(typed("plan", "campaign.yaml"))


def test_a_file_that_is_not_a_record_is_not_overwritten(fork: Path, tmp_path: Path):
    before = (tmp_path / "campaign.yaml").read_text()
    result = typed("record-options", "fork", "-o", "campaign.yaml")
    assert result.exit_code == 1
    assert "campaign.yaml: is not a record of options" in lines(result)
    assert (tmp_path / "campaign.yaml").read_text() == before
    for _ in range(2):
        assert typed("record-options", "fork", "-o", "fork.json").exit_code == 0


def test_a_source_without_the_program_is_named(fork: Path, tmp_path: Path):
    """If the folder in `source` contains no program, the recorded options of a release are used."""
    fork.rename(tmp_path / "elsewhere")
    result = typed("plan", "campaign.yaml")
    assert f"because this machine has no program in {tmp_path}/fork" in lines(result)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read"), ("{}", "is not a record of options"), ("[", "is not a record")],
)
def test_a_record_that_cannot_be_read_is_a_sentence(
    fork: Path, tmp_path: Path, content: str | None, problem: str
):
    fork.rename(tmp_path / "elsewhere")
    if content is not None:
        (tmp_path / "bad.json").write_text(content)
    (tmp_path / "campaign.yaml").write_text(
        CAMPAIGN.replace("source: fork", "source: fork, options_record: bad.json")
    )
    result = typed("plan", "campaign.yaml")
    assert result.exit_code == 1
    assert f"bad.json: {problem}" in lines(result)


def test_a_folder_without_a_program_is_refused(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    result = typed("record-options", "empty")
    assert result.exit_code == 1
    assert "empty: contains none of pretrain_gpt.py, pretrain_gpt2.py" in lines(result)


def test_an_option_that_a_fork_renamed_is_checked_under_its_new_name(tmp_path: Path):
    release = Path(__file__).parents[3] / "data" / "small_megatron"
    renamed = Path(shutil.copytree(release, tmp_path / "renamed"))
    arguments = renamed / "megatron" / "training" / "arguments.py"
    arguments.write_text(arguments.read_text().replace("--squared-relu", "--use-squared-relu"))
    printed = {}
    for source in (renamed, tmp_path / "not_here"):
        for option in ("--use-squared-relu", "--squared-relu"):
            (tmp_path / "campaign.yaml").write_text(
                CAMPAIGN.replace("fork, model", f"{source}, version: core-0.19, model").replace(
                    "--use-mop", option
                )
            )
            printed[source.name, option] = lines(typed("plan", "campaign.yaml"))
    assert "--use-squared-relu" not in printed["renamed", "--use-squared-relu"]
    assert (
        f"impossible: extra_args: --squared-relu is not an option of {renamed}/pretrain_gpt.py; "
        "did you mean '--use-squared-relu'?"
    ) in printed["renamed", "--squared-relu"]
    record = "Megatron core 0.19.0 (recorded)"
    warning = f"warning: extra_args: --use-squared-relu is not an option of {record}"
    assert warning in printed["not_here", "--use-squared-relu"]
    assert "--squared-relu" not in printed["not_here", "--squared-relu"]
