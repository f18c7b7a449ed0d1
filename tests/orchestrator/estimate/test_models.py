"""`teralog models` lists named models, and counts a model by name or config.json."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli.main import main

LLAMA3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}


@pytest.mark.parametrize("given", ["config.json", "."])
def test_a_config_is_counted_as_the_named_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
):
    """A model's config.json gives the same output as the name of the model.

    The user can give the path of the file or of its folder.
    """
    (tmp_path / "config.json").write_text(json.dumps(LLAMA3_8B))
    monkeypatch.chdir(tmp_path)
    of_file = CliRunner().invoke(main, ["models", given])
    of_name = CliRunner().invoke(main, ["models", "llama3-8b"])
    assert of_file.exit_code == of_name.exit_code == 0
    assert of_file.stdout == of_name.stdout
    assert "8,030,261,248 parameters" in of_file.stdout


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "must contain a JSON object"),
        ("{}", "model_type: is missing"),
        ('{"model_type": "lama"}', "model_type: 'lama' is not known; teralog knows arcee, "),
        ('{"model_type": "t5"}', "model_type: 't5' has an encoder; only decoder-only language"),
        ('{"model_type": "new", "is_encoder_decoder": true}', "'new' has an encoder"),
        ('{"model_type": "llama", "hidden_size": "big"}', "hidden_size: must be a whole number"),
        ('{"model_type": "mixtral", "num_local_experts": -1}', "must be a whole number"),
    ],
)
def test_a_config_that_cannot_be_counted_is_refused(tmp_path: Path, config: str, message: str):
    """The message about a config.json names the key and what is wrong with it."""
    file = tmp_path / "config.json"
    file.write_text(config)
    result = CliRunner().invoke(main, ["models", str(file)])
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_missing_file_is_refused(tmp_path: Path):
    """A path of a missing file is refused, and is not taken for a model's name."""
    result = CliRunner().invoke(main, ["models", str(tmp_path / "none.json")])
    assert result.exit_code == 1
    assert "cannot be read" in result.stderr
