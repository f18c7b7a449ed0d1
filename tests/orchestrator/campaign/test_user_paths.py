"""The paths of files that runs name, and the messages about missing files."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fixture_types import RunOf

from orchestrator.campaign.campaign import Campaign
from orchestrator.campaign.user_paths import missing_files, unset_variables, user_paths
from orchestrator.common.errors import UserError
from orchestrator.hardware.cluster import Cluster
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.submit.render import render_runs
from orchestrator.submit.slurm import SlurmBackend


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE", "/code")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("NOWHERE", raising=False)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("train.py", "/campaigns/train.py"),
        ("/programs/train.py", "/programs/train.py"),
        ("~/train.py", "/home/me/train.py"),
        ("~nobody-of-that-name/train.py", "/campaigns/~nobody-of-that-name/train.py"),
        ("$CODE/train.py", "/code/train.py"),
        ("${CODE}/train.py", "/code/train.py"),
    ],
)
def test_paths_are_expanded_for_the_user_who_renders(run_of: RunOf, given: str, path: str) -> None:
    run = run_of(framework="deepspeed", script=given)
    assert user_paths(run, Path("/campaigns")) == {"script": path}
    assert not list(unset_variables(run))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("gpt2", None),
        ("stas/openwebtext-10k", None),
        ("./bpe", "/campaigns/bpe"),
        ("../bpe", "/campaigns/../bpe"),
        ("/models/bpe", "/models/bpe"),
        ("~/bpe", "/home/me/bpe"),
        ("$CODE/bpe", "/code/bpe"),
    ],
)
def test_a_tokenizer_is_a_path_if_it_looks_like_one(
    run_of: RunOf, given: str, path: str | None
) -> None:
    run = run_of(framework="hf_deepspeed", program="run_clm", script="/a.py", tokenizer=given)
    assert user_paths(run, Path("/campaigns")).get("tokenizer") == path


@pytest.mark.parametrize("given", ["$NOWHERE/train.py", "/a/${NOWHERE}/train.py"])
def test_a_variable_that_is_not_set_is_reported(run_of: RunOf, given: str) -> None:
    (sentences,) = unset_variables(run_of(framework="deepspeed", script=given))
    assert sentences.startswith("script: the variable $")
    assert sentences.endswith(f" in {given} is not set here; set it, or write the whole path")


def test_nothing_is_rendered_with_a_variable_that_is_not_set(
    campaign_of: Callable[[str], Campaign], tmp_path: Path
) -> None:
    campaign = campaign_of("name: a\ndefaults: {framework: deepspeed, script: $NOWHERE/a.py}\n")
    with pytest.raises(
        UserError, match=r"the variable \$NOWHERE in \$NOWHERE/a.py is not set here"
    ):
        render_runs(campaign, campaign.runs, CampaignStore(tmp_path / "results"))
    assert not (tmp_path / "results").exists()


def test_nothing_is_rendered_if_the_path_of_python_has_an_unset_variable(
    campaign_of: Callable[[str], Campaign], tmp_path: Path
) -> None:
    """If the profile's path of Python contains a variable that is not set, `render` is refused.

    Otherwise a script would try to start a program with the literal path $NOWHERE/bin/python.
    """
    (tmp_path / "far.yaml").write_text("python: $NOWHERE/bin/python\n")
    campaign = campaign_of("name: a\ncluster: far.yaml\ndefaults: {framework: gpt, model: s}\n")
    sentence = (
        "python: the variable $NOWHERE in $NOWHERE/bin/python is not set here; set it, or write "
        "the whole path"
    )
    (planned,) = campaign.runs
    assert planned.warnings == (sentence,)
    with pytest.raises(UserError, match=re.escape(f"cluster far: {sentence}")):
        render_runs(campaign, campaign.runs, CampaignStore(tmp_path / "results"))
    assert not (tmp_path / "results").exists()


def test_nothing_is_submitted_if_the_log_folder_does_not_exist(
    campaign_of: Callable[[str], Campaign], tmp_path: Path
) -> None:
    """`submit` is refused if the path of the profile's log folder contains an unset variable.

    Otherwise `submit` would write logs to a folder with the literal name $NOWHERE.
    """
    (tmp_path / "far.yaml").write_text("log_folder: $NOWHERE/logs\n")
    campaign = campaign_of("name: a\ncluster: far.yaml\ndefaults: {framework: gpt, model: s}\n")
    store = CampaignStore(tmp_path / "results")
    sentence = (
        "log_folder: the variable $NOWHERE in $NOWHERE/logs is not set here; set it, or write the "
        "whole path"
    )
    (planned,) = campaign.runs
    assert planned.warnings == (sentence,)
    with (
        pytest.raises(UserError, match=re.escape(f"cluster far: {sentence}")),
        SlurmBackend().session(campaign, store, print),
    ):
        pass
    assert not (tmp_path / "results").exists()


def test_a_file_that_is_missing_is_reported_before_the_run(
    campaign_of: Callable[[str], Campaign], tmp_path: Path
) -> None:
    text = "name: a\ndefaults: {framework: deepspeed, script: train.py}\n"
    (planned,) = campaign_of(text).runs
    assert planned.warnings == (f"{tmp_path / 'train.py'}: does not exist",)
    (tmp_path / "train.py").touch()
    (planned,) = campaign_of(text).runs
    assert not planned.warnings
    assert not list(missing_files(planned.run, tmp_path))


def test_on_a_cluster_files_are_not_looked_for_here(run_of: RunOf) -> None:
    from orchestrator.campaign.checks import run_warnings

    run = run_of(framework="deepspeed", script="/nowhere/train.py")
    assert not list(run_warnings(run, Cluster(name="far"), Path()))
