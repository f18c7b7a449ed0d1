"""Expand a campaign to a plan: each run is planned once, and excluded runs are counted."""

from pathlib import Path
from typing import Any

import pytest
from fixture_types import CampaignOf, ProblemsOf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.campaign.campaign import load_campaign
from orchestrator.common.errors import UserError
from orchestrator.frameworks.table import FRAMEWORKS

EXAMPLES = Path(__file__).parents[3] / "examples"
HEAD = "name: a\ndefaults: {framework: gpt, model: s}\n"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_can_be_run(path: Path, monkeypatch: pytest.MonkeyPatch):
    """All runs of the campaigns in examples/ are possible, because users copy these campaigns.

    Exceptions are files with the word "contradict" in a comment: they contain rows of a published
    page whose numbers contradict each other. Such a file must have an impossible run.
    """
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    campaign = load_campaign(path)
    assert campaign.name == path.stem
    impossible = [planned for planned in campaign.runs if planned.problems]
    assert bool(impossible) == ("contradict" in path.read_text())


def test_a_run_has_its_identity_its_label_and_its_place(campaign_of: CampaignOf):
    """Each planned run has its own id, label and place, also each repeat of a run.

    The runs of `matrix` precede the runs of `include`.
    """
    campaign = campaign_of(
        f"{HEAD}matrix: {{strategy: [ddp, zero1]}}\ninclude: [{{seed: 2}}]\nrepeats: 2\n"
    )
    assert [planned.label for planned in campaign.runs] == [
        "ddp r1",
        "ddp r2",
        "zero1 r1",
        "zero1 r2",
        "ddp seed=2 r1",
        "ddp seed=2 r2",
    ]
    assert [planned.run.repeat for planned in campaign.runs] == [1, 2] * 3
    assert len({planned.run_id for planned in campaign.runs}) == 6
    assert (campaign.name, campaign.cluster.name, campaign.notes) == ("a", "local", ())


EXCLUDED = {
    "by value": ("[{strategy: ddp}]", ["zero1 seed=1", "zero1 seed=2"]),
    "by two values": ("[{strategy: ddp, seed: 1}]", ["ddp seed=2", "zero1 seed=1", "zero1 seed=2"]),
    "by a list of values": ("[{seed: [1, 2]}]", []),
    "by an expression": ("['seed > 1']", ["ddp seed=1", "zero1 seed=1"]),
    "by a derived size": ("['zero_stage == 1']", ["ddp seed=1", "ddp seed=2"]),
    "by several rules": ("[{strategy: zero1}, 'seed == 2']", ["ddp seed=1"]),
}


@pytest.mark.parametrize(("exclude", "left"), EXCLUDED.values(), ids=EXCLUDED)
def test_excluded_runs_are_not_planned(
    campaign_of: CampaignOf, problems_of: ProblemsOf, exclude: str, left: list[str]
):
    """An `exclude` rule can name any parameter, also one that teralog derives from others."""
    text = f"{HEAD}matrix: {{strategy: [ddp, zero1], seed: [1, 2]}}\nexclude: {exclude}\n"
    if left:
        assert [planned.label for planned in campaign_of(text).runs] == left
    else:
        assert problems_of(text) == ["exclude: removes all 4 runs"]


def test_excluded_and_duplicate_runs_are_reported(campaign_of: CampaignOf):
    """Messages report how many runs each `exclude` rule removed, and how many were duplicates.

    A run that matches several rules counts only for the first of them.
    """
    campaign = campaign_of(
        f"{HEAD}matrix: {{strategy: [ddp, zero1], seed: [1, 2]}}\n"
        "include: [{strategy: zero1, seed: 1}]\n"
        "exclude: [{strategy: ddp}, 'seed == 2', 'world_size > 64']\n"
    )
    assert campaign.notes == (
        "2 runs excluded by 'strategy: ddp'",
        "1 run excluded by 'seed == 2'",
        "1 duplicate run is left out",
    )


