"""Compute TFLOPs, model size and MFU of a run, from its log and from options."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from orchestrator.hardware.gpus import Figure, matching, peak_tflops
from orchestrator.model.config_json import ConfigError
from orchestrator.model.convention_names import CONVENTIONS, Convention
from orchestrator.model.description import Model
from orchestrator.model.megatron import model_of_megatron
from orchestrator.run.described import described_shape
from orchestrator.run.flops import (
    FORMULA_CONVENTIONS,
    Iteration,
    flops_by,
    tflops_per_gpu,
    utilization,
)
from orchestrator.run.shape import ModelShape, padded_vocab_size
from parsers.fields import whole
from parsers.summary.launches import Configured
from parsers.summary.run import RunSummary

_SIZES = ("num_layers", "hidden_size", "vocab_size", "seq_length")
# If one of these differs, it is another model; other sizes are often changed for a benchmark.
_OF_ONE_MODEL = ("num_layers", "hidden_size")
_SHAPE_FIELDS = frozenset(field.name for field in fields(ModelShape))
# Layers that the shape of a model does not describe; a program that lacks them prints 0 or nothing.
_OTHER_LAYERS = (
    "num_experts",
    "multi_latent_attention",
    "is_hybrid_model",
    "hybrid_override_pattern",
    "hybrid_layer_pattern",
    "mtp_num_layers",
    "window_size",
    "experimental_attention_variant",
    "linear_attention_type",
    "decoder_seq_length",
)
# gpt-neox's, of which only the usual values are known; `pos_emb` is one of its arguments.
_NEOX_LAYERS = {"mlp_type": "regular", "activation": "gelu"}
# Megatron's and, until 2023, its options for each 8-bit format.
_LOW_PRECISIONS = {"fp4": ("fp4",), "fp8": ("fp8", "fp8_e4m3", "fp8_hybrid")}
_OFF = frozenset({"", "0", "[0]", "[1]", "1", "False", "false", "None", "none"})
# Megatron core prints TFLOPs with this option, and never counts recomputation. Up to 0.9, it
# counted all of attention.
_OF_MEGATRON_CORE = ("megatron-core", "model")
# Of these, some versions count other parts. With packed samples of different lengths, it counts
# less attention than by the length in the log.
_COUNTED_BY_VERSION = (
    *(name for name in _OTHER_LAYERS if name != "num_experts"),
    "moe_layer_freq",
    "moe_shared_expert_intermediate_size",
    "sft",
    "sequence_packing",
    "sequence_packing_scheduler",
    "dynamic_context_parallel",
    "hybrid_context_parallel",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Values from the user that are used if a log does not contain them; None if not given.

    model: the name of a model, or the path of its config.json. shape: the sizes of this model.
    sizes: single sizes that the user gave, by the names of ModelShape's fields.
    """

    global_batch_size: int | None = None
    world_size: int | None = None
    model: str | None = None
    shape: ModelShape | None = None
    sizes: Mapping[str, Any] = field(default_factory=dict)
    vocab_size_multiple: int | None = None
    recomputed: bool | None = None
    gpu: str | None = None
    precision: str | None = None
    peak_tflops: float | None = None

    @property
    def configured(self) -> Configured:
        """The values from which step times may be computed."""
        return Configured(
            global_batch_size=self.global_batch_size,
            seq_length=self.sizes.get("seq_length"),
            world_size=self.world_size,
        )


