"""Compare parameters and FLOPs with the real model classes of transformers, as torch counts them.

Attention is the "eager" kind, which multiplies each query with all keys (`keys="full"`), even if
the model has attention windows. The class runs each expert only on the tokens that the router sends
to it. So each token is counted for `top_k` experts, whichever the router chooses. The tests correct
these differences between torch's count and teralog's:

- A depthwise convolution's backward pass: torch's counter ignores its groups. So the tests leave
  out convolutions on both sides.
- Mamba-2 without kernels passes states between chunks with a product over all pairs of chunks.
  Kernels do this with a scan: `_pairs_of_chunks`.
- The gated delta rule without kernels solves triangular systems, which the counter does not see.
  So the tests replace them by products with an inverse. The first chunk reads a state of zeros,
  which needs no gradient, and the state after the last chunk is never read: `_ends_of_chunks`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.model.counting import Keys, count_flops, parameters
from orchestrator.model.description import GatedDeltaNet, Mamba2, Model
from orchestrator.model.huggingface import READERS, model_of_config

pytestmark = pytest.mark.train

SEQUENCES, LENGTH = 2, 24

# Names of sizes differ: those of all families, of which each class takes its own.
SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 144,
    "vocab_size": 320,
    "max_position_embeddings": 48,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
GPT = {
    "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 48, "vocab_size": 320,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
GROUPED = {"num_key_value_heads": 2}
HEAD = {"head_dim": 24}
EXPERTS = {
    "num_experts": 5, "num_local_experts": 5, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 40, "n_group": 2, "topk_group": 1,
}  # fmt: skip
LATENT = {
    **SMALL, **EXPERTS, "num_key_value_heads": 4, "q_lora_rank": 20, "kv_lora_rank": 28,
    "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10, "n_shared_experts": 1,
    "first_k_dense_replace": 1, "num_hidden_layers": 3, "head_dim": 8,
}  # fmt: skip
GEMMA = {**SMALL, **GROUPED, **HEAD, "num_hidden_layers": 7, "sliding_window": 8}
LLAMA4 = {
    **SMALL, **GROUPED, **HEAD, "num_hidden_layers": 4, "intermediate_size_mlp": 96,
    "num_local_experts": 4, "num_experts_per_tok": 2, "attention_chunk_size": 16,
}  # fmt: skip
NEXT = {
    **SMALL, **GROUPED, **HEAD, **EXPERTS, "num_hidden_layers": 4,
    "shared_expert_intermediate_size": 56, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 12, "linear_value_head_dim": 20,
}  # fmt: skip
MAMBA = {
    **SMALL, "expand": 2, "num_heads": 8, "head_dim": 16, "state_size": 12, "n_groups": 2,
    "chunk_size": 8, "conv_kernel": 4,
}  # fmt: skip
HYBRID = {
    **SMALL, **GROUPED, **HEAD, **EXPERTS, "mamba_num_heads": 6, "mamba_head_dim": 16,
    "ssm_state_size": 12, "n_groups": 2, "chunk_size": 8, "n_shared_experts": 1,
    "moe_shared_expert_intermediate_size": 72,
    "layers_block_type": ["linear_attention", "mlp", "full_attention", "moe", "linear_attention"],
}  # fmt: skip
del HYBRID["num_hidden_layers"]

MIXED = {
    **SMALL, **GROUPED, "num_hidden_layers": 3, "layer_types": ["mamba", "attention", "mamba"],
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 12, "mamba_n_groups": 2,
    "mamba_expand": 2, "mamba_chunk_size": 8,
}  # fmt: skip
ERNIE = {
    **SMALL, **GROUPED, "num_hidden_layers": 3, "moe_num_experts": 5, "moe_num_shared_experts": 2,
    "moe_k": 2, "moe_intermediate_size": 40, "moe_layer_start_index": 1, "moe_layer_end_index": 2,
}  # fmt: skip

# Type of the model, and its keys.
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "arcee": ("arcee", {**SMALL, **GROUPED}),
    "bamba": (
        "bamba",
        {name: value for name, value in MIXED.items() if name != "layer_types"}
        | {"attn_layer_indices": [1]},
    ),
    "bloom": ("bloom", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 320}),
    "cohere": ("cohere", {**SMALL, **GROUPED}),
    "cohere, normed queries": ("cohere", {**SMALL, **GROUPED, "use_qk_norm": True}),
    "cohere2": ("cohere2", {**SMALL, **GROUPED, "num_hidden_layers": 5, "sliding_window": 8}),
    "deepseek_v2": ("deepseek_v2", LATENT),
    "deepseek_v2 without query rank": ("deepseek_v2", {**LATENT, "q_lora_rank": None}),
    "deepseek_v3": ("deepseek_v3", LATENT),
    "deepseek_v3, two dense layers": ("deepseek_v3", {**LATENT, "first_k_dense_replace": 2}),
    "deepseek_v3 with biases": ("deepseek_v3", {**LATENT, "attention_bias": True}),
    "dots1": ("dots1", {**LATENT, "head_dim": 16}),
    "ernie4_5": ("ernie4_5", {**SMALL, **GROUPED, **HEAD}),
    "ernie4_5 with biases": ("ernie4_5", {**SMALL, **GROUPED, **HEAD, "use_bias": True}),
    "ernie4_5_moe": ("ernie4_5_moe", ERNIE),
    "ernie4_5_moe, every second layer": (
        "ernie4_5_moe",
        {**ERNIE, "num_hidden_layers": 5, "moe_layer_interval": 2, "moe_layer_end_index": 3},
    ),
    "exaone4": ("exaone4", {**SMALL, **GROUPED, "sliding_window": 8, "num_hidden_layers": 5}),
    "falcon 7b": ("falcon", {**SMALL, "ffn_hidden_size": None}),
    "falcon 40b": ("falcon", {**SMALL, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon rw": (
        "falcon",
        {**SMALL, "multi_query": False, "parallel_attn": False, "bias": True, "alibi": True},
    ),
    "gemma": ("gemma", {**SMALL, **GROUPED, **HEAD}),
    "gemma2": ("gemma2", GEMMA),
    "gemma3_text": ("gemma3_text", GEMMA),
    "glm": ("glm", {**SMALL, **GROUPED, **HEAD, "attention_bias": True}),
    "glm4": ("glm4", {**SMALL, **GROUPED, **HEAD}),
    "glm4_moe_lite": ("glm4_moe_lite", LATENT),
    "glm4_moe": ("glm4_moe", {**LATENT, **GROUPED, "head_dim": 16, "use_qk_norm": True}),
    "gpt2": ("gpt2", GPT),
    "gpt2, custom MLP": ("gpt2", {**GPT, "n_inner": 200}),
    "gpt2, untied": ("gpt2", {**GPT, "tie_word_embeddings": False}),
    "gpt_bigcode": ("gpt_bigcode", GPT),
    "gpt_bigcode, all heads": ("gpt_bigcode", {**GPT, "multi_query": False}),
    "gpt_neox": ("gpt_neox", SMALL),
    "gpt_oss": ("gpt_oss", {**SMALL, **GROUPED, **HEAD, **EXPERTS, "sliding_window": 8}),
    "gptj": ("gptj", {**GPT, "rotary_dim": 8, "tie_word_embeddings": False}),
    "granite": ("granite", {**SMALL, **GROUPED}),
    "granitemoe": ("granitemoe", {**SMALL, **GROUPED, **EXPERTS}),
    "granitemoehybrid": ("granitemoehybrid", {**MIXED, **EXPERTS, "shared_intermediate_size": 88}),
    "granitemoehybrid without experts": (
        "granitemoehybrid",
        {**MIXED, "num_local_experts": 0, "shared_intermediate_size": 88},
    ),
    "granitemoeshared": (
        "granitemoeshared",
        {**SMALL, **GROUPED, **EXPERTS, "shared_intermediate_size": 88},
    ),
    "helium": ("helium", {**SMALL, **GROUPED, "head_dim": 16}),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", {**SMALL, **GROUPED, **HEAD}),
    "hunyuan_v1_moe": (
        "hunyuan_v1_moe",
        {**SMALL, **GROUPED, **HEAD, "num_experts": 5, "moe_topk": 2},
    ),
    "llama": ("llama", {**SMALL, "tie_word_embeddings": False}),
    "llama, grouped heads": ("llama", {**SMALL, **GROUPED}),
    "llama, own head size": ("llama", {**SMALL, **GROUPED, **HEAD}),
    "llama, tied": ("llama", {**SMALL, "tie_word_embeddings": True}),
    "llama with biases": ("llama", {**SMALL, "attention_bias": True, "mlp_bias": True}),
    "llama4_text": ("llama4_text", LLAMA4),
    "mamba2": ("mamba2", MAMBA),
    "mamba2 with biases": ("mamba2", {**MAMBA, "use_bias": True, "chunk_size": 5}),
    "minimax_m2": ("minimax_m2", {**SMALL, **GROUPED, **HEAD, **EXPERTS}),
    "ministral": ("ministral", {**SMALL, **GROUPED, **HEAD, "sliding_window": 8}),
    "ministral3": ("ministral3", {**SMALL, **GROUPED, **HEAD}),
    "mistral": ("mistral", {**SMALL, **GROUPED, "sliding_window": 8}),
    "mixtral": ("mixtral", {**SMALL, **GROUPED, **EXPERTS, "sliding_window": None}),
    "mixtral, every expert": (
        "mixtral",
        {**SMALL, **GROUPED, **EXPERTS, "num_experts_per_tok": 5},
    ),
    "mpt": ("mpt", {"d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 320}),
    "nemotron": ("nemotron", {**SMALL, **GROUPED, "head_dim": 16}),
    "nemotron_h": ("nemotron_h", HYBRID),
    "nemotron_h, latent experts": ("nemotron_h", {**HYBRID, "moe_latent_size": 32}),
    "olmo": ("olmo", {**SMALL, **GROUPED}),
    "olmo2": ("olmo2", {**SMALL, **GROUPED}),
    "olmo3": ("olmo3", {**SMALL, **GROUPED, "num_hidden_layers": 5, "sliding_window": 8}),
    "olmoe": ("olmoe", {**SMALL, **EXPERTS}),
    "opt": ("opt", {**SMALL, "ffn_dim": 256, "word_embed_proj_dim": 64}),
    "opt 350m": (
        "opt",
        {**SMALL, "ffn_dim": 256, "word_embed_proj_dim": 32, "do_layer_norm_before": False},
    ),
    "phi": ("phi", SMALL),
    "phi3": ("phi3", {**SMALL, **GROUPED, "sliding_window": 8}),
    "phimoe": (
        "phimoe",
        {**SMALL, **GROUPED, **EXPERTS, "attention_bias": True, "lm_head_bias": True,
         "sliding_window": 8},
    ),
    "qwen2": ("qwen2", {**SMALL, **GROUPED}),
    "qwen2 with windows": (
        "qwen2",
        {**SMALL, **GROUPED, "use_sliding_window": True, "sliding_window": 8,
         "max_window_layers": 1},
    ),
    "qwen2_moe": (
        "qwen2_moe",
        {**SMALL, **GROUPED, **EXPERTS, "shared_expert_intermediate_size": 56},
    ),
    "qwen2_moe, sparse": (
        "qwen2_moe",
        {**SMALL, **GROUPED, **EXPERTS, "shared_expert_intermediate_size": 56,
         "decoder_sparse_step": 2, "num_hidden_layers": 5, "mlp_only_layers": [3]},
    ),
    "qwen3": ("qwen3", {**SMALL, **GROUPED, **HEAD}),
    "qwen3_moe": ("qwen3_moe", {**SMALL, **GROUPED, **HEAD, **EXPERTS}),
    "qwen3_next": ("qwen3_next", NEXT),
    "seed_oss": ("seed_oss", {**SMALL, **GROUPED, **HEAD}),
    "smollm3": ("smollm3", {**SMALL, **GROUPED}),
    "stablelm": ("stablelm", {**SMALL, **GROUPED, "use_qkv_bias": True}),
    "starcoder2": ("starcoder2", {**SMALL, **GROUPED, "sliding_window": 8}),
}  # fmt: skip

# transformers' Llama 4 sends every token to every expert, weighed by 0.
DENSE_EXPERTS = {"llama4_text"}
# Its class has no gradient checkpointing.
CHECKPOINTED = [name for name, (kind, _) in CONFIGS.items() if kind not in {"gptj", "mpt"}]


@pytest.fixture(scope="module")
def transformers() -> Any:
    """Return the library transformers, from the extra `hf`."""
    pytest.importorskip("torch")
    library = pytest.importorskip("transformers")
    library.logging.set_verbosity_error()
    return library


@pytest.fixture(autouse=True)
def triangular_systems_as_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch solve a triangular system with a product, which its FLOP counter sees."""
    torch = pytest.importorskip("torch")
    solve = torch.linalg.solve_triangular

    class Product(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, system: Any, right: Any) -> Any:
            eye = torch.eye(system.shape[-1]).expand_as(system)
            inverse = solve(system, eye, upper=False, unitriangular=True)
            solution = inverse @ right
            ctx.save_for_backward(inverse, solution)
            return solution

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            inverse, solution = ctx.saved_tensors
            of_right = inverse.mT @ gradients[0]
            return -(of_right @ solution.mT), of_right

    def product(system: Any, right: Any, **_: bool) -> Any:
        return Product.apply(system, right)

    monkeypatch.setattr(torch.linalg, "solve_triangular", product)