def test_a_run_that_is_asked_for_twice_is_planned_once(campaign_of: CampaignOf):
    """If two entries mean the same run, the run is planned once, with the label of the first.

    It does not matter whether an entry spells out a default or leaves it out.
    """
    campaign = campaign_of(
        f"{HEAD}matrix: {{model: [s, {{preset: s, seq_length: 1024}}]}}\n"
        "include: [{model: s, num_microbatches: 1}]\n"
    )
    assert [planned.label for planned in campaign.runs] == ["s"]
    assert campaign.notes == ("2 duplicate runs are left out",)


def test_another_time_limit_alone_does_not_make_another_run(campaign_of: CampaignOf):
    """Two entries that differ only in their time limit are planned as one run.

    The run has the time limit of the first entry, and a message reports this.
    """
    campaign = campaign_of(f"{HEAD}include: [{{time_limit: 5}}, {{time_limit: 10}}]\n")
    assert [planned.run.resources.time_limit_seconds for planned in campaign.runs] == [300]
    assert campaign.notes == (
        "1 duplicate run is left out; the time_limit of the first occurrence applies",
    )


def test_an_impossible_run_stays_in_the_plan_with_its_problems(campaign_of: CampaignOf):
    """An impossible run stays in the plan, with its problems."""
    campaign = campaign_of(f"{HEAD}matrix: {{num_attention_heads: [12, 7]}}\n")
    possible, impossible = campaign.runs
    assert possible.problems == ()
    (problem,) = impossible.problems
    assert problem == "hidden_size=768 is not divisible by num_attention_heads=7"