NOTHING_GIVEN = Given()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Numbers computed from a log and its configuration; None if an input is unknown.

    gpus: the number of ranks.
    parameters: the parameters of the whole model: counted from the sizes in the log, or else as
        the log states, or else counted from the model that the user gave.
    recomputed: whether the forward pass of the layers runs twice.
    tflops_per_gpu: the FLOPs of an iteration, divided by the median step time and by the number
        of ranks, in 10**12 per second. The FLOPs are those of the exact matrix products,
        including recomputed products. If the global batch changes during the run, the mean time
        for a global batch replaces the median step time. None if it is unknown whether layers
        are recomputed.
    model_tflops_per_gpu: computed in the same way, but without recomputed products.
    mfu: model_tflops_per_gpu divided by the GPU's dense peak.
    lacking: the options that the user must give to get TFLOPs.
    uncounted: the reason why TFLOPs cannot be computed with any option.
    no_peak: the reason why there is no MFU although there are TFLOPs.
    """

    gpus: int | None = None
    parameters: int | None = None
    global_batch_size: int | None = None
    recomputed: bool | None = None
    tflops_per_gpu: float | None = None
    model_tflops_per_gpu: float | None = None
    mfu: float | None = None
    lacking: tuple[str, ...] = ()
    uncounted: str | None = None
    no_peak: str | None = None

    def record(self) -> dict[str, Any]:
        """Return the figures as a JSON object, without `lacking`, `uncounted` and `no_peak`."""
        return {name: value for name, value in asdict(self).items() if name not in _REASONS}


_REASONS = frozenset({"lacking", "uncounted", "no_peak"})
FIGURE_NAMES = tuple(Figures().record())


def run_figures(summary: RunSummary, given: Given = NOTHING_GIVEN) -> Figures:
    """Return the figures of a run, e.g. its TFLOPs and MFU.

    given: values from the user; a value in the log takes precedence.
    """
    config = stated_config(summary)
    gpus = summary.world_size or given.world_size
    batch = summary.global_batch_size
    if summary.engine_samples_per_second is not None:
        # Several models work in an iteration, and one of them generates.
        return Figures(gpus=gpus, global_batch_size=batch)
    shape, lacking, uncounted = _shape(config, given)
    recomputed = stated_recomputation(config)
    if recomputed is None:
        recomputed = given.recomputed
    vocabulary = None if shape is None else _vocabulary(config, shape, given)
    counted = None if shape is None or vocabulary is None else shape.parameters(vocabulary)
    in_log = set(_OF_ONE_MODEL) <= stated_sizes(config).keys()
    parameters = (counted or summary.parameters) if in_log else (summary.parameters or counted)
    if gpus is None:
        lacking = (*lacking, "--world-size")
    if batch is None:
        lacking = (*lacking, "--global-batch-size")
    if shape is None or vocabulary is None or gpus is None or batch is None:
        return Figures(
            gpus=gpus,
            parameters=parameters,
            global_batch_size=batch,
            recomputed=recomputed,
            lacking=() if uncounted else lacking,
            uncounted=uncounted,
        )
    iteration = Iteration(
        model=shape,
        padded_vocab_size=vocabulary,
        global_batch_size=batch,
        recomputed=bool(recomputed),
    )
    seconds = summary.step_seconds.median or summary.step_seconds.mean
    if summary.batch_changes and summary.samples_per_second:
        seconds = batch / summary.samples_per_second
    model = tflops_per_gpu(flops_by(CONVENTIONS["model"], iteration), seconds, gpus)
    hardware = tflops_per_gpu(flops_by(CONVENTIONS["hardware"], iteration), seconds, gpus)
    peak = _peak(config, given)
    on_cpu = summary.device == "cpu"
    return Figures(
        gpus=gpus,
        parameters=parameters,
        global_batch_size=batch,
        recomputed=recomputed,
        tflops_per_gpu=None if recomputed is None else hardware,
        model_tflops_per_gpu=model,
        mfu=utilization(model, peak.value),
        lacking=() if recomputed is not None else ("--[no-]activation-checkpointing",),
        no_peak=peak.explanation
        if model is not None and peak.value is None and not on_cpu
        else None,
    )


def parameters_of_model(given: Given) -> int | None:
    """Return the number of parameters of the model that the user chose; None if none was chosen."""
    if given.shape is None:
        return None
    multiple = given.vocab_size_multiple or 1
    return given.shape.parameters(padded_vocab_size(given.shape.vocab_size, multiple))


def own_conventions(config: Mapping[str, str]) -> Sequence[Convention]:
    """Return the conventions of the program that printed a log; empty if these are not known.

    config: the configuration in the log.
    """
    # `_OFF` contains 1, but one layer of multi-token prediction is counted.
    differs = config.get("mtp_num_layers") == "1" or any(
        config.get(name, "") not in _OFF for name in _COUNTED_BY_VERSION
    )
    if config.get("log_throughput") != "True" or differs:
        return []
    return [CONVENTIONS[name] for name in _OF_MEGATRON_CORE]


def counted_flops(summary: RunSummary, given: Given = NOTHING_GIVEN) -> Mapping[str, float]:
    """Return the FLOPs of an iteration by each convention; the keys are the conventions' titles.

    Some conventions count the second forward pass of recomputed layers. If the layers are
    recomputed, the titles of these conventions contain this fact. If it is unknown whether layers
    are recomputed, the result contains the FLOPs with and without recomputation. The result is
    empty if the model or its global batch is unknown.
    """
    figures = run_figures(summary, given)
    config = stated_config(summary)
    shape, _, _ = _shape(config, given)
    if shape is None or figures.global_batch_size is None:
        return {}
    flops_by_title: dict[str, float] = {}
    for recomputed in (True, False) if figures.recomputed is None else (figures.recomputed,):
        iteration = Iteration(
            model=shape,
            padded_vocab_size=_vocabulary(config, shape, given),
            global_batch_size=figures.global_batch_size,
            recomputed=recomputed,
        )
        for convention in FORMULA_CONVENTIONS:
            if convention.name == "hardware" and not recomputed:
                continue  # the FLOPs of the convention `model`
            if convention.name == "bigscience" and shape.described and shape.described.experts:
                continue  # it counts experts that a token does not take, too
            if (flops := flops_by(convention, iteration)) is not None:
                title = convention.title
                if recomputed and convention.counts_recomputation and "recomputed" not in title:
                    title += ", with recomputation"
                flops_by_title[title] = float(flops)
    return flops_by_title


def with_tokens(summary: RunSummary, given: Given) -> RunSummary:
    """Return the summary of a run with tokens per second added, if they can be computed.

    Tokens per second are the samples per second in the log times the sequence length that the user
    gave. If the summary already has tokens per second, it is returned unchanged.
    """
    length = given.sizes.get("seq_length") or (
        None if given.shape is None else given.shape.seq_length
    )
    samples = summary.samples_per_second
    if summary.tokens_per_second is not None or samples is None or length is None:
        return summary
    return replace(summary, tokens_per_second=samples * length)


def stated_config(summary: RunSummary) -> Mapping[str, str]:
    """Return the configuration of the run, as its log states it.

    It includes the GPU's name and the precision, even if the log gives them outside of the
    configuration.
    """
    reported = {"precision": summary.precision}
    if summary.device != "cpu":
        reported["gpu"] = summary.device
    return {name: text for name, text in reported.items() if text is not None} | summary.config


def stated_sizes(config: Mapping[str, str]) -> dict[str, int]:
    """Return the sizes of the model that are in a log, by name, e.g. {"num_layers": 24}."""
    names = ("num_attention_heads", "ffn_hidden_size", *_SIZES)
    sizes = {name: whole(config.get(name)) for name in names}
    return {name: size for name, size in sizes.items() if size}


def contradicts_preset(config: Mapping[str, str], given: Given) -> bool:
    """Return whether a log contradicts the model that the user chose by name.

    It does if the log states another number of layers or another hidden size than the model has.
    """
    if given.shape is None:
        return False
    stated = stated_sizes(config)
    sizes = {name: getattr(given.shape, name) for name in _OF_ONE_MODEL}
    return any(stated.get(name, size) != size for name, size in sizes.items())


def _shape(
    config: Mapping[str, str], given: Given
) -> tuple[ModelShape | None, tuple[str, ...], str | None]:
    """Return three values: the model of a log, the options that are missing, and a reason.

    - If the log and the user describe the model completely: the model, no options, and None.
    - If options can complete the description: None, these options, and None.
    - If no option helps: None, no options, and the reason.
    """
    fits = given.shape is not None and not contradicts_preset(config, given)
    if fits and given.shape is not None and given.shape.described is not None:
        return _with_stated_length(given.shape.described, config, given), (), None
    if _needs_description(config):
        return _shape_of_arguments(config, given)
    for name, usual in _NEOX_LAYERS.items():
        if "pos_emb" in config and config.get(name, usual) != usual:
            return (
                None,
                (),
                (f"the log states {name} {config[name]}, for which teralog has no formula"),
            )
    values: dict[str, Any] = {}
    if fits and given.shape is not None:
        values = asdict(given.shape)
    values |= {**given.sizes, **stated_sizes(config), **_variants(config)}
    padded = whole(config.get("padded_vocab_size"))
    if padded and "vocab_size" not in values:
        values["vocab_size"] = padded
    missing = [name for name in _SIZES if name not in values]
    if missing:
        return None, tuple(f"--{name.replace('_', '-')}" for name in missing), None
    # If keys and values are not grouped, the number of heads does not change any count.
    values.setdefault("num_attention_heads", 1)
    heads, width = values["num_attention_heads"], values["hidden_size"]
    if width % heads:
        return None, (), f"hidden_size {width} is not divisible by the number of heads, {heads}"
    groups = values.get("num_key_value_heads")
    if groups and heads % groups:
        return None, (), f"{heads} heads are not divisible by {groups} heads of keys and values"
    shape = ModelShape(**{name: value for name, value in values.items() if name in _SHAPE_FIELDS})
    return shape, (), None


def _needs_description(config: Mapping[str, str]) -> bool:
    """Return whether the model in a log has a feature that its sizes alone cannot describe.

    Examples are experts, attention windows, and heads of an unusual width. Such a model needs a
    full description of its layers.
    """
    if any(config.get(name, "") not in _OFF for name in _OTHER_LAYERS):
        return True
    heads, width, size = (
        whole(config.get(name)) for name in ("num_attention_heads", "hidden_size", "kv_channels")
    )
    return bool(heads and width and size and heads * size != width)


def _shape_of_arguments(
    config: Mapping[str, str], given: Given
) -> tuple[ModelShape | None, tuple[str, ...], str | None]:
    """Return three values, as `_shape` does: the model in Megatron's arguments, (), and None.

    If these arguments cannot describe the model, returns None, (), and the reason. The second value
    is for missing options. It is always empty, because no option would help.
    """
    sizes = {name: str(given.sizes[name]) for name in _SIZES if name in given.sizes}
    # Megatron core prints it always; programs with other experts, which take one each, never.
    if config.get("num_experts", "") not in _OFF and "moe_router_topk" not in config:
        experts = config["num_experts"]
        return (
            None,
            (),
            f"the log states num_experts {experts}, but not the number of experts per token",
        )
    try:
        return described_shape(model_of_megatron({**sizes, **config})), (), None
    except ConfigError as error:
        return None, (), f"teralog cannot count the FLOPs of the log's model: {error}"


def _with_stated_length(model: Model, config: Mapping[str, str], given: Given) -> ModelShape:
    """Return the shape of a described model, with the sequence length that the log states.

    If the log states no length, the length that the user gave is used. If the user gave none,
    the model's own length is used.
    """
    length = whole(config.get("seq_length")) or given.sizes.get("seq_length") or model.seq_length
    return described_shape(replace(model, seq_length=length))


def _variants(config: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties in which a model differs from GPT-2, by ModelShape's field names.

    config: the arguments that Megatron or one of its forks printed.
    """
    differences: dict[str, Any] = {}
    if config.get("group_query_attention") == "True":
        differences["num_key_value_heads"] = whole(config.get("num_query_groups"))
    elif whole(config.get("num_key_value_heads")):  # Megatron-DeepSpeed
        differences["num_key_value_heads"] = whole(config["num_key_value_heads"])
    if config.get("swiglu") == "True" or "glu_activation" in config:
        differences["gated_mlp"] = True
    untied = ("untie_embeddings_and_output_weights", "no_weight_tying")
    if any(config.get(name) == "True" for name in untied):
        differences["untied_head"] = True
    if config.get("embed_layernorm") == "True":
        differences["embedding_norm"] = True
    positions = config.get("position_embedding_type", config.get("pos_emb", "")).lower()
    if any(word in positions for word in ("rope", "rotary", "alibi", "none")):
        differences["position_table"] = False
    if config.get("add_bias_linear") == "False":
        differences["biases"] = "qkv" if config.get("add_qkv_bias") == "True" else "none"
    if config.get("normalization", "").lower() == "rmsnorm":
        differences["norm"] = "rmsnorm"
    return differences


