"""The campaign file: its valid keys, and the messages about invalid ones."""

import re
from pathlib import Path

import pytest
from fixture_types import ProblemsOf
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.campaign.file import CampaignFile, frameworks_in_play, read_campaign_file
from orchestrator.frameworks.table import FRAMEWORKS

GPT = "defaults: {framework: gpt, model: s}\n"


def test_a_file_needs_a_name_and_nothing_else(tmp_path: Path):
    """Every key except `name` has a default."""
    path = tmp_path / "least.yaml"
    path.write_text("name: least\n")
    checked = read_campaign_file(path)
    assert checked.file == CampaignFile(name="least")
    assert checked.problems == ()
    assert (checked.file.cluster, checked.file.repeats, checked.rules) == ("local", 1, ())
    assert str(checked.warmup) == "the first 10% of the iterations"


PROBLEMS = {
    "no name": (GPT, ["the key 'name' is missing"]),
    "an unknown key": (
        f"name: a\nmatrx: {{strategy: [ddp]}}\n{GPT}",
        ["unknown key 'matrx'; did you mean 'matrix'?"],
    ),
    "keys that belong elsewhere": (
        "name: a\nframework: gpt\nmodel: s\nzero_stage: 1\npartition: gpu\n",
        [
            "unknown key 'framework'; it is a parameter of runs: write it under defaults",
            "unknown key 'model'; it is a parameter of runs: write it under defaults",
            "unknown key 'zero_stage'; it is a parameter of runs: write it under defaults",
            "unknown key 'partition'; it belongs in the cluster profile",
        ],
    ),
    "keys of the file among parameters": (
        (
            "name: a\ndefaults: {framework: gpt, model: s, repeats: 3}\nmatrix: {warmup: [1]}\n"
            "include: [{order: file}]\n"
        ),
        [
            "defaults: unknown key 'repeats'; write it at the top level of the file",
            "matrix: unknown key 'warmup'; write it at the top level of the file",
            "include[0]: unknown key 'order'; write it at the top level of the file",
        ],
    ),
    "an unknown parameter": (
        "name: a\ndefaults: {framework: gpt, model: s, micro_batch: 4}\n",
        ["defaults: unknown key 'micro_batch'; did you mean 'micro_batch_size'?"],
    ),
    "a number as text": (
        'name: a\ndefaults: {framework: gpt, model: s, nodes: "2"}\nrepeats: "3"\n',
        [
            "repeats: '3' is text; write the whole number 3 without quotes",
            "defaults.nodes: '2' is text; write the whole number 2 without quotes",
        ],
    ),
    "every key of another type": (
        (
            "name: 1\ncluster: 2\ndefaults: 3\nmatrix: 4\ninclude: 5\nexclude: 6\nrepeats: x\n"
            "warmup: 1.5\n"
        ),
        [
            "name: 1 is not text; put it in quotes",
            "cluster: 2 is not text; put it in quotes",
            "defaults: 3 is not a mapping; write it as {key: value}",
            "matrix: 4 is not a mapping; write it as {key: value}",
            "include: 5 is not a list; write it as [a, b]",
            "exclude: 6 is not a list; write it as [a, b]",
            "repeats: 'x' is not a whole number",
            "warmup: 1.5 is not a whole number",
        ],
    ),
    "keys without a value": (
        "name: a\ndefaults:\nmatrix:\ninclude:\nexclude:\n",
        [f"{key}: has no value" for key in ("defaults", "matrix", "include", "exclude")],
    ),
    "repeats beyond reason": (
        f"name: a\n{GPT}repeats: 0\n",
        ["repeats: 0 is too small; the minimum is 1"],
    ),
    "a warm-up that is none": (
        f"name: a\n{GPT}warmup: 100%\n",
        [
            (
                "warmup: '100%' is not a valid warm-up: give a number of iterations (5), "
                "a percentage below 100 (10%), `first` or `auto`"
            )
        ],
    ),
    "a negative warm-up": (
        f"name: a\n{GPT}warmup: -1\n",
        [
            (
                "warmup: -1 is not a valid warm-up: give a number of iterations (5), "
                "a percentage below 100 (10%), `first` or `auto`"
            )
        ],
    ),
    "a matrix of values, not lists": (
        f"name: a\n{GPT}matrix: {{strategy: ddp}}\n",
        ["matrix.strategy: 'ddp' is not a list; write it as [a, b]"],
    ),
    "a matrix without values": (
        f"name: a\n{GPT}matrix: {{strategy: []}}\n",
        ["matrix.strategy: has no values; give at least one, or remove strategy"],
    ),
    "a matrix with values that do not fit": (
        f"name: a\n{GPT}matrix: {{strategy: [ddp, zeor1], seed: [1, -1, -1]}}\n",
        [
            "matrix.seed: -1 is too small; the minimum is 0",
            (
                "matrix.strategy: 'zeor1' is not one of ddp, zero0, zero1, zero2, zero3; "
                "did you mean 'zero1'?"
            ),
        ],
    ),
    "a matrix of models": (
        (
            "name: a\ndefaults: {framework: gpt}\n"
            "matrix: {model: [s, xxl, {preset: s, seq_len: 64}, {seq_length: 0}]}\n"
        ),
        [
            "matrix.model: there is no model preset 'xxl'; did you mean 'xl'?",
            "matrix.model: unknown key 'seq_len'; did you mean 'seq_length'?",
            "matrix.model.seq_length: 0 is too small; the minimum is 1",
        ],
    ),
    "an include that is not a mapping": (
        f"name: a\n{GPT}include: [strategy, {{nods: 2}}]\n",
        [
            "include[0]: 'strategy' is not a mapping; write it as {key: value}",
            "include[1]: unknown key 'nods'; did you mean 'nodes'?",
        ],
    ),
    "rules that are none": (
        f"name: a\n{GPT}exclude: ['world_size >', {{worldsize: 1}}, 3, 'exit()']\n",
        [
            "exclude[0]: 'world_size >' is not an expression: invalid syntax",
            "exclude[1]: there is no parameter 'worldsize'; did you mean 'world_size'?",
            (
                "exclude[2]: 3 is not a rule; write an expression, or a mapping such as "
                "{zero_stage: 3}"
            ),
            (
                "exclude[3]: 'exit()' is not allowed in an expression: write parameters, numbers, "
                "quoted texts, lists, + - * / // %, comparisons, in, and, or, not"
            ),
        ],
    ),
    "a rule over another framework's parameter": (
        f"name: a\n{GPT}exclude: [{{script: train.py}}]\n",
        ["exclude[0]: there is no parameter 'script'"],
    ),
    "a name for a way out": (
        f"name: ../../etc\n{GPT}",
        [
            (
                "name: '../../etc' cannot name a folder: use up to 64 letters, digits, '.', "
                "'_' and '-'; begin with a letter or a digit; try 'etc'"
            )
        ],
    ),
}