PROBLEMS = {
    "of the file, of values, and of runs that lack something": (
        (
            "name: ../x\nrepeats: 0\ndefaults: {nodes: 0}\n"
            "matrix: {framework: [gpt, deepspeed], seed: [1, -1]}\nexclude: ['world_size >']\n"
            "include: [{framework: gpt, model: s, nodes: 1, zero_stage: 1}]\n"
        ),
        [
            "repeats: 0 is too small; the minimum is 1",
            (
                "name: '../x' cannot name a folder: use up to 64 letters, digits, '.', '_' and "
                "'-'; begin with a letter or a digit; try 'x'"
            ),
            "exclude[0]: 'world_size >' is not an expression: invalid syntax",
            "defaults.nodes: 0 is too small; the minimum is 1",
            "matrix: no model given; framework gpt needs a model: give `model: PRESET`, or sizes",
            "matrix.seed: -1 is too small; the minimum is 0",
            "matrix: framework deepspeed needs the parameter 'script'",
            "include[0]: framework gpt has no parameter 'zero_stage'",
        ],
    ),
    "a value that no framework of the file takes, once": (
        (
            "name: a\ndefaults: {model: s, script: a, launcher: mpirun}\n"
            "matrix: {framework: [deepspeed, hf_deepspeed]}\n"
        ),
        [
            (
                "defaults.launcher: 'mpirun' is not one of torchrun, deepspeed, srun; "
                "did you mean 'srun'?"
            )
        ],
    ),
    "a default that every run has another value for": (
        "name: a\ndefaults: {framework: gpt, model: s, nodes: 0}\nmatrix: {nodes: [1, 2]}\n",
        ["defaults.nodes: 0 is too small; the minimum is 1"],
    ),
    "what cannot be read is all, for the rest may be in it": (
        "name: a\ndefaults: framework=gpt\nmatrix: {seed: [-1]}\n",
        [
            "defaults: 'framework=gpt' is not a mapping; write it as {key: value}",
            "matrix.seed: -1 is too small; the minimum is 0",
        ],
    ),
    "runs that lack something": (
        (
            "name: a\ndefaults: {model: s}\nmatrix: {framework: [gpt, deepspeed]}\n"
            "include: [{framework: gpt, zero_stage: 1}]\nrepeats: 3\n"
        ),
        [
            "matrix: framework deepspeed needs the parameter 'script'",
            "include[0]: framework gpt has no parameter 'zero_stage'",
        ],
    ),
    "values that another framework of the file takes": (
        (
            "name: a\ndefaults: {model: s}\ninclude:\n"
            "- {framework: gpt, strategy: colossalai_zero2, launcher: deepspeed}\n"
            "- {framework: colossalai_gpt, source: c, strategy: zero2}\n"
            "- {framework: megatron, source: m, launcher: deepspeed}\n"
        ),
        [
            (
                "include[0].strategy: 'colossalai_zero2' is not one of ddp, zero0, zero1, zero2, "
                "zero3 (framework gpt)"
            ),
            (
                "include[1].strategy: 'zero2' is not one of ddp, colossalai_gemini, "
                "colossalai_gemini_cpu, colossalai_zero2, colossalai_zero2_cpu, colossalai_zero1, "
                "colossalai_zero1_cpu (framework colossalai_gpt)"
            ),
            (
                "include[2].launcher: 'deepspeed' is not one of torchrun, launch, srun "
                "(framework megatron)"
            ),
        ],
    ),
    "defaults that are of one framework of several": (
        (
            "name: a\ndefaults: {framework: megatron, model: s, source: m, launcher: launch}\n"
            "matrix: {framework: [megatron, oneflow_gpt]}\n"
            "include: [{framework: gpt}, {framework: gpt, source: m}]\n"
        ),
        [
            (
                "matrix: framework oneflow_gpt has no parameter 'launcher'; in defaults it applies "
                "to every run: write it only for runs whose framework has this parameter"
            ),
            "matrix: framework oneflow_gpt needs the parameter 'dataset'",
            (
                "include[0]: framework gpt has no parameter 'source'; in defaults it applies to "
                "every run: write it only for runs whose framework has this parameter"
            ),
            ("defaults.launcher: 'launch' is not one of torchrun, deepspeed, srun (framework gpt)"),
            "include[1]: framework gpt has no parameter 'source'",
        ],
    ),
    "no framework": (
        "name: a\n",
        [f"defaults: no framework given; choose one of {', '.join(FRAMEWORKS)}"],
    ),
    "a rule that does not fit the runs": (
        f"{HEAD}exclude: ['strategy > 3']\n",
        ["exclude[0]: 'strategy > 3' mixes numbers and texts"],
    ),
    "a rule that divides by zero": (
        f"{HEAD}exclude: ['seed / (nodes - 1) > 3']\n",
        ["exclude[0]: 'seed / (nodes - 1) > 3' divides by zero"],
    ),
    "too many runs": (
        (
            f"{HEAD}matrix: {{seed: [1, 2], nodes: {[*range(1, 200)]}, train_iters: [3, 4]}}\n"
            "repeats: 1000\n"
        ),
        ["requests 796,000 runs; the maximum is 100,000"],
    ),
}


