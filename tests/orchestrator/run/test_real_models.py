"""Compare parameters and FLOPs with real models: those of transformers, and that of `gpt`."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.model.convention_names import CONVENTIONS
from orchestrator.run.flops import Iteration, flops_by
from orchestrator.run.shape import ModelShape

pytestmark = pytest.mark.train

GPT2 = ModelShape(12, 768, 12, 50257, 1024)
LLAMA = ModelShape(
    32,
    4096,
    32,
    32000,
    2048,
    ffn_hidden_size=11008,
    gated_mlp=True,
    untied_head=True,
    position_table=False,
    biases="none",
    norm="rmsnorm",
)
QWEN2 = replace(LLAMA, biases="qkv")
NEOX = ModelShape(36, 5120, 40, 50688, 2048, untied_head=True, position_table=False)
BLOOM = ModelShape(70, 14336, 112, 250880, 2048, position_table=False, embedding_norm=True)
STARCODER = ModelShape(40, 6144, 48, 49152, 8192, num_key_value_heads=1)

# Model class of transformers, our shape, and the published number of parameters.
PUBLISHED: dict[str, tuple[str, ModelShape, int]] = {
    "GPT-2": ("GPT2LMHeadModel", GPT2, 124_439_808),
    "GPT-2 XL": ("GPT2LMHeadModel", ModelShape(48, 1600, 25, 50257, 1024), 1_557_611_200),
    "LLaMA 7B": ("LlamaForCausalLM", LLAMA, 6_738_415_616),
    "Llama 2 70B": (
        "LlamaForCausalLM",
        replace(
            LLAMA,
            num_layers=80,
            hidden_size=8192,
            num_attention_heads=64,
            ffn_hidden_size=28672,
            num_key_value_heads=8,
        ),
        68_976_648_192,
    ),
    "Llama 3 8B": (
        "LlamaForCausalLM",
        replace(LLAMA, ffn_hidden_size=14336, num_key_value_heads=8, vocab_size=128256),
        8_030_261_248,
    ),
    "Qwen2 7B": (
        "Qwen2ForCausalLM",
        replace(
            QWEN2,
            num_layers=28,
            hidden_size=3584,
            num_attention_heads=28,
            ffn_hidden_size=18944,
            num_key_value_heads=4,
            vocab_size=152064,
        ),
        7_615_616_512,
    ),
    "Pythia 12B": ("GPTNeoXForCausalLM", NEOX, 11_846_072_320),
    "BLOOM": ("BloomForCausalLM", BLOOM, 176_247_271_424),
    "StarCoderBase": ("GPTBigCodeForCausalLM", STARCODER, 15_517_456_384),
}

# Small models of every kind; `changed` overrides SMALL.
SMALL = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 320,
    "seq_length": 24,
}
VARIANTS: dict[str, tuple[str, ModelShape, dict[str, Any]]] = {
    "GPT-2": ("GPT2LMHeadModel", GPT2, {}),
    "padded vocabulary": ("GPT2LMHeadModel", GPT2, {"vocab_size": 384}),
    "custom MLP": ("GPT2LMHeadModel", GPT2, {"ffn_hidden_size": 200}),
    "untied head": ("GPT2LMHeadModel", replace(GPT2, untied_head=True), {}),
    "rotary positions": ("GPTNeoXForCausalLM", NEOX, {"ffn_hidden_size": 256}),
    "norm of the embedding": ("BloomForCausalLM", BLOOM, {}),
    "one key for all heads": ("GPTBigCodeForCausalLM", STARCODER, {}),
    "gated MLP": ("LlamaForCausalLM", LLAMA, {"ffn_hidden_size": 144}),
    "gated MLP with biases": (
        "LlamaForCausalLM",
        replace(LLAMA, biases="all"),
        {"ffn_hidden_size": 144},
    ),
    "gated MLP, tied head": (
        "LlamaForCausalLM",
        replace(LLAMA, untied_head=False),
        {"ffn_hidden_size": 144},
    ),
    "grouped heads": (
        "LlamaForCausalLM",
        LLAMA,
        {"ffn_hidden_size": 144, "num_key_value_heads": 2},
    ),
    "biases of query, key and value": (
        "Qwen2ForCausalLM",
        QWEN2,
        {"ffn_hidden_size": 144, "num_key_value_heads": 2},
    ),
}


@pytest.fixture(scope="module")
def transformers() -> Any:
    """Return the library transformers, from the extra `hf`."""
    pytest.importorskip("torch")
    return pytest.importorskip("transformers")


def config_of(name: str, shape: ModelShape) -> dict[str, Any]:
    """Return the keys and values of a real model's configuration, for a model of this shape.

    name: the name of the model's class in transformers.
    """
    general = {"vocab_size": shape.vocab_size, "tie_word_embeddings": not shape.untied_head}
    if name in {"GPT2LMHeadModel", "GPTBigCodeForCausalLM"}:
        return general | {
            "n_layer": shape.num_layers,
            "n_embd": shape.hidden_size,
            "n_head": shape.num_attention_heads,
            "n_positions": shape.seq_length,
            "n_inner": shape.ffn_hidden_size,
            "bos_token_id": 0,
            "eos_token_id": 0,
        }
    if name == "BloomForCausalLM":
        return general | {
            "n_layer": shape.num_layers,
            "hidden_size": shape.hidden_size,
            "n_head": shape.num_attention_heads,
        }
    biases = {"attention_bias": True, "mlp_bias": True} if name.startswith("Llama") else {}
    return general | {
        "num_hidden_layers": shape.num_layers,
        "hidden_size": shape.hidden_size,
        "num_attention_heads": shape.num_attention_heads,
        "num_key_value_heads": shape.num_key_value_heads,
        "intermediate_size": shape.ffn_width,
        "max_position_embeddings": shape.seq_length,
        **(biases if shape.biases == "all" else {}),
    }


def build(transformers: Any, name: str, shape: ModelShape) -> Any:
    """Return the real model of this shape; its attention uses plain matrix products.

    name: the name of the model's class in transformers.
    """
    kind = getattr(transformers, name)
    return kind(kind.config_class(**config_of(name, shape), attn_implementation="eager"))


def count(model: Any) -> int:
    """Return the number of parameters of the real model; shared parameters count once."""
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "shape", "published"), PUBLISHED.values(), ids=PUBLISHED)
def test_published_models_have_the_parameters_they_are_published_with(
    name: str, shape: ModelShape, published: int
):
    """The number of parameters of a published model equals the published one exactly."""
    assert shape.parameters(shape.vocab_size) == published


@pytest.mark.parametrize(("name", "shape", "published"), PUBLISHED.values(), ids=PUBLISHED)
def test_published_models_are_so_in_transformers(
    transformers: Any, name: str, shape: ModelShape, published: int
):
    """The real class in transformers has the published number of parameters.

    It is built at full size on the meta device, which stores no values.
    """
    import torch

    with torch.device("meta"):
        assert count(build(transformers, name, shape)) == published


@pytest.mark.parametrize(("name", "shape", "changed"), VARIANTS.values(), ids=VARIANTS)
def test_every_variant_has_the_parameters_of_the_real_model(
    transformers: Any, name: str, shape: ModelShape, changed: dict[str, int]
):
    """The formula gives the parameters of the real model, for each way in which families differ.

    E.g. a gated MLP, rotary positions or an untied head.
    """
    import torch

    small = small_of(shape, changed)
    with torch.device("meta"):
        assert count(build(transformers, name, small)) == small.parameters(small.vocab_size)


def test_opt_has_two_positions_more(transformers: Any):
    """OPT's table of positions has two more rows than the formula counts; nothing else differs."""
    import torch

    small = ModelShape(**SMALL)
    config = transformers.OPTConfig(
        **config_of("OPTForCausalLM", small), ffn_dim=256, word_embed_proj_dim=64
    )
    with torch.device("meta"):
        real = count(transformers.OPTForCausalLM(config))
    assert real == small.parameters(small.vocab_size) + 2 * small.hidden_size


