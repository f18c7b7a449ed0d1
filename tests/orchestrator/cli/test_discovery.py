"""Commands without a campaign name, `teralog list`, and the completion of run names in shells."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.store.campaign_files import campaign_files

CAMPAIGN = """\
name: {name}
cluster: here.yaml
defaults: {{framework: gpt, model: s, time_limit: 5}}
matrix: {{strategy: [ddp, zero1], precision: [fp32, bf16]}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which has a campaign of four runs that end at once."""
    monkeypatch.delenv("TERALOG_RESULTS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    stand_in = tmp_path / "stand-in"
    stand_in.write_text("#!/bin/bash\necho trained\n")
    stand_in.chmod(0o755)
    (tmp_path / "here.yaml").write_text("scheduler: local\ngpus_per_node: 0\npython: ./stand-in\n")
    (tmp_path / "mine.yaml").write_text(CAMPAIGN.format(name="mine"))
    return tmp_path


def teralog(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize(
    ("text", "is_campaign"),
    [
        ("name: a\ndefaults: {}\n", True),
        ("# a comment\nname: a\nmatrix:\n  seed: [1\n", True),
        ("include: []\nname: a\n", True),
        ("name: a\n", False),
        ("scheduler: slurm\ngpus_per_node: 4\n", False),
        ("jobs:\n  name: a\n  matrix: {}\n", False),
        ("\x00\x01", False),
    ],
)
def test_campaign_files_are_distinguished_from_others(
    tmp_path: Path, text: str, is_campaign: bool
) -> None:
    """A YAML file is a campaign file if it has the key `name` and a key such as `matrix`.

    This holds even if the file contains mistakes.
    """
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "a.txt").write_text("name: a\nmatrix: {}\n")
    assert [path.name for path in campaign_files(tmp_path)] == ["a.yaml"] * is_campaign


@pytest.mark.parametrize(
    "words",
    [
        ["plan"],
        ["render"],
        ["status"],
        ["watch", "--once"],
        ["logs", "zero1", "bf16"],
        ["logs", "zero1 bf16"],
        ["cancel", "ddp"],
        ["retry"],
        ["collect"],
        ["report"],
        ["compare", "--by", "strategy"],
        ["noise"],
        ["history", "ddp"],
    ],
    ids=" ".join,
)
def test_the_only_campaign_need_not_be_named(folder: Path, words: list[str]) -> None:
    """Every command uses the only campaign of the folder, and prints its name."""
    teralog("submit")
    left_out = teralog(*words)
    command, *others = words
    assert left_out.stderr.startswith("campaign: mine.yaml\n")
    named = teralog(command, "mine.yaml", *others)
    assert (left_out.exit_code, left_out.stdout) == (named.exit_code, named.stdout)
    assert left_out.stderr.removeprefix("campaign: mine.yaml\n") == named.stderr


def test_without_a_campaign_or_with_several_a_sentence_shows_what_to_type(folder: Path) -> None:
    """If a folder has no campaign file or several, `submit` prints what to type.

    It starts nothing.
    """
    (folder / "other.yaml").write_text(CAMPAIGN.format(name="other"))
    several = teralog("submit")
    assert several.exit_code == 1
    assert "several campaign files (mine.yaml, other.yaml); give the path of one" in several.stderr
    (folder / "mine.yaml").unlink()
    (folder / "other.yaml").unlink()
    none = teralog("submit")
    assert (none.exit_code, "`teralog init`" in none.stderr) == (1, True)
    assert not (folder / "results").exists()


def test_a_run_has_to_be_named(folder: Path) -> None:
    """The name of a campaign is refused where a command needs the name of a run."""
    for words in (["logs"], ["logs", "mine.yaml"], ["history", "mine.yaml"]):
        assert "the id or the label of a run" in teralog(*words).stderr
    assert "there is no run 'zero9'" in teralog("logs", "zero9").stderr


def test_a_file_that_does_not_exist_is_not_a_run(folder: Path) -> None:
    """A word that looks like a file, e.g. gone.yaml, gives a message about a missing file."""
    assert "gone.yaml" in teralog("logs", "gone.yaml", "ddp").stderr
    assert "there is no run" not in teralog("cancel", "gone.yaml").stderr


def test_list_shows_campaigns_and_their_states(folder: Path) -> None:
    """`teralog list` shows how many runs of each campaign have each state.

    It includes campaigns whose file was deleted or has mistakes, and campaigns in subfolders.
    """
    (folder / "sub").mkdir()
    (folder / "sub" / "second.yaml").write_text(CAMPAIGN.format(name="another"))
    (folder / "sub" / "here.yaml").symlink_to("../here.yaml")
    (folder / "bad.yaml").write_text("name: bad\nmatrix: {sed: [1]}\n")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "c.yaml").write_text(CAMPAIGN.format(name="hidden"))
    teralog("submit", "mine.yaml")
    (folder / "gone.yaml").write_text(CAMPAIGN.format(name="gone"))
    teralog("submit", "gone.yaml")
    (folder / "gone.yaml").unlink()
    printed = teralog("list", "--json")
    campaigns = {
        (campaign["file"], campaign["name"]): campaign for campaign in json.loads(printed.stdout)
    }
    assert list(campaigns) == [
        ("bad.yaml", None),
        ("mine.yaml", "mine"),
        ("sub/second.yaml", "another"),
        (None, "gone"),
    ]
    assert "sed" in campaigns["bad.yaml", None]["problem"]
    assert campaigns["mine.yaml", "mine"]["states"] == {"completed": 4}
    assert campaigns["sub/second.yaml", "another"]["states"] == {"not started": 4}
    assert campaigns[None, "gone"]["states"] == {"completed": 4}
    assert "mine.yaml" in teralog("list").stdout


def test_list_shows_a_campaign_with_a_damaged_record_once(folder: Path) -> None:
    """A campaign with a damaged record has one row: its name, file, results and problem."""
    teralog("submit")
    ended = next(folder.glob("results/mine/*/attempt-1/ended.json"))
    ended.write_text("{")
    [campaign] = json.loads(teralog("list", "--json").stdout)
    assert campaign.pop("problem").startswith(f"{ended}: ")
    assert campaign == {
        "name": "mine",
        "file": "mine.yaml",
        "runs": None,
        "states": {},
        "results": str(folder / "results" / "mine"),
    }


def test_list_of_a_folder_without_campaigns_is_a_sentence(tmp_path: Path) -> None:
    """For a folder without campaigns, `list` prints a sentence, and `list --json` an empty list."""
    assert "`teralog init` writes a campaign" in teralog("list", str(tmp_path)).stderr
    assert json.loads(teralog("list", str(tmp_path), "--json").stdout) == []


def completions(line: str, shell: str) -> list[str]:
    """Return teralog's completions at the end of a command line.

    If the line ends with a space, the completions are for a new word, else for the last word.
    """
    words = shlex.split(line.removesuffix(" "))
    last = len(words) if line.endswith(" ") else len(words) - 1
    incomplete = "" if line.endswith(" ") else words[-1]
    place = incomplete if shell == "fish" else str(last)
    environment = {
        "_TERALOG_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": place,
    }
    return CliRunner().invoke(main, prog_name="teralog", env=environment).stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("teralog logs mine.yaml zero", ["zero1 fp32", "zero1 bf16"]),
        ("teralog logs zero", ["zero1 fp32", "zero1 bf16"]),
        ("teralog cancel mine.yaml ddp ", ["ddp fp32", "ddp bf16", "zero1 fp32", "zero1 bf16"]),
        ("teralog retry mine.yaml x", []),
        ("teralog history mine.yaml d", ["ddp fp32", "ddp bf16"]),
    ],
)
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_completes_labels_of_runs(
    folder: Path, line: str, expected: list[str], shell: str
) -> None:
    """The shell completes labels of runs, whether the campaign is named or is the only one."""
    printed = completions(line, shell)
    offered = [label for label in expected if any(label in text for text in printed)]
    assert offered == expected
    assert not any("ddp" in text for text in printed) or any("ddp" in label for label in expected)


def test_the_shell_completes_ids_after_their_first_letters(folder: Path) -> None:
    """If the user has typed the first digits of a run's id, the shell completes the id."""
    first = json.loads(teralog("plan", "--json").stdout)[0]["run_id"]
    assert any(first in text for text in completions(f"teralog logs mine.yaml {first[:5]}", "zsh"))


def test_a_campaign_with_mistakes_completes_nothing(folder: Path) -> None:
    """If a campaign file has mistakes, the shell completes nothing and prints no message.

    A message would appear in the middle of the user's command line.
    """
    (folder / "mine.yaml").write_text("name: mine\nmatrix: {sed: [1]}\n")
    assert "".join(completions("teralog logs mine.yaml z", "zsh")) == ""


def test_bash_inserts_a_label_as_one_word(folder: Path) -> None:
    """In bash, a completed label is one word: its spaces are escaped.

    The test runs the documented completion script in a real bash.
    """
    script = f"""
    PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH
    eval "$(_TERALOG_COMPLETE=bash_source teralog)"
    COMP_WORDS=(teralog logs mine.yaml zero1) COMP_CWORD=3
    _teralog_completion teralog zero1 mine.yaml
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.splitlines() == [r"zero1\ fp32", r"zero1\ bf16"]