def _vocabulary(config: Mapping[str, str], shape: ModelShape, given: Given) -> int:
    """Return the padded vocabulary size: from the log, or else computed as Megatron does."""
    stated = whole(config.get("padded_vocab_size"))
    if stated:
        return stated
    multiple = whole(config.get("make_vocab_size_divisible_by")) or given.vocab_size_multiple or 1
    return padded_vocab_size(
        shape.vocab_size, multiple * (whole(config.get("tensor_parallel_size")) or 1)
    )


def stated_recomputation(config: Mapping[str, str]) -> bool | None:
    """Return whether a log states that layers are recomputed: their forward pass runs twice.

    Returns None if the log does not show it. If only parts of layers are recomputed, returns False.
    """
    granularity = config.get("recompute_granularity")
    if granularity is not None:
        # `selective` repeats parts of layers that cost little.
        return granularity == "full"
    for name in ("checkpoint_activations", "activation_checkpointing", "gradient_checkpointing"):
        if name in config:
            return config[name].lower() == "true"
    # Megatron prints no option that is not set.
    return False if "clip_grad" in config and "micro_batch_size" in config else None


def _peak(config: Mapping[str, str], given: Given) -> Figure:
    """Return the dense peak of the GPU in TFLOP/s, and the source of the number.

    If the peak is not known, the result contains None and the reason, e.g. which option to
    give.
    """
    if given.peak_tflops is not None:
        return Figure(given.peak_tflops, "given")
    gpu, precision = gpu_name(config, given), stated_precision(config) or given.precision
    if gpu is None or precision is None:
        lacking = [*([] if gpu else ["--gpu"]), *([] if precision else ["--precision"])]
        return Figure(None, f"to compute it, give {' '.join(lacking)}")
    return peak_tflops(gpu, precision, instead="--gpu-peak-tflops")


