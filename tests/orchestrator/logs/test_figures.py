"""The TFLOPs, parameters and MFU that `teralog parse` computes for the runs in logs."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.model.counting import count_flops
from orchestrator.model.named import named_model
from orchestrator.run.flops import narayanan_flops

PUBLISHED = Path(__file__).parents[4] / "shared" / "logs"

ARGUMENTS = {
    "world_size": "16",
    "num_layers": "40",
    "hidden_size": "6144",
    "num_attention_heads": "32",
    "ffn_hidden_size": "24576",
    "seq_length": "1024",
    "padded_vocab_size": "50688",
    "global_batch_size": "4",
    "micro_batch_size": "1",
    "clip_grad": "1.0",
    "checkpoint_activations": "True",
    "fp16": "True",
    "kv_channels": "192",
}
GPU = "_CudaDeviceProperties(name='Tesla V100-SXM2-32GB', major=7, minor=0)\n"


def log(arguments: dict[str, str], *, seconds: float = 1.5) -> str:
    """Return a Megatron log of five steps, with these arguments and the name of a GPU.

    seconds: the duration of each step.
    """
    dump = "".join(f"  {name} ........ {value}\n" for name, value in arguments.items())
    steps = "".join(
        f" iteration {n:8d}/      20 | elapsed time per iteration (ms): {1000 * seconds:.1f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        for n in range(1, 6)
    )
    return f"------------------------ arguments ------------------------\n{dump}{GPU}{steps}"


def parse(*arguments: str) -> Result:
    """Run `teralog parse` in the current folder."""
    return CliRunner().invoke(main, ["parse", *arguments])


def figures(*arguments: str) -> dict[str, Any]:
    """Return the object that `teralog parse --json` prints for the only run in the logs."""
    result = parse("--json", *arguments)
    assert result.exit_code == 0, result.output
    (record,) = json.loads(result.stdout)
    return dict(record)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_figures_follow_from_what_the_log_states(folder: Path) -> None:
    """TFLOPs follow from equation 3 of Narayanan et al. 2021, the median step time and 16 GPUs.

    The MFU is the model TFLOPs divided by 125 TFLOP/s, the peak of the V100 in the log.
    """
    Path("run.log").write_text(log(ARGUMENTS))
    values = figures("run.log")
    sizes = {"num_layers": 40, "hidden_size": 6144, "padded_vocab_size": 50688, "seq_length": 1024}
    hardware, model = (
        narayanan_flops(**sizes, global_batch_size=4, recomputed=recomputed) / 1.5 / 16 / 1e12
        for recomputed in (True, False)
    )
    assert values["tflops_per_gpu"] == pytest.approx(hardware)
    assert values["model_tflops_per_gpu"] == pytest.approx(model)
    assert values["mfu"] == pytest.approx(model / 125)
    parameters = 40 * (12 * 6144**2 + 13 * 6144) + (50688 + 1024 + 2) * 6144
    assert (values["gpus"], values["parameters"]) == (16, parameters)
    assert (values["global_batch_size"], values["recomputed"]) == (4, True)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"checkpoint_activations": "False"}, {"recomputed": False}),
        ({"recompute_granularity": "full"}, {"recomputed": True}),
        ({"recompute_granularity": "selective"}, {"recomputed": False}),
        ({"group_query_attention": "True", "num_query_groups": "8"}, {"recomputed": True}),
        # These models have other layers, so they have no figure instead of a wrong one.
        ({"num_experts": "8"}, {"tflops_per_gpu": None, "mfu": None}),
        ({"multi_latent_attention": "True"}, {"tflops_per_gpu": None}),
        ({"hybrid_override_pattern": "M-M*-"}, {"tflops_per_gpu": None}),
        ({"kv_channels": "128"}, {"recomputed": True}),
        ({"num_experts": "[1]"}, {"recomputed": True}),
        ({"fp16": "False"}, {"mfu": None}),
    ],
)
def test_an_argument_changes_the_figures(
    folder: Path, changed: dict[str, str], expected: dict[str, object]
) -> None:
    """An argument in the log decides whether recomputation counts, or makes TFLOPs or MFU None.

    TFLOPs are None if teralog has no formula for the model's layers.
    """
    Path("run.log").write_text(log(ARGUMENTS | changed))
    values = figures("run.log")
    assert {name: values[name] for name in expected} == expected
    assert (values["tflops_per_gpu"] is None) == ("tflops_per_gpu" in expected)


OPTIONS = (
    *("--world-size=16", "--num-layers=40", "--hidden-size=6144", "--vocab-size=50688"),
    *("--seq-length=1024", "--global-batch-size=4", "--activation-checkpointing"),
    *("--gpu=V100-SXM2", "--precision=fp16"),
)


def test_options_give_what_a_log_lacks(folder: Path) -> None:
    """A value given as an option gives the same figures as one in the log."""
    Path("whole.log").write_text(log(ARGUMENTS))
    Path("bare.log").write_text(log({}).replace(GPU, ""))
    whole, bare = figures("whole.log"), figures("bare.log", *OPTIONS)
    for name in ("gpus", "parameters", "global_batch_size", "tflops_per_gpu", "mfu"):
        assert bare[name] == whole[name] is not None


def test_values_in_a_log_come_first_and_contradictions_are_named(folder: Path) -> None:
    """If an option contradicts a log, the log's value is used, and a note names the option."""
    Path("run.log").write_text(log(ARGUMENTS))
    result = parse("run.log", "--world-size", "64", "--num-layers", "41")
    assert "run.log: the log states 16; --world-size 64 is ignored" in result.stderr
    assert "run.log: the log states 40; --num-layers 41 is ignored" in result.stderr
    assert figures("run.log", "--world-size", "64")["gpus"] == 16