@pytest.mark.parametrize(("text", "problems"), PROBLEMS.values(), ids=PROBLEMS)
def test_all_problems_of_a_file_are_reported_at_once(
    problems_of: ProblemsOf, text: str, problems: list[str]
):
    """All problems of a campaign file are reported at once.

    Each message begins with the file and the path of the key.
    """
    assert problems_of(text) == problems


def test_a_problem_of_the_cluster_is_reported_with_the_rest(problems_of: ProblemsOf):
    """A missing cluster profile is reported together with the other mistakes of the file."""
    name, cluster = problems_of(f"name: ../x\ncluster: nosuch.yaml\n{GPT}")
    assert name.startswith("name: '../x' cannot name a folder")
    assert cluster.startswith("cluster 'nosuch.yaml': there is no such profile file")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: a\nname: b\n", ", line 2: the key 'name' occurs twice"),
        ("just a text", "a campaign file must be a mapping, e.g. `name: my-campaign`"),
        ('name: "a\\nb"\n', "name: 'a\\nb' contains a control character or a line break"),
    ],
)
def test_a_file_that_is_not_plain_text_has_only_that_problem(
    problems_of: ProblemsOf, text: str, problem: str
):
    """If a file is not plain text, teralog reports no other problem of it."""
    assert problems_of(text) == [problem]