@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize(("name", "shape", "changed"), VARIANTS.values(), ids=VARIANTS)
def test_every_variant_costs_the_flops_that_torch_counts(
    transformers: Any, name: str, shape: ModelShape, changed: dict[str, int], recomputed: bool
):
    """For each way in which model families differ, teralog counts exactly torch's FLOPs.

    This holds with and without recomputation.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    small = small_of(shape, changed)
    model = build(transformers, name, small).train()
    if recomputed:
        # The other kind of checkpointing leaves out the last product of each block.
        model.gradient_checkpointing_enable({"use_reentrant": True})
    tokens = torch.zeros(2, small.seq_length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    iteration = Iteration(
        model=small,
        padded_vocab_size=small.vocab_size,
        global_batch_size=2,
        recomputed=recomputed,
    )
    assert flops_by(CONVENTIONS["hardware"], iteration) == counter.get_total_flops()
    assert recomputed or flops_by(CONVENTIONS["model"], iteration) == counter.get_total_flops()


def small_of(shape: ModelShape, changed: dict[str, Any]) -> ModelShape:
    """Return a shape of the same family with the small sizes in SMALL.

    changed: fields of the shape that get other values.
    """
    own_groups = shape.num_key_value_heads == 1
    sizes = {"ffn_hidden_size": None, "num_key_value_heads": 1 if own_groups else None}
    return replace(shape, **{**SMALL, **sizes, **changed})


# Layers, hidden size, heads, width of the MLP, vocabulary, sequence length, sequences.
SHAPES = [
    (2, 64, 4, 256, 512, 64, 4),
    (2, 256, 8, 1024, 1024, 256, 2),
    (1, 32, 1, 128, 96, 8, 1),
    (3, 96, 3, 100, 511, 33, 5),
    (4, 768, 12, 3072, 50257, 1024, 2),
    (1, 1600, 25, 6400, 50304, 1024, 1),
    (1, 8192, 32, 32768, 50688, 1024, 4),
    (2, 5120, 40, 20480, 50257, 8192, 1),
]


@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_the_model_we_train_costs_the_flops_that_torch_counts(
    sizes: tuple[int, ...], recomputed: bool
):
    """For the model that the framework gpt trains, teralog counts exactly torch's FLOPs.

    This holds with and without recomputation. Narayanan's equation gives the same FLOPs if
    the MLP's width is four times the hidden size, and otherwise None.
    """
    torch = pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    layers, hidden, heads, ffn, vocab, seq, sequences = sizes
    with torch.device("meta"):
        model = workload(layers, hidden, heads, ffn, vocab, seq, recomputed)
        tokens = torch.zeros(sequences, seq + 1, dtype=torch.long)
        # The counter sees no products in the other kernels on a CPU.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            model(tokens).backward()
    shape = ModelShape(layers, hidden, heads, vocab, seq, ffn_hidden_size=ffn)
    iteration = Iteration(
        model=shape, padded_vocab_size=vocab, global_batch_size=sequences, recomputed=recomputed
    )
    counted = counter.get_total_flops()
    assert count(model) == shape.parameters(vocab)
    assert flops_by(CONVENTIONS["hardware"], iteration) == counted
    assert flops_by(CONVENTIONS["narayanan"], iteration) == (counted if ffn == 4 * hidden else None)


def workload(
    layers: int, hidden: int, heads: int, ffn: int, vocab: int, seq: int, recomputed: bool
) -> Any:
    """Return the model that the framework gpt trains, with these sizes."""
    from orchestrator.workloads.gpt_model import GPT
    from orchestrator.workloads.settings import Settings

    settings = Settings(
        strategy="ddp",
        num_layers=layers,
        hidden_size=hidden,
        ffn_hidden_size=ffn,
        num_attention_heads=heads,
        vocab_size=vocab,
        seq_length=seq,
        micro_batch_size=1,
        num_microbatches=1,
        train_iters=1,
        precision="fp32",
        activation_checkpointing=recomputed,
        deepspeed_config=None,
        learning_rate=1e-4,
        seed=1,
        device="cpu",
    )
    return GPT(settings)