def test_missing_values_are_named_as_options(folder: Path) -> None:
    """If runs lack the same values, a single note names the options that give these values."""
    for name in "ab":
        Path(f"{name}.log").write_text(log({"world_size": "16"}).replace(GPU, ""))
    result = parse(".")
    assert (
        "2 runs, e.g. a.log: no TFLOPs: to compute them, give --num-layers --hidden-size "
        "--vocab-size --seq-length --global-batch-size"
    ) in result.stderr


EXPERTS = {
    **ARGUMENTS,
    "num_experts": "8",
    "moe_router_topk": "2",
    "moe_layer_freq": "([0]*1+[1]*39)",
    "moe_ffn_hidden_size": "1024",
    "swiglu": "True",
    "add_bias_linear": "False",
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "untie_embeddings_and_output_weights": "True",
    "group_query_attention": "True",
    "num_query_groups": "8",
    "kv_channels": "128",
    "checkpoint_activations": "False",
}


def test_experts_are_counted_by_what_megatron_prints(folder: Path) -> None:
    """The arguments that Megatron prints give the TFLOPs and parameters of a model with experts.

    In this test, each token uses 2 of 8 experts, and one of the 40 layers is dense.
    """
    Path("run.log").write_text(log(EXPERTS))
    values = figures("run.log")
    h, tokens = 6144, 4 * 1024
    attention = 2 * h * 32 * 128 + 2 * h * 8 * 128 + 2 * 1024 * 32 * 128
    dense, experts = 3 * h * 24576, 2 * 3 * h * 1024 + 8 * h
    per_token = 6 * (40 * attention + dense + 39 * experts + h * 50688)
    assert values["model_tflops_per_gpu"] == pytest.approx(per_token * tokens / 1.5 / 16 / 1e12)
    assert values["mfu"] == pytest.approx(values["model_tflops_per_gpu"] / 125)
    norms = 81 * h
    stored = 40 * (2 * h * 32 * 128 + 2 * h * 8 * 128) + dense + 39 * (8 * 3 * h * 1024 + 8 * h)
    assert values["parameters"] == stored + norms + 2 * h * 50688


def test_a_model_is_given_by_name_or_by_its_config(folder: Path) -> None:
    """`--model` with a published name and `--config` with its config.json give the same figures."""
    Path("bare.log").write_text(log({"world_size": "16"}))
    Path("config.json").write_text(json.dumps(named_model("mixtral-8x7b").config))
    more = ("--global-batch-size=4", "--no-activation-checkpointing", "--seq-length=2048")
    by_name = figures("bare.log", "--model=Mixtral 8x7B", *more)
    assert by_name["parameters"] == 46_702_792_704
    model = named_model("mixtral-8x7b").model(2048)
    expected = count_flops(model, sequences=4).model / 1.5 / 16 / 1e12
    assert by_name["model_tflops_per_gpu"] == pytest.approx(expected)
    assert figures("bare.log", "--config=config.json", *more) == by_name