def gpu_name(config: Mapping[str, str], given: Given) -> str | None:
    """Return the name of the GPU: from the log, or from the user; None if neither contains it.

    If both contain a name, the user's name is returned if it is at least as precise, otherwise the
    log's name. The user's name is at least as precise if two conditions hold: teralog knows it,
    and the log's name can mean each GPU that the user's name can mean. For example, `A100-SXM4` is
    more precise than `A100`.
    """
    stated = config.get("gpu")
    if stated is None or given.gpu is None:
        return stated or given.gpu
    precise = {gpu.name for gpu in matching(given.gpu)}
    fits = precise and precise <= {gpu.name for gpu in matching(stated)}
    return given.gpu if fits else stated


def stated_precision(config: Mapping[str, str]) -> str | None:
    """Return the precision of the model's computation in a log; None if not stated."""
    # The matrices may have 8 or 4 bits, whatever the parameters have: another peak then applies.
    for precision, names in _LOW_PRECISIONS.items():
        if any(config.get(name, "") not in _OFF for name in names):
            return precision
    dtype = config.get("params_dtype", "")
    for precision, name in (("bf16", "torch.bfloat16"), ("fp16", "torch.float16")):
        if config.get(precision) == "True" or dtype == name:
            return precision
    return "fp32" if dtype == "torch.float32" else config.get("precision")
