"""Expand the values of a campaign file to runs with labels."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.campaign.entry_problems import entry_problems
from orchestrator.campaign.expansion import MAX_RUNS, Entry, entries, make_run
from orchestrator.campaign.file import CampaignFile
from orchestrator.campaign.labels import MAX_LABEL, labels
from orchestrator.common.errors import UserError
from orchestrator.frameworks.table import FRAMEWORKS

SMALL = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "seq_length": 64,
}


def file(**keys: Any) -> CampaignFile:
    """Return a campaign file with the name "a" and the given keys."""
    return CampaignFile(name="a", **keys)


def test_the_matrix_is_crossed_in_its_order():
    """A matrix gives every combination of its values; its last parameter varies fastest.

    A parameter in `matrix` replaces the same parameter in `defaults`.
    """
    crossed = entries(
        file(defaults={"nodes": 1, "seed": 7}, matrix={"seed": [1, 2], "nodes": [3, 4]})
    )
    assert [entry.values for entry in crossed] == [
        {"nodes": 3, "seed": 1},
        {"nodes": 4, "seed": 1},
        {"nodes": 3, "seed": 2},
        {"nodes": 4, "seed": 2},
    ]


FILES: dict[str, tuple[dict[str, Any], list[tuple[str, dict[str, int]]]]] = {
    "nothing": ({}, [("defaults", {})]),
    "defaults alone": ({"defaults": {"seed": 1}}, [("defaults", {"seed": 1})]),
    "a matrix": ({"matrix": {"seed": [1, 2]}}, [("matrix", {"seed": 1}), ("matrix", {"seed": 2})]),
    "single runs": (
        {"defaults": {"seed": 1}, "include": [{"nodes": 2}, {"seed": 3}]},
        [("include[0]", {"seed": 1, "nodes": 2}), ("include[1]", {"seed": 3})],
    ),
    "a matrix and single runs": (
        {"matrix": {"seed": [1]}, "include": [{"seed": 2}]},
        [("matrix", {"seed": 1}), ("include[0]", {"seed": 2})],
    ),
}


@pytest.mark.parametrize(("keys", "expected"), FILES.values(), ids=FILES)
def test_included_runs_are_added_to_those_of_the_matrix(
    keys: dict[str, Any], expected: list[tuple[str, dict[str, int]]]
):
    """The runs of `include` are added to those of `matrix`.

    If a file has neither key, its only run consists of the values in `defaults`.
    """
    assert [(entry.where, entry.values) for entry in entries(file(**keys))] == expected


@given(st.lists(st.integers(0, 4), max_size=4), st.integers(0, 3))
def test_a_matrix_crosses_to_the_product_of_its_lengths(lengths: list[int], included: int):
    """A matrix gives each combination of its values exactly once.

    Each entry of `include` adds one run.
    """
    matrix = {f"p{index}": list(range(length)) for index, length in enumerate(lengths)}
    made = entries(file(matrix=matrix, include=[{"q": n} for n in range(included)]))
    product = 1 if lengths or not included else 0
    for length in lengths:
        product *= length
    assert len(made) == product + included
    assert len({repr(entry.values) for entry in made}) == product + included


def test_a_matrix_that_crosses_to_too_many_runs_is_refused_before_it_is_crossed():
    """A matrix that would give too many runs is refused before the runs are created.

    Otherwise they would fill the memory.
    """
    matrix = {name: [*range(1000)] for name in ("seed", "nodes", "train_iters", "num_layers")}
    with pytest.raises(UserError) as caught:
        entries(file(matrix=matrix))
    assert str(caught.value) == (f"requests 1,000,000,000,000 runs; the maximum is {MAX_RUNS:,}")


MISFITS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no framework": (
        {"model": SMALL},
        [f"defaults: no framework given; choose one of {', '.join(FRAMEWORKS)}"],
    ),
    "no model": (
        {"framework": "gpt"},
        ["defaults: no model given; framework gpt needs a model: give `model: PRESET`, or sizes"],
    ),
    "half a model": (
        {"framework": "gpt", "model": {"num_layers": 2, "vocab_size": 512}},
        [
            (
                "defaults: the model lacks hidden_size, num_attention_heads, seq_length; "
                "give them, or a preset"
            )
        ],
    ),
    "parameters of another framework, in the order of the file": (
        {"framework": "gpt", "model": SMALL, "zero_stage": 1, "script": "a", "script_args": []},
        [
            "defaults: framework gpt has no parameter 'zero_stage'",
            "defaults: framework gpt has no parameter 'script'",
            "defaults: framework gpt has no parameter 'script_args'",
        ],
    ),
    "a parameter that is needed": (
        {"framework": "deepspeed", "strategy": "ddp"},
        [
            "defaults: framework deepspeed has no parameter 'strategy'",
            "defaults: framework deepspeed needs the parameter 'script'",
        ],
    ),
}


@pytest.mark.parametrize(("values", "problems"), MISFITS.values(), ids=MISFITS)
def test_values_that_do_not_go_together_are_reported_all_at_once(
    values: dict[str, Any], problems: list[str]
):
    """All contradictions between the values of a run are reported at once.

    Each message begins with the part of the campaign file that defines the run, e.g. `defaults`.
    """
    assert entry_problems([Entry("defaults", values)]) == problems


def test_sizes_next_to_the_model_change_those_of_its_preset():
    """A size that the user gives with a preset replaces the preset's size.

    The run still shows the preset's name.
    """
    values = {"framework": "gpt", "model": {"preset": "xl", "num_layers": 3}, "seq_length": 512}
    run = make_run(Entry("defaults", values), "local", 1)
    assert (run.model.num_layers, run.model.hidden_size, run.model.seq_length) == (3, 1600, 512)
    assert run.model_name == "xl"


LABELS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing varies": ({"defaults": {"framework": "gpt"}}, ["gpt"]),
    "one value": ({"matrix": {"framework": ["gpt"], "seed": [1]}}, ["gpt"]),
    "words and numbers": (
        {"matrix": {"strategy": ["ddp", "zero1"], "nodes": [1, 2]}},
        ["ddp nodes1", "ddp nodes2", "zero1 nodes1", "zero1 nodes2"],
    ),
    "a default is left out of an included run": (
        {
            "defaults": {"framework": "gpt"},
            "matrix": {"strategy": ["ddp", "zero3"]},
            "include": [{"offload_param": "cpu"}],
        },
        ["ddp", "zero3", "ddp offload_param=cpu"],
    ),
    "the campaign's own default is left out of an included run": (
        {
            "defaults": {"strategy": "zero1", "nodes": 2},
            "include": [{"nodes": 1}, {"strategy": "ddp"}, {"strategy": "zero1", "nodes": 3}],
        },
        ["nodes1", "ddp", "nodes3"],
    ),
    "true and false": (
        {"matrix": {"activation_checkpointing": [True, False]}},
        ["activation_checkpointing=true", "activation_checkpointing=false"],
    ),
    "models": (
        {"matrix": {"model": ["s", {"preset": "xl", "seq_length": 8}, {"num_layers": 2}]}},
        ["s", "xl-8", "2"],
    ),
    "scripts by their name": (
        {"matrix": {"script": ["a/train.py", "b/other.py"]}},
        ["train.py", "other.py"],
    ),
    "scripts of one name by as much of their path as tells them apart": (
        {"matrix": {"script": ["/a/x/train.py", "/a/y/train.py", "/a/x/other.py"]}},
        ["x/train.py", "y/train.py", "other.py"],
    ),
    "folders by their names": (
        {"matrix": {"source": ["/gpfs/me/Megatron-LM", "/gpfs/me/oneflow"]}},
        ["source=Megatron-LM", "source=oneflow"],
    ),
    "a long mapping by what not all have of it": (
        {
            "matrix": {
                "deepspeed": [
                    {"zero": {"overlap": True, "bucket": 500_000_000}, "fp16": {"enabled": True}},
                    {"zero": {"overlap": True, "bucket": 200_000_000}, "fp16": {"enabled": True}},
                    {"zero": {"overlap": True, "bucket": 200_000_000}, "bf16": {"enabled": True}},
                ]
            }
        },
        [
            "deepspeed=bucket:500000000,fp16.enabled:true",
            "deepspeed=bucket:200000000,fp16.enabled:true",
            "deepspeed=bucket:200000000,bf16.enabled:true",
        ],
    ),
    "a long mapping next to a shorter one": (
        {"matrix": {"deepspeed": [{}, {"zero_optimization": {"reduce_bucket_size": 500_000_000}}]}},
        ["deepspeed=", "deepspeed=reduce_bucket_size:500000000"],
    ),
    "long lists by the options that not all have": (
        {
            "matrix": {
                "script_args": [
                    ["--data", "/gpfs/me/a-corpus", "--lr", "1e-5", "--bias"],
                    ["--data", "/gpfs/me/a-corpus", "--lr", "3e-5"],
                    ["--data", "/gpfs/me/a-corpus", "--a-flag"],
                    ["--data", "/gpfs/me/a-corpus-of-another-kind"],
                    ["--bias"],
                ]
            }
        },
        [
            "script_args=--data /gpfs/me/a-corpus --lr 1e-5 --bias",
            "script_args=--data /gpfs/me/a-corpus --lr 3e-5",
            "script_args=--data /gpfs/me/a-corpus --a-flag",
            "script_args=--data /gpfs/me/a-corpus-of-another-kind",
            "script_args=--bias",
        ],
    ),
    "long lists that differ in little": (
        {
            "matrix": {
                "script_args": [
                    ["--data", "/gpfs/me/a-corpus", "--lr", "1e-5", "--bias"],
                    ["--data", "/gpfs/me/a-corpus", "--lr", "3e-5", "--bias"],
                ]
            }
        },
        ["script_args=--lr 1e-5", "script_args=--lr 3e-5"],
    ),
    "long lists in another order are written out": (
        {"matrix": {"script_args": [["--a" * 14, "--bbb"], ["--bbb", "--a" * 14]]}},
        [
            f"script_args={'--a' * 14},--bbb",
            f"script_args=--bbb,{'--a' * 14}",
        ],
    ),
    "what a run lacks": (
        {
            "defaults": {"framework": "gpt"},
            "matrix": {"script": ["train.py"], "model": ["s"]},
            "include": [{"seed": 2}],
        },
        ["train.py s", "seed=2"],
    ),
    "what a framework has by default, and another has not": (
        {
            "defaults": {"framework": "deepspeed"},
            "include": [{}, {"zero_stage": 1}, {"zero_stage": 3}, {"launcher": "launch"}],
        },
        ["deepspeed", "zero1", "zero3", "launcher=launch"],
    ),
    "a mapping": (
        {"matrix": {"deepspeed": [{}, {"fp16": {"enabled": True}}]}},
        ["deepspeed=", "deepspeed=fp16:enabled:true"],
    ),
}


@pytest.mark.parametrize(("keys", "expected"), LABELS.values(), ids=LABELS)
def test_a_label_shows_what_varies(keys: dict[str, Any], expected: list[str]):
    """A label contains the parameters that vary, in the file's order.

    A value that all runs share is left out.
    """
    made = file(**keys)
    assert labels(made, entries(made)) == expected


def test_a_label_is_not_longer_than_a_line():
    """A label that is too long is cut, and ends with "…"."""
    made = file(matrix={"script_args": [["a" * 500], ["b"]]})
    long, short = labels(made, entries(made))
    assert len(long) == MAX_LABEL
    assert long.endswith("…")
    assert short == "script_args=b"