def test_a_count_of_parameters_in_a_log_comes_first(folder: Path) -> None:
    """If a log states its parameters, these are reported, and a different model is named."""
    Path("bare.log").write_text(log({"world_size": "16", "parameters": "8030261248"}))
    options = ("--model=Mixtral 8x7B", "--global-batch-size=4", "--seq-length=2048")
    assert figures("bare.log", *options)["parameters"] == 8_030_261_248
    assert (
        "the log states 8,030,261,248 parameters, but --model Mixtral 8x7B has 46,702,792,704; "
        "TFLOPs are computed for --model"
    ) in " ".join(parse("bare.log", *options).stderr.split())


def test_an_unknown_preset_is_named(folder: Path) -> None:
    """An unknown preset is reported before any log is read."""
    Path("run.log").write_text(log({}))
    result = parse("run.log", "--model", "53B")
    assert result.exit_code == 1
    assert "53B" in f"{result.output}{result.exception}"


@pytest.mark.parametrize(
    ("changed", "options", "sentence"),
    [
        ({}, "--global-batch-size=8", "the log states 4; --global-batch-size 8 is ignored"),
        ({}, "--precision=bf16", "the log states fp16; --precision bf16 is ignored"),
        (
            {},
            "--no-activation-checkpointing",
            "the log states that layers are recomputed; --no-activation-checkpointing is ignored",
        ),
        (
            {"checkpoint_activations": "False"},
            "--activation-checkpointing",
            "the log states that no layers are recomputed; --activation-checkpointing is ignored",
        ),
        ({}, "--gpu=A100", "the log states Tesla V100-SXM2-32GB; --gpu A100 is ignored"),
        (
            {},
            "--model=52B",
            "the log states num_layers 40 and hidden_size 6144; --model 52B is ignored",
        ),
    ],
)
def test_an_option_that_a_log_contradicts_changes_nothing(
    folder: Path, changed: dict[str, str], options: str, sentence: str
) -> None:
    """If an option contradicts the log, the log's figures stay, and a sentence names the option."""
    Path("run.log").write_text(log(ARGUMENTS | changed))
    assert f"run.log: {sentence}" in parse("run.log", options).stderr
    assert figures("run.log", options) == figures("run.log")


def test_an_option_that_a_log_confirms_is_not_named(folder: Path) -> None:
    """An option that agrees with the log is not mentioned.

    E.g. `--model=18B` agrees, because the log has the sizes of the preset 18B.
    """
    Path("run.log").write_text(log(ARGUMENTS))
    confirmed = ("--global-batch-size=4", "--precision=fp16", "--gpu=V100", "--model=18B")
    assert "is ignored" not in parse("run.log", *confirmed).stderr


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"num_experts": "8"},
            "the log states num_experts 8, but not the number of experts per token",
        ),
        (
            {"hybrid_override_pattern": "M-M*-"},
            "teralog cannot count the FLOPs of the log's model: hybrid_layer_pattern: has 5",
        ),
        (
            {"num_attention_heads": "31", "kv_channels": "None"},
            "hidden_size 6144 is not divisible by",
        ),
    ],
)
def test_a_model_that_no_formula_counts_is_named(
    folder: Path, changed: dict[str, str], reason: str
) -> None:
    """If no formula can count the model's FLOPs, a sentence gives the reason."""
    Path("run.log").write_text(log(ARGUMENTS | changed))
    assert f"run.log: no TFLOPs: {reason}" in parse("run.log").stderr


@pytest.mark.parametrize(
    ("changed", "low"),
    [
        ({"fp8": "hybrid"}, "fp8"),
        ({"fp8_e4m3": "True"}, "fp8"),
        ({"fp4": "e2m1"}, "fp4"),
        ({"fp8_e4m3": "False"}, None),
    ],
)
def test_matrices_of_few_bits_have_no_peak_of_16_bits(
    folder: Path, changed: dict[str, str], low: str | None
) -> None:
    """If a run multiplies matrices in fp8 or fp4, its MFU does not use the 16-bit peak.

    If the fp8 or fp4 peak is unknown, there is no MFU until the user gives the peak.
    """
    Path("run.log").write_text(
        log(ARGUMENTS | changed).replace("Tesla V100-SXM2-32GB", "A100-SXM4-80GB")
    )
    errors = parse("run.log").stderr
    assert (figures("run.log")["mfu"] is None) == (low is not None)
    assert (f"no {low} peak is known for A100 SXM4; give --gpu-peak-tflops" in errors) == bool(low)
    values = figures("run.log", "--gpu-peak-tflops=1979")
    assert values["mfu"] == pytest.approx(values["model_tflops_per_gpu"] / 1979)


