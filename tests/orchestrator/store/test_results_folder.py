"""Find the results folder of a campaign file, and report results that are in other folders."""

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.frames import runs
from orchestrator.store.results_folder import results_folder

CAMPAIGN = """\
name: play
cluster: here.yaml
defaults: {framework: gpt, model: s, time_limit: 5}
matrix: {seed: [1, 2]}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder below the home directory, with a campaign whose runs end at once."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TERALOG_RESULTS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    stand_in = folder / "stand-in"
    stand_in.write_text("#!/bin/bash\ntrue\n")
    stand_in.chmod(0o755)
    (folder / "here.yaml").write_text("scheduler: local\ngpus_per_node: 0\npython: ./stand-in\n")
    (folder / "c.yaml").write_text(CAMPAIGN)
    monkeypatch.chdir(folder)
    return folder


def teralog(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize(
    ("folders", "file", "expected"),
    [
        pytest.param([], "a/b", "a/b/results", id="a new folder next to the file"),
        pytest.param(["a/b/results", "a/results"], "a/b", "a/b/results", id="the nearest"),
        pytest.param(["a/results"], "a/b", "a/results", id="above the file"),
        pytest.param(["results"], "a/b", "results", id="in the home directory"),
        pytest.param(["a/.git", "results"], "a/b", "a/b/results", id="not outside a repository"),
        pytest.param(["a/.git", "a/results"], "a/b", "a/results", id="at a repository's root"),
        pytest.param(["../results"], "a/b", "a/b/results", id="not above the home directory"),
        pytest.param(["../results"], "..", "../results", id="outside of home, next to the file"),
        pytest.param(["../results"], "../x", "../x/results", id="outside of home, not above"),
    ],
)
def test_the_nearest_folder_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: list[str], file: str, expected: str
) -> None:
    """The results folder is the nearest one in the campaign file's folder or in a folder above it.

    The search goes up to the root of the repository, or to the home directory.
    """
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for folder in (file, *folders):
        (home / folder).mkdir(parents=True, exist_ok=True)
    assert results_folder(home / file) == (home / expected).resolve()


def test_a_file_named_results_is_not_a_results_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file named `results` is not a results folder; the search continues in the folders above."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "results").write_text("")
    (tmp_path / "results").mkdir()
    assert results_folder(tmp_path / "a") == tmp_path / "results"


def test_every_folder_has_the_same_view_of_a_campaign(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any current directory, a campaign has the same results folder.

    The path of its file may be relative, absolute or through a link.
    """
    assert teralog("submit", "c.yaml").exit_code == 0
    (project.parent / "link").symlink_to("project")
    for folder, path in (("sub", "../c.yaml"), ("..", "project/c.yaml"), ("..", "link/c.yaml")):
        monkeypatch.chdir(project / folder)
        assert "2 runs: 2 completed" in teralog("status", path).stdout
        assert "2 runs on here: 2 completed" in teralog("plan", path).stdout
        again = teralog("submit", path)
        assert (again.exit_code, "2 runs: 2 completed" in again.stderr) == (0, True)
    assert [len(list(project.glob(f"results/play/*/attempt-{n}"))) for n in (1, 2)] == [2, 0]
    assert {*map(str, project.rglob("results"))} == {str(project / "results")}


@pytest.mark.parametrize(
    "command",
    [
        ["plan"],
        ["render"],
        ["submit"],
        ["status"],
        ["logs", "seed=1"],
        ["cancel", "--all"],
        ["retry"],
        ["collect"],
        ["report"],
        ["noise"],
        ["history", "seed=1"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_names_its_folder(project: Path, command: list[str]) -> None:
    """Each command prints the results folder on stderr, except after `--results`."""
    teralog("submit", "c.yaml")
    name, *others = command
    assert teralog(name, "c.yaml", *others).stderr.startswith("results: results/play\n")
    typed = teralog(name, "c.yaml", *others, "--results", "results")
    assert "results: " not in typed.stderr


def test_results_under_the_current_directory_are_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the current directory has results of the campaign's runs, a message reports these results.

    Earlier versions of teralog wrote results there, and not in the campaign's results folder.
    `submit` refuses to start such runs again, unless the user chooses a folder with `--results`.
    """
    old = project / "sub" / "results"
    teralog("submit", "c.yaml", "--results", str(old))
    monkeypatch.chdir(project / "sub")
    seen = teralog("status", "../c.yaml")
    assert f"results: {project}/results/play\n" in seen.stderr
    assert "2 runs of play were also started in results/play" in seen.stderr
    line = next(line for line in seen.stderr.splitlines() if "also started in" in line)
    option = shlex.split(line.split("`")[1])
    assert "2 runs: 2 completed" in teralog("status", "../c.yaml", *option).stdout

    refused = teralog("submit", "../c.yaml")
    assert refused.exit_code == 1
    assert f"2 runs missing in {project}/results/play were started in {old}/play" in refused.stderr
    assert not (project / "results").exists()
    asked = teralog("submit", "../c.yaml", "--results", str(project / "results"))
    assert asked.exit_code == 0
    # Both folders have the runs now, so none is missing; the other folder is still reported.
    done = teralog("submit", "../c.yaml")
    assert (done.exit_code, "also started in results/play" in done.stderr) == (0, True)


def test_results_of_another_campaign_of_the_same_name_are_not_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results in another folder are not reported if they belong to another campaign.

    That campaign has the same name, but its runs have other ids.
    """
    (project / "sub" / "c.yaml").write_text(CAMPAIGN.replace("[1, 2]", "[3]"))
    (project / "sub" / "here.yaml").write_text(
        (project / "here.yaml").read_text().replace("./", "../")
    )
    (project / "sub" / "results").mkdir()
    teralog("submit", "sub/c.yaml")
    monkeypatch.chdir(project / "sub")
    assert "started also" not in teralog("status", "../c.yaml").stderr
    assert teralog("submit", "../c.yaml").exit_code == 0


def test_lines_to_type_next_name_the_folder_that_was_given(project: Path) -> None:
    """Commands that teralog suggests contain the given results folder."""
    (project / "stand-in").write_text("#!/bin/bash\nexit 3\n")
    failed = teralog("submit", "c.yaml", "--results", "else where")
    assert "`teralog retry c.yaml --results 'else where'` starts" in failed.stderr


def test_the_library_finds_the_same_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`teralog.runs` finds the results folder if it gets only the path of the campaign file."""
    teralog("submit", "c.yaml")
    monkeypatch.chdir(project / "sub")
    assert list(runs("../c.yaml")["state"]) == ["COMPLETED", "COMPLETED"]
