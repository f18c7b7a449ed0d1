"""Models of a campaign: presets, named models, config.json files, sizes, and options of layers."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.campaign.campaign import Campaign, load_campaign
from orchestrator.common.errors import UserError
from orchestrator.model.counting import count_flops, parameters
from orchestrator.model.named import named_model
from orchestrator.run.flops import model_flops
from orchestrator.run.identity import run_id
from orchestrator.run.model import sizes
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.store.recorded_runs import recorded_run
from orchestrator.submit.scripts import job_script

SIZES = {
    "num_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "seq_length": 128,
}


def campaign_of(folder: Path, *runs: dict[str, Any], **defaults: Any) -> Campaign:
    """Return a Megatron campaign whose `include` has these runs.

    The campaign file is written as JSON, which is valid YAML.
    """
    usual = {"framework": "megatron", "source": "megatron", "precision": "bf16"}
    path = folder / "campaign.yaml"
    text = {"name": "models", "defaults": {**usual, **defaults}, "include": list(runs)}
    path.write_text(json.dumps(text))
    return load_campaign(path)


HYBRID = {
    "model_type": "nemotron_h",
    "layers_block_type": ["mamba", "moe", "attention", "mamba"],
    "hidden_size": 64,
    "vocab_size": 512,
    "max_position_embeddings": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 8,
    "ssm_state_size": 16,
    "n_groups": 2,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 96,
    "moe_shared_expert_intermediate_size": 128,
}
CHOICES: dict[str, dict[str, Any]] = {
    "a name": {"model": "llama3-8b"},
    "a name, and sizes": {"model": {"name": "mixtral-8x7b", "num_layers": 2}, "seq_length": 512},
    "a config": {"model": {"config": "config.json"}},
    "grouped heads": {**SIZES, "num_key_value_heads": 2},
    "a gated MLP": {"model": "s", "gated_mlp": True},
    "size of heads": {**SIZES, "head_dim": 32},
    "experts": {**SIZES, "num_experts": 8, "expert_ffn_hidden_size": 32},
    "LLaMA's layers": {
        **SIZES,
        "norm": "rmsnorm",
        "biases": "none",
        "gated_mlp": True,
        "untied_head": True,
        "position_table": False,
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the config.json of a model with latent attention and with experts."""
    (tmp_path / "config.json").write_text(json.dumps(named_model("deepseek-v2-lite").config))
    return tmp_path


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_a_run_with_a_model_is_made_again_from_its_record(choice: dict[str, Any], folder: Path):
    """From its record alone, a run is created again with the same identity and the same sizes.

    The config.json of its model need not exist any more.
    """
    campaign = campaign_of(folder, choice)
    (planned,) = campaign.runs
    store = CampaignStore(folder / "results")
    saved = store.save_run(planned, store.run_record(planned, campaign))
    (folder / "config.json").unlink()
    made = recorded_run(json.loads((saved.path / "run.json").read_text()))
    assert made is not None
    assert run_id(made) == planned.run_id
    assert sizes(made) == sizes(planned.run)


def test_a_named_model_is_counted_as_described(folder: Path):
    """A run of a named model has the parameters and FLOPs of the description of this model.

    The vocabulary in this description has the size after Megatron's padding.
    """
    choice = {"model": {"name": "mixtral-8x7b", "num_layers": 2}, "seq_length": 512}
    (planned,) = campaign_of(folder, choice, global_batch_size=4, gpus_per_node=1).runs
    named = named_model("mixtral-8x7b")
    model = named.model(512).with_vocabulary(32_000)
    model = type(model)(**{
        **{name: getattr(model, name) for name in model.__dataclass_fields__},
        "layers": model.layers[:2],
    })  # fmt: skip
    assert planned.run.padded_vocab_size == 32_000
    assert planned.run.parameters == parameters(model)
    assert model_flops(planned.run) == count_flops(model, sequences=4).model
    assert planned.memory is not None


def test_runs_are_excluded_by_variants(folder: Path):
    """`exclude` can name a variant of the model, e.g. `gated_mlp`, like any other parameter.

    The rule also applies to a model that is given by its name.
    """
    path = folder / "campaign.yaml"
    text = {
        "name": "models",
        "defaults": {"framework": "megatron", "source": "x"},
        "matrix": {
            "model": [SIZES],
            "num_key_value_heads": [1, 4],
            "gated_mlp": [False, True],
        },
        "include": [
            {"model": "mixtral-8x7b"},
            {"model": "llama3-8b"},
        ],
        "exclude": ["num_key_value_heads == 1 and gated_mlp", "num_experts == 8"],
    }
    path.write_text(json.dumps(text))
    assert len(load_campaign(path).runs) == 4


def test_equal_models_are_one_run(folder: Path):
    """Runs have the same identity if their models are equal, even if they name them differently.

    An option with its default value changes nothing.
    """
    config = named_model("llama3-8b").config
    (folder / "llama.json").write_text(json.dumps({**config, "torch_dtype": "bfloat16"}))
    length = {"seq_length": 4096}
    run_id, *others = (
        campaign_of(folder, {"model": model, **length}).runs[0].run_id
        for model in ("llama3-8b", {"name": "Llama 3 8B"}, {"config": "llama.json"})
    )
    assert {run_id} == {*others}
    usual = {"num_key_value_heads": 4, "head_dim": 16, "gated_mlp": False, "norm": "layernorm"}
    plain, same, other = (
        campaign_of(folder, {**SIZES, **more}).runs[0].run_id
        for more in ({}, usual, {"head_dim": 32})
    )
    assert plain == same != other