def test_a_batch_that_grows_gives_the_flops_of_all_samples(folder: Path) -> None:
    """If the global batch grows during a run, TFLOPs are computed from samples per second.

    Otherwise the FLOPs of the last, largest batch would be divided by the median step time. The
    result would be too high.
    """
    steps = "".join(
        f" iteration {n:8d}/      20 | elapsed time per iteration (ms): {375.0 * batch:.1f} | "
        f"global batch size: {batch:5d} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        for n, batch in enumerate((4, 4, 4, 4, 8, 16), 1)
    )
    arguments = log(ARGUMENTS, seconds=1.5)
    Path("steady.log").write_text(arguments)
    Path("growing.log").write_text(arguments[: arguments.index(" iteration ")] + steps)
    steady, growing = figures("steady.log"), figures("growing.log")
    assert growing["tflops_per_gpu"] == pytest.approx(steady["tflops_per_gpu"])
    assert growing["global_batch_size"] == 16
    assert "growing.log: TFLOPs are computed from samples/s" in parse("growing.log").stderr
    assert "samples/s" not in parse("steady.log").stderr


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        (None, (), "to compute it, give --gpu"),
        ("NVIDIA H100", (), "'NVIDIA H100' may mean H100 SXM5 with 989.5 TFLOP/s"),
        ("H100 XYZ", (), "'H100 XYZ' is not in the table of GPUs; give --gpu-peak-tflops"),
        ("NVIDIA H100", ("--gpu=H100-SXM",), None),
        ("H100 XYZ", ("--gpu-peak-tflops=700",), None),
    ],
)
def test_the_reason_for_a_missing_mfu_is_given(
    folder: Path, name: str | None, options: tuple[str, ...], reason: str | None
) -> None:
    """A sentence gives the reason for a missing MFU, e.g. that the GPU's name is ambiguous."""
    gpu = "" if name is None else GPU.replace("Tesla V100-SXM2-32GB", name)
    Path("run.log").write_text(log(ARGUMENTS).replace(GPU, gpu))
    errors = parse("run.log", *options).stderr
    assert ("no MFU: " in errors) == (reason is not None)
    assert reason is None or f"run.log: no MFU: {reason}" in errors
    assert (figures("run.log", *options)["mfu"] is None) == (reason is not None)


@pytest.mark.parametrize(
    ("text", "options", "count"),
    [
        (log({}).replace(GPU, ""), ("--gpu=Voodoo",), 1),
        (log(ARGUMENTS).replace(GPU, ""), ("--gpu=Voodoo",), 1),
        # The log names its GPU, so another sentence states that the option is ignored.
        (log(ARGUMENTS), ("--gpu=Voodoo",), 0),
        (log(ARGUMENTS), ("--gpu=V100",), 0),
        (log({}), ("--gpu=Voodoo", "--gpu-peak-tflops=1"), 0),
    ],
)
def test_a_gpu_that_teralog_does_not_know_is_named(
    folder: Path, text: str, options: tuple[str, ...], count: int
) -> None:
    """One sentence names the unknown GPU of the option, also if the log gives no TFLOPs."""
    Path("run.log").write_text(text)
    assert parse("run.log", *options).stderr.count("'Voodoo' is not in the table of GPUs") == count


@pytest.mark.parametrize(("device", "peak"), [("cpu", None), ("NVIDIA H200", 989.5)])
def test_the_device_that_a_program_reports_has_a_peak(
    folder: Path, device: str, peak: float | None
) -> None:
    """The MFU uses the peak of the device that the log names; a run on CPUs has no MFU."""
    Path("run.log").write_text(
        f"[teralog] start | strategy zero1 | world_size 2 | backend nccl | device {device}"
        " | precision bf16 | parameters 1000 | torch 2.13.0\n"
        + log(ARGUMENTS | {"fp16": "False"}).replace(GPU, "")
    )
    values = figures("run.log")
    assert values["tflops_per_gpu"] is not None
    assert "no MFU" not in parse("run.log").stderr
    mfu = None if peak is None else pytest.approx(values["model_tflops_per_gpu"] / peak)
    assert values["mfu"] == mfu


