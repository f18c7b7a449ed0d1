"""The JSON schema of campaign files accepts valid files and refuses others."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from orchestrator.campaign.parameters import COMMON, option_names
from orchestrator.campaign.schema import campaign_schema
from orchestrator.campaign.starter import STARTER
from orchestrator.common.yaml_files import read_yaml
from orchestrator.frameworks.table import FRAMEWORKS

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    """Return a validator with the schema of campaign files, after a check of the schema itself."""
    schema = campaign_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def errors(validator: Draft202012Validator, data: object) -> list[str]:
    """Return the paths of the keys at which a campaign file breaks the schema."""
    return [error.json_path for error in validator.iter_errors(data)]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_fits(validator: Draft202012Validator, path: Path):
    """Every campaign file in examples/ fits the schema, so an editor shows no error in it."""
    assert errors(validator, read_yaml(path, "a campaign file")) == []


def test_the_starter_fits(validator: Draft202012Validator, tmp_path: Path):
    """The campaign file that `teralog init` writes fits the schema."""
    path = tmp_path / "starter.yaml"
    path.write_text(STARTER.format(file="starter.yaml", schema="teralog.schema.json"))
    assert errors(validator, read_yaml(path, "a campaign file")) == []


FITTING: dict[str, dict[str, Any]] = {
    "the least": {"name": "a"},
    "every key": {
        "name": "a",
        "cluster": "v100.yaml",
        "defaults": {"framework": "deepspeed", "script": "train.py", "time_limit": "1:00:00"},
        "matrix": {"model": ["xl", {"preset": "s", "seq_length": 8}], "zero_stage": [0, 3]},
        "include": [{"num_microbatches": 2, "offload_param": "nvme"}],
        "exclude": ["world_size > 64", {"strategy": ["ddp", "zero0"]}],
        "repeats": 3,
        "warmup": 5,
    },
    "numbers among arguments": {
        "name": "a",
        "defaults": {"script_args": ["--steps", 30, "--lr", 1e-5]},
        "matrix": {"extra_args": [["--flag"], ["--number", 2]]},
    },
    "a percentage": {"name": "a", "warmup": "10%"},
}


@pytest.mark.parametrize("data", FITTING.values(), ids=FITTING)
def test_a_valid_campaign_file_fits_the_schema(
    validator: Draft202012Validator, data: dict[str, Any]
):
    """A valid campaign file fits the schema, e.g. with a warm-up of "10%" or of 5 iterations."""
    assert errors(validator, data) == []


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({}, "$"),
    "an unknown key": ({"name": "a", "matrx": {}}, "$"),
    "an unknown parameter": ({"name": "a", "defaults": {"stratgy": "ddp"}}, "$.defaults"),
    "an unknown parameter to cross": ({"name": "a", "matrix": {"stratgy": [1]}}, "$.matrix"),
    "an unknown parameter of a run": ({"name": "a", "include": [{"stratgy": 1}]}, "$.include[0]"),
    "a number as text": ({"name": "a", "defaults": {"nodes": "2"}}, "$.defaults.nodes"),
    "a number too small": ({"name": "a", "defaults": {"nodes": 0}}, "$.defaults.nodes"),
    "no such strategy": (
        {"name": "a", "matrix": {"strategy": ["ddp", "zero9"]}},
        "$.matrix.strategy[1]",
    ),
    "no such framework": ({"name": "a", "defaults": {"framework": "x"}}, "$.defaults.framework"),
    "a matrix without values": ({"name": "a", "matrix": {"seed": []}}, "$.matrix.seed"),
    "a matrix of values, not lists": ({"name": "a", "matrix": {"seed": 1}}, "$.matrix.seed"),
    "an argument that is true": (
        {"name": "a", "defaults": {"extra_args": ["--flag", True]}},
        "$.defaults.extra_args[1]",
    ),
    "a rule that is a number": ({"name": "a", "exclude": [3]}, "$.exclude[0]"),
    "too many repeats": ({"name": "a", "repeats": 1001}, "$.repeats"),
}


@pytest.mark.parametrize(("data", "where"), MISFITS.values(), ids=MISFITS)
def test_an_invalid_value_is_marked_by_the_schema(
    validator: Draft202012Validator, data: dict[str, Any], where: str
):
    """The schema marks an invalid value at its key."""
    assert errors(validator, data) == [where]


def test_every_parameter_is_described(validator: Draft202012Validator):
    """An editor shows a description of every parameter of every framework."""
    parameters = validator.schema["properties"]["defaults"]["properties"]
    own = set[str]().union(*(option_names(name) for name in FRAMEWORKS))
    assert parameters.keys() == COMMON | own
    for name, schema in parameters.items():
        for kind in schema.get("anyOf", [schema]) if "description" not in schema else [schema]:
            assert kind["description"], name