@pytest.mark.parametrize(("text", "problems"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_campaign_whose_runs_cannot_be_formed_is_refused(
    problems_of: ProblemsOf, text: str, problems: list[str]
):
    """An invalid campaign is refused with all its problems at once.

    A problem that several runs share is reported once.
    """
    assert problems_of(text) == problems


def test_an_argument_is_the_same_with_quotes_and_without(campaign_of: CampaignOf):
    """An argument reaches the program as the file spells it: 1e-5 does not become 1e-05.

    Quotes around the argument do not change the run's identity.
    """
    text = "name: a\ndefaults: {framework: deepspeed, script: a.py}\nmatrix:\n  script_args: "
    (bare,) = campaign_of(f"{text}[[--steps, 30, --lr, 1e-5]]\n").runs
    (quoted,) = campaign_of(f"{text}[['--steps', '30', '--lr', '1e-5']]\n").runs
    assert bare.run.options.script_args == ["--steps", "30", "--lr", "1e-5"]
    assert bare.run_id == quoted.run_id


def test_an_argument_that_is_true_or_nothing_is_refused(problems_of: ProblemsOf):
    """The arguments true and null are refused, because programs spell them differently."""
    text = (
        "name: a\n"
        "defaults: {framework: megatron, model: s, source: m, extra_args: [--a, true, null]}\n"
    )
    assert problems_of(text) == [
        "defaults.extra_args[1]: true is not text; put it in quotes",
        "defaults.extra_args[2]: null is not text; put it in quotes",
    ]


def test_a_missing_cluster_profile_is_named(problems_of: ProblemsOf, tmp_path: Path):
    """The error about a missing cluster profile names it, and lists the existing ones."""
    assert problems_of(f"{HEAD}cluster: jean-zay\n") == [
        (
            f"cluster 'jean-zay': there is no such profile file in {tmp_path}; "
            "give a file's name, or 'local' for this machine"
        )
    ]


def test_a_cluster_profile_is_found_next_to_the_campaign(campaign_of: CampaignOf, tmp_path: Path):
    """The path of a cluster profile is relative to the folder of the campaign file.

    Runs with different cluster profiles have different identities.
    """
    (tmp_path / "v100.yaml").write_text("gpus_per_node: 4\ngpu: V100-SXM2-32GB\n")
    here, there = campaign_of(HEAD), campaign_of(f"{HEAD}cluster: v100.yaml\n")
    assert there.cluster.name == "v100"
    assert here.runs[0].run_id != there.runs[0].run_id


FITTING = {
    "framework": ["gpt", "deepspeed"],
    "model": ["s", "{preset: s}", "{preset: xl, seq_length: 8}", "{seq_length: 8}"],
    "nodes": ["1", "2", "99999999"],
    "num_attention_heads": ["7"],
    "global_batch_size": ["4", "9223372036854775807"],
    "num_microbatches": ["1", "3"],
    "tensor_parallel_size": ["1", "2"],
    "strategy": ["ddp", "zero3"],
    "offload_param": ["none", "cpu"],
    "script": ["train.py"],
    "deepspeed": ["{}", "{fp16: {enabled: true}}", "{fp16: {enable: [{}]}}", "{fp16: 1}"],
    "time_limit": ["5", "'1:00'"],
}
MISFITS = {
    "framework": ["[gpt]", "gtp"],
    "model": ["7", "[]", "{preset: {}}", "{hidden_size: .5}"],
    "nodes": ["0", "'2'", "~", "true"],
    "script_args": ["[1]"],
    "time_limit": ["1.5", "0"],
    "deepspeed": ["[]"],
    "nope": ["1"],
}


def files(table: dict[str, list[str]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy that generates the keys of campaign files, except `name`.

    table: for each parameter, the values to choose from, each as YAML text.
    """
    single = {name: st.sampled_from(values) for name, values in table.items()}
    several = {name: st.lists(value, min_size=1, max_size=2) for name, value in single.items()}
    rules = st.sampled_from(["world_size > 1", "nodes < 2", "strategy > 1", "model == 's'", "("])
    return st.fixed_dictionaries(
        {"defaults": st.fixed_dictionaries({}, optional=single)},
        optional={
            "matrix": st.fixed_dictionaries({}, optional=several),
            "include": st.lists(st.fixed_dictionaries({}, optional=single), max_size=2),
            "exclude": st.lists(rules, max_size=1),
            "repeats": st.sampled_from(["1", "2"]),
            "warmup": st.sampled_from(["0", "25%"]),
        },
    )


def written(value: Any) -> str:
    """Return a value as YAML on one line, e.g. {a: [1, 2]}.

    A string is copied unchanged, because it already is YAML.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return str(value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files(FITTING) | files(FITTING | MISFITS))
def test_any_file_is_a_campaign_or_a_users_mistake(campaign_of: CampaignOf, file: dict[str, Any]):
    """Any content of a campaign file gives either a campaign or a message, never a traceback."""
    defaults = {"framework": "gpt", "model": "s", **file["defaults"]}
    try:
        campaign = campaign_of(written({"name": "a", **file, "defaults": defaults}))
    except UserError as error:
        sentences = [*error.problems]
    else:
        sentences = [problem for planned in campaign.runs for problem in planned.problems]
        assert campaign.runs
    assert all(sentence and "\n" not in sentence for sentence in sentences)
