"""Convert Megatron's arguments to descriptions of models, and back."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.model.config_json import ConfigError
from orchestrator.model.counting import active_parameters, parameters
from orchestrator.model.description import Attention, Experts, Mamba2, Mlp
from orchestrator.model.megatron import model_of_megatron, named_arguments
from orchestrator.model.megatron_arguments import list_text, megatron_arguments
from orchestrator.model.named import named_model, named_models

TINY = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --vocab-size 100"


def model_of(more: str = ""):
    """Return the model that the arguments TINY and these further Megatron arguments describe."""
    return model_of_megatron(named_arguments(f"{TINY} {more}".split()))


def words_of(groups: list[list[str]]) -> list[str]:
    """Join groups of options into one list of command-line words."""
    return [word for words in groups for word in words]


# Has layers or norms that Megatron core has no arguments for: norms after layers, norms as wide as
# all heads, an embedding norm, chunks, one norm per layer.
IMPOSSIBLE = {
    *("bloom-7b", "bloom-176b", "gpt-j-6b", "falcon-7b", "llama4-scout", "llama4-maverick"),
    *("olmo2-7b", "olmo2-13b", "olmo2-32b", "olmoe-7b", "minimax-m2"),
    *("gemma3-1b", "gemma3-4b", "gemma3-12b", "gemma3-27b"),
}


@pytest.mark.parametrize("name", named_models())
def test_arguments_build_the_model_that_they_are_from(name: str):
    """If a model is written as Megatron's arguments, these arguments give the same model again.

    If Megatron has no arguments for a part of the model, writing raises ConfigError.
    """
    model = named_model(name).model()
    if name in IMPOSSIBLE:
        with pytest.raises(ConfigError, match="Megatron core has no arguments for"):
            megatron_arguments(model)
        return
    options = named_arguments(words_of(megatron_arguments(model)))
    sizes = {"seq_length": str(model.seq_length), "padded_vocab_size": str(model.vocab_size)}
    assert model_of_megatron({**options, **sizes}) == model


def test_defaults_are_those_of_megatron():
    """Megatron's defaults give GPT-2's layers, with an MLP four times as wide as the hidden size.

    With `--swiglu`, the MLP has two thirds of this width.
    """
    model = model_of()
    assert model.tied_head
    assert model.position_rows == 128
    assert model.norm == "layernorm"
    attention = Attention(heads=4, key_value_heads=4, head_size=16, biases="all")
    assert {layer.mixer for layer in model.layers} == {attention}
    assert {layer.mlp for layer in model.layers} == {Mlp(width=256, biases=True)}
    gated = model_of("--swiglu --hidden-size 6144")
    assert gated.ffn_width == 16384


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ("--group-query-attention --num-query-groups 2", {"key_value_heads": 2}),
        ("--num-query-groups 2", {}),
        ("--kv-channels 32", {"head_size": 32}),
        ("--disable-bias-linear", {"biases": "none"}),
        ("--disable-bias-linear --add-qkv-bias", {"biases": "qkv"}),
        ("--qk-layernorm", {"query_key_norm": "head"}),
        ("--qk-layernorm --qk-l2-norm", {}),
        ("--attention-output-gate", {"output_gate": True}),
        ("--softmax-type learnable", {"sinks": True}),
        ("--window-size 31,0", {"window": 32}),
        ("--window-size (31,0)", {"window": 32}),
    ],
)
def test_an_argument_changes_attention(arguments: str, changed: dict[str, object]):
    """A Megatron argument changes the described attention as it changes Megatron's own layers."""
    usual = Attention(heads=4, key_value_heads=4, head_size=16, biases="all")
    assert model_of(arguments).layers[0].mixer == replace(usual, **changed)


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ("", 128),
        ("--max-position-embeddings 256", 256),
        ("--position-embedding-type rope", None),
        ("--position-embedding-type none", None),
        ("--use-rotary-position-embeddings", None),
        ("--no-position-embedding", None),
    ],
)
def test_only_learned_positions_have_a_table(arguments: str, rows: int | None):
    """A model has a table of positions exactly if Megatron's type of positions is learned."""
    assert model_of(arguments).position_rows == rows