def test_the_length_of_sequences_gives_tokens(folder: Path) -> None:
    """If the log has only samples per second, the sequence length gives tokens per second."""
    Path("run.log").write_text(log({"global_batch_size": "4"}))
    assert figures("run.log")["tokens_per_second"] is None
    for options in (("--seq-length=2048",), ("--model=18B", "--seq-length=2048")):
        assert figures("run.log", *options)["tokens_per_second"] == pytest.approx(4 / 1.5 * 2048)
    assert figures("run.log", "--model=18B")["tokens_per_second"] == pytest.approx(4 / 1.5 * 1024)


def test_computed_tflops_agree_with_those_that_a_program_logs(folder: Path) -> None:
    """Computed TFLOPs agree with those in a log of BLOOM: 67.04 for a step of 346.66 s.

    The model has 70 layers and runs on 128 dies of MI250X.
    """
    bloom = {
        "world_size": "128",
        "num_layers": "70",
        "hidden_size": "14336",
        "num_attention_heads": "112",
        "ffn_hidden_size": "57344",
        "seq_length": "2048",
        "padded_vocab_size": "51200",
        "global_batch_size": "1024",
        "position_embedding_type": "PositionEmbeddingType.alibi",
        "embed_layernorm": "True",
        "bf16": "True",
        "fp16": "False",
        "kv_channels": "128",
    }
    Path("run.log").write_text(log(ARGUMENTS | bloom, seconds=346.66).replace(GPU, ""))
    values = figures("run.log", "--gpu=MI250X")
    assert values["tflops_per_gpu"] == pytest.approx(67.04, rel=2e-4)
    assert values["mfu"] == pytest.approx(values["model_tflops_per_gpu"] / 191.5)
    assert values["parameters"] == pytest.approx(173.4e9, rel=5e-4)


ONEFLOW = {
    "num_nodes": "4",
    "num_gpus_per_node": "8",
    "num_layers": "24",
    "hidden_size": "2304",
    "num_attention_heads": "24",
    "seq_length": "2048",
    "padded_vocab_size": "50688",
    "global_batch_size": "512",
    "checkpoint_activations": "True",
}


def test_computed_tflops_agree_with_a_published_table(folder: Path) -> None:
    """Computed TFLOPs agree with OneFlow's GPT benchmark of 2021: 36.85 for a step of 13117.18 ms.

    The run had 4 nodes of 8 GPUs. The benchmark counts 512 more tokens in the vocabulary.
    """
    Path("run.log").write_text(log(ONEFLOW, seconds=13.11718))
    values = figures("run.log")
    assert values["tflops_per_gpu"] == pytest.approx(36.85, rel=1e-3)
    assert values["gpus"] == 32


@pytest.mark.parametrize(
    ("arguments", "gpus"),
    [
        ({"num_nodes": "4", "num_gpus_per_node": "8"}, 32),
        ({"global_num_gpus": "96"}, 96),
        ({"data_parallel_size": "2", "tensor_model_parallel_size": "4"}, 8),
        ({"data_parallel_size": "2", "tensor_model_parallel_size": "4", "world_size": "16"}, 16),
        ({"tensor_model_parallel_size": "4"}, None),
        ({"num_nodes": "4"}, None),
    ],
)
def test_the_number_of_gpus_follows_from_the_layout(
    folder: Path, arguments: dict[str, str], gpus: int | None
) -> None:
    """If the log has no number of GPUs, it follows from the nodes or from the parallel sizes.

    E.g. data-parallel size 2 and tensor-parallel size 4 are 8 GPUs. Without the data-parallel size
    the number stays unknown.
    """
    Path("run.log").write_text(log(arguments))
    assert figures("run.log")["gpus"] == gpus