def test_every_family_is_compared_with_its_real_class():
    """This module tests every family of models that teralog reads."""
    assert {kind for kind, _ in CONFIGS.values()} == READERS.keys()


def build(transformers: Any, name: str, attention: str = "eager") -> tuple[Any, Model]:
    """Return the real model, and the description that teralog reads from the model's configuration.

    name: a key of CONFIGS. attention: the kind of attention in transformers, e.g. "eager".
    """
    kind, keys = CONFIGS[name]
    if kind not in transformers.CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {kind}")
    config = transformers.AutoConfig.for_model(kind, **keys)
    config._attn_implementation = attention
    config._experts_implementation = "eager"
    model = model_of_config({**config.to_diff_dict(), "model_type": kind}, seq_length=LENGTH)
    return transformers.AutoModelForCausalLM.from_config(config), model


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_of_the_real_class(transformers: Any, name: str):
    """The real model and its description have the same number of parameters.

    The real model is built on the meta device, which stores no numbers.
    """
    import torch

    with torch.device("meta"):
        real, model = build(transformers, name)
    assert parameters(model) == sum(tensor.numel() for tensor in real.parameters())


def counted(transformers: Any, name: str, *, recomputed: bool, attention: str) -> tuple[int, Model]:
    """Return the FLOPs of an iteration's products, and the model's description.

    torch counts the FLOPs while the real model runs. They are then corrected as this module's
    docstring describes. recomputed: whether the real model recomputes its activations.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    real, model = build(transformers, name, attention)
    real.train()
    if recomputed:
        # The other kind leaves out the last product of each block.
        real.gradient_checkpointing_enable({"use_reentrant": True})
    tokens = torch.randint(0, 320, (SEQUENCES, LENGTH))
    with FlopCounterMode(display=False) as counter:
        real(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    by_operation = counter.get_flop_counts()["Global"]
    products = sum(
        count for operation, count in by_operation.items() if "convolution" not in str(operation)
    )
    return products - _pairs_of_chunks(model, recomputed) + _ends_of_chunks(model), model


def _pairs_of_chunks(model: Model, recomputed: bool) -> int:
    """Return the FLOPs with which Mamba-2 without kernels passes states between chunks."""

    def of(mixer: Mamba2) -> int:
        states = -(-LENGTH // mixer.chunk) + 1
        return 2 * states**2 * mixer.heads * mixer.head_size * mixer.state_size

    mixers = (layer.mixer for layer in model.layers)
    once = sum(of(mixer) for mixer in mixers if isinstance(mixer, Mamba2))
    return SEQUENCES * once * (4 if recomputed else 3)


def _ends_of_chunks(model: Model) -> int:
    """Return the FLOPs of gradients that the first and the last chunk of a sequence do not need.

    This is about the gated delta rule, which divides a sequence into chunks. In the first chunk,
    keys and queries read a state of zeros, which needs no gradients. In the last chunk, a product
    makes the next state. That state is never read, so the product's two factors need no gradients.
    """

    def of(mixer: GatedDeltaNet) -> int:
        return 4 * 2 * mixer.chunk * mixer.value_heads * mixer.key_size * mixer.value_size

    mixers = (layer.mixer for layer in model.layers)
    return SEQUENCES * sum(of(mixer) for mixer in mixers if isinstance(mixer, GatedDeltaNet))


def ours(model: Model, *, recomputed: bool = False, keys: Keys = "full") -> int:
    """Return teralog's FLOPs of an iteration of the described model, without convolutions."""
    flops = count_flops(model, sequences=SEQUENCES, recomputed=recomputed, keys=keys)
    return sum(
        term.forward + term.backward + term.recomputed
        for term in flops.terms
        if term.part.name != "convolution"
    )


def as_computed(kind: str, model: Model) -> Model:
    """Return the description, with as many experts per token as transformers' class computes.

    The class of Llama 4 sends every token to every expert.
    """
    if kind not in DENSE_EXPERTS:
        return model
    return replace(model, layers=tuple(_all_experts(model)))


def _all_experts(model: Model) -> Iterator[Any]:
    for layer in model.layers:
        number = getattr(layer.mlp, "number", None)
        yield layer if number is None else replace(layer, mlp=replace(layer.mlp, top_k=number))


@pytest.mark.parametrize("name", CONFIGS)
def test_flops_are_those_that_torch_counts(transformers: Any, name: str):
    """Teralog counts exactly the FLOPs that torch counts, forward and backward together."""
    products, model = counted(transformers, name, recomputed=False, attention="eager")
    assert ours(as_computed(CONFIGS[name][0], model)) == products


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_flops_with_recomputation_are_those_that_torch_counts(transformers: Any, name: str):
    """With recomputation, teralog counts exactly the FLOPs that torch counts.

    Then the forward pass of each layer runs twice, but that of the output head only once.
    """
    products, model = counted(transformers, name, recomputed=True, attention="eager")
    assert ours(as_computed(CONFIGS[name][0], model), recomputed=True) == products