def test_megatron_is_started_with_the_arguments_that_build_the_model(folder: Path):
    """The script has every Megatron argument that builds the model, and each only once.

    The shell reads each value as one word.
    """
    campaign = campaign_of(folder, {"model": {"config": "config.json"}})
    script = job_script(campaign.runs[0], campaign, folder / "run")
    for line in (
        "--multi-latent-attention --disable-bias-linear",
        "--moe-layer-freq '([0]*1+[1]*26)'",
        "--moe-router-topk 6",
        "--kv-lora-rank 512",
        "--ffn-hidden-size 10944",
    ):
        assert f"\n  {line}\n" in script
    for option in ("--num-layers", "--hidden-size", "--seq-length", "--max-position-embeddings"):
        assert script.count(f"  {option} ") == 1


@pytest.mark.parametrize(
    ("version", "pattern"),
    [
        ("core-0.16", "--is-hybrid-model --hybrid-override-pattern"),
        ("core", "--hybrid-layer-pattern"),
    ],
)
def test_hybrid_models_have_the_pattern_of_their_layers(version: str, pattern: str, folder: Path):
    """A model with Mamba-2 layers is trained by Megatron's pretrain_mamba.py.

    An option gives this program the kind of every layer, e.g. Mamba-2 or attention. The name of the
    option depends on the release of Megatron.
    """
    (folder / "hybrid.json").write_text(json.dumps(HYBRID))
    campaign = campaign_of(folder, {"model": {"config": "hybrid.json"}}, version=version)
    (planned,) = campaign.runs
    script = job_script(planned, campaign, folder / "run")
    assert "/pretrain_mamba.py" in script
    for line in (
        f"{pattern} 'ME*M'",
        "--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec",
        "--position-embedding-type none",
        "--mamba-state-dim 16",
        "--num-layers 4",
        "--num-experts 4",
    ):
        assert f"\n  {line}\n" in script
    assert "--moe-layer-freq" not in script


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"version": "core-0.15"}, "core-0.15 has no layers of experts in hybrid models; use "),
        ({"transformer_impl": "local"}, "hybrid models need transformer_impl=transformer_engine"),
        ({"virtual_pipeline_parallel_size": 2}, "does not accept this option for hybrid models"),
    ],
)
def test_hybrid_models_need_what_their_program_needs(
    changed: dict[str, Any], problem: str, folder: Path
):
    """A hybrid model is impossible with settings that its program does not support.

    A hybrid model has Mamba-2 layers. The message names what the program needs.
    """
    (folder / "hybrid.json").write_text(json.dumps(HYBRID))
    (planned,) = campaign_of(folder, {"model": {"config": "hybrid.json"}}, **changed).runs
    assert any(problem in sentence for sentence in planned.problems)


def test_a_release_without_the_options_of_a_model_is_named(folder: Path):
    """A run gets a warning if its Megatron release lacks an option that the model needs."""
    (planned,) = campaign_of(folder, {"model": "gpt-oss-20b"}, version="core-0.14").runs
    assert any(
        "core 0.14" in sentence and "--softmax-type" in sentence for sentence in planned.warnings
    )
    (planned,) = campaign_of(folder, {"model": "gpt-oss-20b"}, version="core-0.19").runs
    assert not any("--softmax-type" in sentence for sentence in planned.warnings)


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (
            {"framework": "megatron", "source": "x", "model": "gemma3-1b"},
            "Megatron core has no arguments for parts of this model: the norms of layers",
        ),
        (
            {"framework": "megatron", "source": "x", "version": "2", "model": "llama3-8b"},
            "framework megatron builds only GPT-2 layers, but this model differs in layers",
        ),
        (
            {"framework": "gpt", **SIZES, "gated_mlp": True},
            "framework gpt builds only GPT-2 layers, but this model differs in gated_mlp",
        ),
    ],
)
def test_a_program_that_cannot_build_the_model_is_impossible(
    run: dict[str, Any], problem: str, folder: Path
):
    """A run is impossible if its program cannot build the model."""
    path = folder / "campaign.yaml"
    path.write_text(json.dumps({"name": "models", "include": [run]}))
    (planned,) = load_campaign(path).runs
    assert any(problem in sentence for sentence in planned.problems)


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ({"model": "llama3-9b"}, "there is no model preset 'llama3-9b'"),
        (
            {"model": {"name": "llama3-9b"}},
            "there is no model 'llama3-9b'; `teralog models` lists all models; did you mean",
        ),
        ({"model": {"config": "nowhere.json"}}, "nowhere.json: cannot be read"),
        ({"model": {"config": {"model_type": "new"}}}, "model_type: 'new' is not known"),
        ({"model": {"config": 7}}, "config: must be the path of a config.json, not 7"),
        (
            {"model": {"name": "llama3-8b", "hidden_size": 64}},
            "hidden_size: cannot be used with `name`, which sets the whole model",
        ),
        ({"model": {"name": "llama3-8b", "preset": "s"}}, "the model has preset and name"),
        ({**SIZES, "num_experts": 0}, "num_experts: "),
        (
            {**SIZES, "num_experts_per_token": 2},
            "num_experts_per_token: cannot be used without `num_experts`; set it, or remove",
        ),
        ({**SIZES, "num_experts": 1}, "num_experts_per_token=2 is more than num_experts=1"),
        ({**SIZES, "num_key_value_heads": 3}, "num_key_value_heads=3 must divide"),
        ({**SIZES, "gated_mlp": "yes"}, "gated_mlp"),
    ],
)
def test_a_mistake_in_a_model_is_a_sentence(choice: dict[str, Any], problem: str, folder: Path):
    """A message about a mistake in a model contains the file and the key of the mistake."""
    with pytest.raises(UserError) as caught:
        campaign_of(folder, choice)
    assert any(problem in sentence for sentence in caught.value.problems)
    assert all("campaign.yaml: " in sentence for sentence in caught.value.problems)