@pytest.mark.parametrize(
    ("changed", "tflops", "parameters"),
    [
        ({"glu_activation": "swiglu"}, True, True),
        ({"pos_emb": "rotary", "no_weight_tying": "True"}, False, True),
        ({"pos_emb": "learned", "mlp_type": "llama"}, None, None),
        ({"pos_emb": "learned", "activation": "swiglu"}, None, None),
        ({"decoder_seq_length": "128"}, None, None),
    ],
)
def test_arguments_of_forks_change_the_model(
    folder: Path, changed: dict[str, str], tflops: bool | None, parameters: bool | None
) -> None:
    """An argument of a Megatron fork changes TFLOPs or parameters, or makes them unknown."""
    Path("plain.log").write_text(log(ARGUMENTS))
    Path("run.log").write_text(log(ARGUMENTS | changed))
    plain, changed_figures = figures("plain.log"), figures("run.log")
    for name, differs in (("tflops_per_gpu", tflops), ("parameters", parameters)):
        assert (
            None if changed_figures[name] is None else changed_figures[name] != plain[name]
        ) is differs


TIMER = (
    "[INFO] [timer.py:199:stop] epoch=0/micro_step={0}/global_step={0}, RunningAvgSamplesPerSec="
    "90.0, CurrSamplesPerSec=80.0, MemAllocated=1.00GB, MaxMemAllocated=2.00GB\n"
)
PROGRESS = "[INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped={}, lr=[0.1], mom=[(0.9,\n"