@pytest.mark.parametrize(
    ("arguments", "sparse"),
    [
        ("", "1111"),
        ("--moe-layer-freq 2", "1010"),
        ("--moe-layer-freq ([0]*1+[1]*3)", "0111"),
        ("--moe-layer-freq [0,1,0,1]", "0101"),
        ("--moe-layer-freq ([0]+[1])*2", "0101"),
    ],
)
def test_pattern_of_experts(arguments: str, sparse: str):
    """`--moe-layer-freq n` gives experts to every n-th layer, from the first layer on.

    A list gives experts to the layers with a 1.
    """
    model = model_of(f"--num-experts 8 --moe-ffn-hidden-size 32 {arguments}")
    pattern = "".join(str(int(isinstance(layer.mlp, Experts))) for layer in model.layers)
    assert pattern == sparse


def test_windows_skip_every_nth_layer():
    """`--window-attn-skip-freq n` gives an attention window to all but every n-th layer."""
    model = model_of("--window-size 31,0 --window-attn-skip-freq 2")
    windows = [layer.mixer.window for layer in model.layers if isinstance(layer.mixer, Attention)]
    assert windows == [32, None, 32, None]


def test_deepseek_v3_with_its_prediction_layer():
    """A multi-token prediction layer adds the parameters of one layer, and 2h² + 3h more.

    It uses the embedding and the head of the model (h: hidden size). Without the prediction layer,
    DeepSeek-V3's arguments give 671 B parameters.
    """
    arguments = words_of(megatron_arguments(named_model("deepseek-v3").model()))
    sizes = ["--seq-length", "4096", "--padded-vocab-size", "129280", "--mtp-num-layers", "1"]
    model = model_of_megatron(named_arguments([*arguments, *sizes]))
    without = replace(model, prediction_heads=())
    assert parameters(without) == 671_026_404_352
    assert model.prediction_heads == (model.layers[-1],)
    layer = parameters(without) - parameters(replace(without, layers=without.layers[:-1]))
    assert parameters(model) - parameters(without) == layer + 2 * 7168 * 7168 + 3 * 7168
    assert active_parameters(model) > active_parameters(without)


def test_hybrid_pattern_has_one_block_per_letter():
    """In `--hybrid-layer-pattern`, each letter is a layer, and a bar separates pipeline stages."""
    model = model_of("--hybrid-layer-pattern M-|M* --mamba-num-heads 8 --num-layers 4")
    assert [type(layer.mixer or layer.mlp) for layer in model.layers] == [
        *(Mamba2, Mlp, Mamba2, Attention)
    ]
    assert {layer.norms for layer in model.layers} == {1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--num-layers two", "num_layers: must be a whole number of at least 1 (got 'two')"),
        ("--num-experts [8]", "num_experts: must be a whole number of at least 1 (got '[8]')"),
        ("--num-experts 8 --moe-layer-freq [0,1]", "moe_layer_freq: must be a number, or a list"),
        ("--num-experts 8 --moe-layer-freq f()", "moe_layer_freq: must be a number, or a list"),
        ("--window-size 31", "window_size: must be two numbers"),
        ("--multi-latent-attention", "multi_latent_attention: needs --disable-bias"),
        (
            "--hybrid-layer-pattern MX --num-layers 2",
            "hybrid_layer_pattern: 'X' is not a known layer",
        ),
        ("--hybrid-layer-pattern M- ", "has 2 layers, and num_layers is 4"),
        ("--is-hybrid-model", "hybrid_layer_pattern: is missing"),
        ("--experimental-attention-variant dsa", "'dsa' is not known"),
    ],
)
def test_a_mistake_is_a_sentence(arguments: str, message: str):
    """The message about a wrong argument has the argument's name and value."""
    with pytest.raises(ConfigError) as caught:
        model_of(arguments)
    assert message in str(caught.value)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=100))
def test_patterns_are_read_as_written(pattern: list[int]):
    """A list for `--moe-layer-freq`, of any length, gives experts to the layers with a 1."""
    more = f"--num-layers {len(pattern)} --num-experts 4 --moe-layer-freq {list_text(pattern)}"
    model = model_of(more)
    assert [int(isinstance(layer.mlp, Experts)) for layer in model.layers] == pattern


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=6))
def test_any_text_is_read_or_refused(values: dict[str, str]):
    """Any text as arguments gives a model or a message, never a traceback."""
    sizes = named_arguments(TINY.split())
    with contextlib.suppress(ConfigError):
        assert model_of_megatron({**sizes, **values})