NAMES = ["a", "7", "zero-stages", "ZeRO_3.1", "a" * 64, "a..b", "v1.", "a-"]
HINTS = {
    "": None,
    "..": None,
    ".": None,
    ".hidden": "hidden",
    "-rf": "rf",
    "_a!": "a",
    "a" * 65: "a" * 64,
    "two words": "two-words",
    'it\'s "quoted"': "it-s-quoted",
    "$(rm -rf x)": "rm-rf-x",
    "../..": None,
    "a/b": "a-b",
    "a;b": "a-b",
    "größe": "gr-e",
    "a\u200bb": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_can_name_a_folder_is_taken(tmp_path: Path, name: str):
    """A campaign's name may contain letters, digits, '.', '_' and '-'."""
    (tmp_path / "file.yaml").write_text(f'name: "{name}"\n')
    checked = read_campaign_file(tmp_path / "file.yaml")
    assert (checked.file.name, checked.problems) == (name, ())


@pytest.mark.parametrize(("name", "hint"), HINTS.items())
def test_a_name_that_cannot_name_a_folder_is_refused(
    problems_of: ProblemsOf, name: str, hint: str | None
):
    """A refused name would lead out of the results folder, or would need quotes in a shell."""
    (problem,) = problems_of("name: '{}'\n".format(name.replace("'", "''")) + GPT)
    if name.isprintable():
        assert problem.startswith(f"name: {name!r} cannot name a folder")
        assert problem.endswith(f"; try {hint!r}" if hint else "begin with a letter or a digit")


def suggestion(path: Path, name: str) -> str | None:
    """Return the name that the error message suggests; None if the name is accepted."""
    path.write_text("name: '{}'\n".format(name.replace("'", "''")), encoding="utf-8")
    for problem in read_campaign_file(path).problems:
        suggested = re.search(r"; try '(.*)'$", problem)
        return suggested[1] if suggested else ""
    return None


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=80).filter(str.isprintable))
def test_a_name_that_is_suggested_can_be_taken(tmp_path_factory: pytest.TempPathFactory, name: str):
    """A name that an error message suggests is valid."""
    path = tmp_path_factory.getbasetemp() / "suggested.yaml"
    suggested = suggestion(path, name)
    if suggested:
        assert suggestion(path, suggested) is None


IN_PLAY = {
    "none named": ({}, tuple(FRAMEWORKS)),
    "by the defaults": ({"defaults": {"framework": "gpt"}}, ("gpt",)),
    "by the matrix": ({"matrix": {"framework": ["deepspeed"]}}, ("deepspeed",)),
    "by an include": (
        {"defaults": {"framework": "gpt"}, "include": [{"framework": "deepspeed"}]},
        ("gpt", "deepspeed"),
    ),
    "by nothing that fits": (
        {"defaults": 3, "matrix": {"framework": "gpt"}, "include": [4]},
        tuple(FRAMEWORKS),
    ),
    "unknown ones": ({"defaults": {"framework": ["gpt"]}}, tuple(FRAMEWORKS)),
}


@pytest.mark.parametrize(("data", "expected"), IN_PLAY.values(), ids=IN_PLAY)
def test_frameworks_in_play_are_those_that_are_named(
    data: dict[str, object], expected: tuple[str, ...]
):
    """The frameworks of a campaign are those that its file names.

    If the file names none, they are all frameworks that teralog has. The file may contain only the
    parameters of these frameworks.
    """
    assert set(frameworks_in_play(data)) == set(expected)


def test_a_rule_s_value_that_no_run_can_have_is_refused(problems_of: ProblemsOf):
    """An `exclude` rule with a value that no run can have is refused.

    Otherwise a rule with a misspelt value would silently exclude no run.
    """
    text = "name: a\ndefaults: {framework: gpt, model: s}\nexclude: [{strategy: [ddp, zer1]}]\n"
    [problem] = problems_of(text)
    assert problem.startswith("exclude[0].strategy: 'zer1' is not one of ddp, zero0")