@pytest.mark.parametrize(
    ("skipped", "reason"),
    [
        (lambda n: min(n // 20, 2), "the reports contain samples/s but no batch size"),
        (lambda n: n // 10, "every report after the warm-up contains a skipped update"),
    ],
)
def test_the_reason_for_a_missing_step_time_is_the_true_one(
    folder: Path, skipped: Any, reason: str
) -> None:
    """If a run has no step time, the message gives the true reason.

    It names skipped updates only if every report after the warm-up contains one. Otherwise, in this
    test, it names the missing batch size.
    """
    steps = range(10, 100, 10)
    Path("run.log").write_text(
        "".join(PROGRESS.format(n, skipped(n)) + TIMER.format(n) for n in steps)
    )
    errors = parse("run.log").stderr
    assert errors.count("no step time") == 1
    assert reason in errors
    if "batch" in reason:
        assert figures("run.log", "--global-batch-size", "40")["step_seconds"]["mean"] == 0.5


ONLY_LOSSES = '{{"current_steps": {}, "total_steps": 9, "loss": 2.5}}\n'
TITAN = (
    "[titan] INFO - step: {:2}  loss: 10.05440  memory: 16.82GiB(83.61%)  tps: 2,228  "
    "tflops: 164.70  mfu: 52.79%\n"
)


@pytest.mark.parametrize(
    ("line", "options", "reason"),
    [
        (
            "{{'loss': 2.27, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': {}.0}}\n",
            (),
            "no step time, because no report contains the number of its step",
        ),
        (
            (
                "[rank {}] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 "
                "| reserved: 3.0 | max reserved: 3.0\n"
            ),
            (),
            "no step time, because the log contains no report of a step time",
        ),
        (
            TIMER,
            ("--warmup", "99"),
            "no speed, because the warm-up leaves out all reports; `--warmup 0` counts them",
        ),
        (
            TITAN,
            ("--warmup", "99"),
            "no speed, because the warm-up leaves out all reports; `--warmup 0` counts them",
        ),
        (
            TITAN,
            ("--world-size", "8"),
            (
                "no step time; to compute it from the tokens/s, add `--global-batch-size N "
                "--seq-length N`"
            ),
        ),
        (ONLY_LOSSES, (), "no step time, because no report after the warm-up contains one"),
        (ONLY_LOSSES, ("--warmup", "0"), "no step time, because no report contains one"),
        (
            (
                ':::MLLOG {{"key": "tracked_stats", "value": {{"throughput": 30.5}}, "metadata": '
                '{{"step": {}}}}}\n'
            ),
            (),
            (
                "no step time, because the reports contain a throughput but no global batch size; "
                "add `--global-batch-size N`"
            ),
        ),
    ],
)
def test_a_log_whose_reports_do_not_count_gets_the_reason(
    folder: Path, line: str, options: tuple[str, ...], reason: str
) -> None:
    """If a run has no step time, a line below the table gives the reason."""
    Path("run.log").write_text("".join(line.format(n) for n in range(1, 9)))
    assert reason in parse("run.log", *options).stderr


def test_a_step_time_from_the_final_result_needs_no_reason(folder: Path) -> None:
    """If the program's final result gives the step time, no line states that there is none."""
    Path("run.log").write_text(
        "  Total train batch size (w. parallel, distributed & accumulation) = 32\n"
        "{'loss': 2.0, 'learning_rate': 5e-05, 'epoch': 0.3, 'step': 10}\n"
        "{'train_runtime': 50.0, 'train_samples_per_second': 64.0, "
        "'train_steps_per_second': 2.0, 'train_loss': 3.9, 'epoch': 0.3}\n"
    )
    assert figures("run.log")["step_seconds"]["mean"] == 0.5
    errors = parse("run.log").stderr
    assert "no step time" not in errors
    assert "no speed" not in errors


def test_a_mean_of_the_whole_run_is_marked(folder: Path) -> None:
    """A line below the table states that the step time is a mean with the warm-up."""
    line = "step:{0}/250 val_loss:3.27839 train_time:{1}s step_avg:147.03ms\n"
    Path("run.log").write_text(line.format(0, "0.000") + line.format(250, "36.750"))
    assert figures("run.log")["step_seconds"]["mean"] == 0.147
    sentence = "the step time is a mean that includes the warm-up, from the program's own result"
    assert sentence in parse("run.log").stderr


def test_step_times_from_tokens_per_second_are_marked(folder: Path) -> None:
    """A line below the table states that step times are computed from tokens/s."""
    line = '{{"step": {}, "tps": 800.0, "tps_per_gpu": 100.0, "num_tokens_per_step": 1600}}\n'
    Path("run.log").write_text("".join(line.format(n) for n in range(1, 9)))
    assert figures("run.log")["step_times_from"] == "tokens_per_second"
    sentence = "step times are computed: the tokens of a step divided by the tokens/s"
    assert sentence in parse("run.log").stderr


def test_options_give_step_times_from_tokens_per_second(folder: Path) -> None:
    """If torchtitan's log lacks its set-up, options give the tokens of a step."""
    lines = (
        f"step: {n:2}  loss:  6.2500  memory:  9.01GiB(58.23%)  tps: 500  mfu: 3.09%\n"
        for n in (1, 2)
    )
    Path("run.log").write_text("".join(lines))
    assert figures("run.log")["step_seconds"]["mean"] is None
    needed = "`--global-batch-size N --seq-length N --world-size N`"
    assert f"no step time; to compute it from the tokens/s, add {needed}" in parse("run.log").stderr
    options = ("--global-batch-size", "16", "--seq-length", "1000", "--world-size", "8")
    assert figures("run.log", *options)["step_seconds"]["mean"] == 4.0
    assert figures("run.log", *options[:4])["step_seconds"]["mean"] is None


def test_torchtitan_s_metrics_give_step_times_without_options(folder: Path) -> None:
    """A line below the table states how the step times of torchtitan's metrics are computed.

    Measured times take precedence over times computed with options.
    """
    line = '{{"step": {}, "throughput(tps)": 500.0, "time_metrics/end_to_end(s)": {}}}\n'
    Path("metrics.jsonl").write_text("".join(line.format(n, 2.5) for n in (1, 10, 20, 30)))
    values = figures("metrics.jsonl")
    assert (values["step_times_from"], values["step_seconds"]["n"]) == ("nominal_step_seconds", 2)
    assert "from the time since the previous report" in parse("metrics.jsonl").stderr
    options = ("--global-batch-size", "8", "--seq-length", "128", "--world-size", "2")
    assert figures("metrics.jsonl", *options)["step_seconds"]["mean"] == 2.5


def test_options_are_not_asked_for_if_the_warmup_has_the_step_times(folder: Path) -> None:
    """If a report of the warm-up has a measured time, options do not give the others a time."""
    line = '{{"step": {}, "throughput(tps)": 500.0, "time_metrics/end_to_end(s)": 2.5}}\n'
    Path("metrics.jsonl").write_text("".join(map(line.format, (1, 10, 20, 50))))
    reason = "no step time, because no report after the warm-up contains one\n"
    options = ("--global-batch-size", "8", "--seq-length", "128", "--world-size", "2")
    for given in (), options:
        assert reason in parse("metrics.jsonl", "--warmup", "20", *given).stderr


def test_lines_that_were_not_understood_are_printed_on_request(folder: Path) -> None:
    """`--unparsed` prints the lines that were not parsed, with file name and line number.

    Control characters are left out.
    """
    torn = "steps: 20 loss: 0.0625 iter time (s): 0.1\x07"
    Path("run.log").write_text(f"{log(ARGUMENTS)}{torn}\n")
    assert "1 line not parsed" in parse("run.log").stderr
    result = parse("run.log", "--unparsed")
    number = len(log(ARGUMENTS).splitlines()) + 1
    assert result.exit_code == 0
    assert result.stdout.startswith(f"run.log:{number}: steps: 20 loss: 0.0625")
    assert "\x07" not in result.stdout


def test_lines_that_were_not_understood_have_an_object_each(folder: Path) -> None:
    """With `--unparsed --json`, each line that was not parsed is one JSON object.

    This holds for files, archives and standard input.
    """
    torn = "steps: 20 loss: 0.0625 iter time (s): 0.1\n"
    Path("run.log").write_text(f"{torn}{log(ARGUMENTS)}{torn}")
    with tarfile.open("logs.tar.gz", "w:gz") as archive:
        archive.add("run.log", "runs/run.log")
    last = len(log(ARGUMENTS).splitlines()) + 2
    for arguments, name, text in (
        (("run.log",), "run.log", None),
        (("logs.tar.gz",), "logs.tar.gz:runs/run.log", None),
        (("-",), "-", Path("run.log").read_text()),
    ):
        result = CliRunner().invoke(main, ["parse", "--unparsed", "--json", *arguments], text)
        assert [(record["path"], record["line"]) for record in json.loads(result.stdout)] == [
            (name, 1),
            (name, last),
        ]


def test_a_log_that_was_understood_has_no_unparsed_lines(folder: Path) -> None:
    """If all lines were parsed, `--unparsed` prints one sentence instead of lines.

    `--unparsed` together with `--on-slurm` is refused.
    """
    Path("run.log").write_text(log(ARGUMENTS))
    result = parse("run.log", "--unparsed")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "all lines that look like step reports were parsed\n"
    assert parse("run.log", "--unparsed", "--on-slurm", "cpu.yaml").exit_code == 2


def test_a_benchmark_of_the_network_is_not_a_truncated_training(folder: Path) -> None:
    """The log of a network benchmark contains no training output, so it is not a truncated run.

    This holds although torchrun starts the benchmark, and NCCL prints the names of hosts.
    """
    Path("all_reduce.txt").write_text(
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
        "n1:38029:38029 [0] NCCL INFO Bootstrap : Using [0]ib0:10.148.8.71<0>\n"
        "NCCL version 2.7.8+cuda10.2\nThe average bandwidth of all_reduce with a 4.0GB payload\n"
    )
    result = parse("all_reduce.txt")
    assert result.exit_code == 1
    assert "contains no training output" in result.stderr
    assert "truncated" not in result.output


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published logs are not here")
@pytest.mark.parametrize(
    ("name", "tflops", "billions"),
    [
        ("gpt2-meg/meg_gpt2_base_n4_dp1_tp4_pp4-1809579", 27.97, 18.44),
        ("gpt2-meg/meg_gpt2_base_n16_dp1_tp4_pp16-1809577", 12.48, 65.71),
        ("gpt2-meg/meg_gpt2_base_n64_dp1_tp4_pp64-1809655", 3.982, 207.0),
        ("gpt2-meg-ds-3d-old/meg_ds_3d_gpt2_perf_n16", 47.77, 51.97),
        ("gpt2-meg-ds-zero/meg_ds_zero_gpt2_perf_n16_nbs48_ms48", 41.65, 51.97),
    ],
)
def test_published_logs_have_the_figures_of_their_page(
    name: str, tflops: float, billions: float
) -> None:
    """For published logs, `parse` computes the expected TFLOPs and numbers of parameters.

    The median step times are those of the logs' page: 1.381, 2.738, 6.736, 146 and 122 s.
    """
    values = figures(str(PUBLISHED / f"{name}.out"))
    assert values["tflops_per_gpu"] == pytest.approx(tflops, rel=5e-4)
    assert values["parameters"] / 1e9 == pytest.approx(billions, rel=5e-4)
