"""The parameters of runs: their names, valid values and time limits."""

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.campaign.parameters import (
    _CALLED_ELSEWHERE,
    COMMON,
    MODEL_SIZES,
    CommonParameters,
    is_parameter,
    option_names,
    parameter_problems,
)
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.time_limit import time_limit_seconds
from orchestrator.run.model import Parallelism, Resources, Training

TIME_LIMITS: dict[int | str, int] = {
    30: 1800,
    1: 60,
    "30:00": 1800,
    "0:30": 30,
    "1:30:00": 5400,
    "100:00:00": 360_000,
    "90:00": 5400,
    "9:59": 599,
    "1:59:59": 7199,
    # In Slurm's notation hours, not minutes, follow the days.
    "1-0": 86_400,
    "1-12": 129_600,
    "1-12:30": 131_400,
    "1-12:30:15": 131_415,
    "01-00:00:00": 86_400,
}


@pytest.mark.parametrize("limit", TIME_LIMITS)
def test_a_time_limit_is_minutes_or_what_slurm_takes(limit: int | str):
    """A time limit is a number of minutes, or text such as M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    assert time_limit_seconds(limit) == TIME_LIMITS[limit]


NO_TIME_LIMITS: dict[int | str, str] = {
    "": "is not a time limit; write minutes (30) or H:MM:SS (1:30:00)",
    "30": "is not a time limit",
    "half an hour": "is not a time limit",
    "1:2:3:4": "is not a time limit",
    "1:-2": "is not a time limit",
    "-1:00": "is not a time limit",
    "-": "is not a time limit",
    "1-": "is not a time limit",
    "1-2-3": "is not a time limit",
    "1:": "is not a time limit",
    "1.5:00": "is not a time limit",
    "²:00": "is not a time limit",
    " 1:00": "is not a time limit",
    "9" * 5000 + ":00": "is not a time limit",
    "9:99": "'9:99' has 99 seconds, and the maximum is 59; write minutes (30) or H:MM:SS",
    "90:90": "'90:90' has 90 seconds, and the maximum is 59",
    "1:60:00": "'1:60:00' has 60 minutes, and the maximum is 59",
    "1:59:60": "'1:59:60' has 60 seconds, and the maximum is 59",
    "1-12:75": "'1-12:75' has 75 minutes, and the maximum is 59",
    "1-12:00:75": "'1-12:00:75' has 75 seconds, and the maximum is 59",
    0: "0 is not above zero",
    -5: "-5 is not above zero",
    "0:00": "'0:00' is not above zero",
    "0-0:00:00": "'0-0:00:00' is not above zero",
}


@pytest.mark.parametrize("limit", NO_TIME_LIMITS, ids=lambda limit: str(limit)[:12])
def test_an_invalid_time_limit_is_refused(limit: int | str):
    """The message about an invalid time limit shows both ways to write one."""
    with pytest.raises(ValueError, match=re.escape(NO_TIME_LIMITS[limit])):
        time_limit_seconds(limit)


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_time_limit_written_for_slurm_is_read_as_it_was(
    days: int, hours: int, minutes: int, seconds: int
):
    """A time limit means the same if it is written as D-HH:MM:SS or as hours:MM:SS."""
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if total:
        assert time_limit_seconds(f"{days}-{hours:02}:{minutes:02}:{seconds:02}") == total
        assert time_limit_seconds(f"{days * 24 + hours}:{minutes:02}:{seconds:02}") == total


SIZES = {"num_layers": 2, "hidden_size": 64}

PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing wrong": ({"framework": "gpt", "nodes": 2, "strategy": "ddp", "model": SIZES}, []),
    "unknown": (
        {"node": 2},
        ["defaults: unknown key 'node'; did you mean 'nodes'?"],
    ),
    "what others call it": (
        {"train_batch_size": 8, "lr": 1},
        [
            "defaults: unknown key 'train_batch_size'; use global_batch_size",
            "defaults: unknown key 'lr'; use learning_rate",
        ],
    ),
    "unknown, like nothing": ({"zzz": 2}, ["defaults: unknown key 'zzz'"]),
    "several": (
        {"nodes": 0, "precision": "fp8", "seed": -1},
        [
            "defaults.nodes: 0 is too small; the minimum is 1",
            "defaults.precision: 'fp8' is not one of fp32, bf16, fp16",
            "defaults.seed: -1 is too small; the minimum is 0",
        ],
    ),
    "number as text": (
        {"gpus_per_node": "2"},
        ["defaults.gpus_per_node: '2' is text; write the whole number 2 without quotes"],
    ),
    "a time limit": (
        {"time_limit": "soon"},
        [
            (
                "defaults.time_limit: 'soon' is not a time limit; write minutes (30) or H:MM:SS "
                "(1:30:00)"
            )
        ],
    ),
    "unknown framework": (
        {"framework": "gtp"},
        ["defaults.framework: there is no framework 'gtp'; did you mean 'gpt'?"],
    ),
    "framework of another type": (
        {"framework": 7},
        ["defaults.framework: 7 is not text; put it in quotes"],
    ),
    "several values in place of one": (
        {"framework": ["gpt"], "model": ["s", "m"], "nodes": [1, 2], "extra_args": ["--a"]},
        [
            "defaults.framework: ['gpt'] is a list; give one value, or several under matrix",
            "defaults.model: ['s', 'm'] is a list; give one value, or several under matrix",
            "defaults.nodes: [1, 2] is a list; give one value, or several under matrix",
        ],
    ),
    "framework without a value": ({"framework": None}, ["defaults.framework: has no value"]),
    "unknown preset": (
        {"model": "xll"},
        ["defaults.model: there is no model preset 'xll'; did you mean 'xl'?"],
    ),
    "unknown preset among sizes": (
        {"model": {"preset": "xll", "num_layers": 0}},
        [
            "defaults.model: there is no model preset 'xll'; did you mean 'xl'?",
            "defaults.model.num_layers: 0 is too small; the minimum is 1",
        ],
    ),
    "unknown size": (
        {"model": {"hidden": 64}},
        ["defaults.model: unknown key 'hidden'; did you mean 'hidden_size'?"],
    ),
    "model without a value": (
        {"model": None},
        ["defaults.model: has no value; give a preset, e.g. model: xl, or sizes"],
    ),
    "model of another type": (
        {"model": 7},
        ["defaults.model: there is no model preset '7'; did you mean '7B'?"],
    ),
}


@pytest.mark.parametrize(("values", "problems"), PROBLEMS.values(), ids=PROBLEMS)
def test_all_problems_are_reported_at_once(values: dict[str, Any], problems: list[str]):
    """All invalid parameters are reported at once, each with the path of its key."""
    assert list(parameter_problems("defaults", values, FRAMEWORKS)) == problems


def test_a_parameter_of_another_framework_is_unknown_if_the_campaign_uses_one():
    """A parameter is refused if it belongs only to frameworks that the campaign does not use.

    The message names these frameworks.
    """
    assert list(parameter_problems("defaults", {"script": "train.py"}, ["gpt"])) == [
        "defaults: unknown key 'script'; it is a parameter of deepspeed, hf_deepspeed"
    ]
    assert not list(parameter_problems("defaults", {"script": "train.py"}, ["gpt", "deepspeed"]))


def test_a_value_is_valid_if_one_framework_of_the_campaign_accepts_it():
    """A value is valid if one of the campaign's frameworks accepts it.

    E.g. the framework `deepspeed` can offload to nvme, but `gpt` cannot.
    """
    values = {"offload_param": "nvme"}
    assert list(parameter_problems("include[0]", values, ["gpt"])) == [
        "include[0].offload_param: 'nvme' is not one of none, cpu"
    ]
    assert not list(parameter_problems("include[0]", values, ["gpt", "deepspeed"]))


def test_no_framework_has_a_parameter_that_all_have():
    """A parameter of a framework never has the name of a parameter that all frameworks share."""
    for name in FRAMEWORKS:
        assert not option_names(name) & COMMON


def test_a_parameter_left_out_is_the_one_that_the_file_documents():
    """A run without a parameter gets the default that the campaign file's documentation gives."""
    documented = {
        field.name: () if field.default_factory is list else field.default
        for field in dataclasses.fields(CommonParameters)
    }
    derived = ("time_limit_seconds", "contradicted_data_parallel_size", "asked")
    for kind in (Parallelism, Resources, Training):
        for field in dataclasses.fields(kind):
            if field.name in documented or field.name not in derived:
                assert documented[field.name] == field.default
    assert time_limit_seconds(documented["time_limit"]) == Resources().time_limit_seconds


def test_the_message_about_another_program_s_parameter_names_teralog_s():
    """If the user writes another program's name of a parameter, a message gives teralog's."""
    for other, here in _CALLED_ELSEWHERE.items():
        assert not is_parameter(other, FRAMEWORKS)
        assert here.partition(":")[0].partition(",")[0] in COMMON | {"deepspeed"} | set(MODEL_SIZES)
