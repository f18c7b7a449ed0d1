"""`teralog estimate`: numbers with derivations, from options, presets and campaigns."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.run.flops import FORMULA_CONVENTIONS

GPT2 = (
    "--num-layers=12",
    "--hidden-size=768",
    "--num-attention-heads=12",
    "--vocab-size=50257",
    "--seq-length=1024",
)
CAMPAIGN = """\
name: x
cluster: v100.yaml
defaults:
  framework: gpt
  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
  gpus_per_node: 2
  micro_batch_size: 4
  train_iters: 50
  precision: fp16
matrix: {activation_checkpointing: [false, true]}
include: [{framework: deepspeed, model: {}, script: train.py}]
"""


def test_a_model_of_too_many_layers_is_refused() -> None:
    """No more layers are accepted than can be described one by one."""
    result = estimate("params", "--model", "xl", "--num-layers", "99999999999")
    assert result.exit_code != 0
    assert "num_layers: must be at most 100,000 (got 99,999,999,999)" in result.output


def estimate(*arguments: str) -> Result:
    """Run `teralog estimate` with these arguments in this process, and return the result."""
    return CliRunner().invoke(main, ["estimate", *arguments])


def of_json(*arguments: str) -> Any:
    """Return the output of `teralog estimate` with `--json` as Python objects."""
    result = estimate(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    """Write a campaign on a cluster with a known GPU, and return the path of its file.

    It has two runs with a model, and one without.
    """
    (tmp_path / "v100.yaml").write_text("gpus_per_node: 4\ngpu: V100-SXM2-32GB\n")
    path = tmp_path / "campaign.yaml"
    path.write_text(CAMPAIGN)
    return str(path)


PARAMETERS: dict[str, tuple[tuple[str, ...], int]] = {
    "GPT-2": (GPT2, 124_439_808),
    "a preset": (("--model=52B",), 51_966_533_632),
    "a preset, changed": (("--model=52B", "--seq-length=2048"), 51_974_922_240),
    "padded": ((*GPT2, "--vocab-size-multiple=128"), 124_439_808 + 47 * 768),
    "padded for 4 ranks": (
        (*GPT2, "--vocab-size-multiple=128", "--tensor-parallel-size=4"),
        124_439_808 + 431 * 768,
    ),
    "another MLP": ((*GPT2, "--ffn-hidden-size=3073"), 124_439_808 + 12 * (2 * 768 + 1)),
    "an untied head": ((*GPT2, "--untied-head"), 124_439_808 + 50257 * 768),
    "no position table": ((*GPT2, "--no-position-table"), 124_439_808 - 1024 * 768),
    "a norm of the embedding": ((*GPT2, "--embedding-norm"), 124_439_808 + 2 * 768),
    "grouped heads": (
        (*GPT2, "--num-key-value-heads=6"),
        124_439_808 - 12 * 2 * 384 * 769,
    ),
    "Llama 3 8B": (
        (
            "--num-layers=32",
            "--hidden-size=4096",
            "--num-attention-heads=32",
            "--num-key-value-heads=8",
            "--ffn-hidden-size=14336",
            "--vocab-size=128256",
            "--seq-length=8192",
            "--gated-mlp",
            "--untied-head",
            "--no-position-table",
            "--biases=none",
            "--norm=rmsnorm",
        ),
        8_030_261_248,
    ),
    "without heads, which change nothing": (
        ("--num-layers=12", "--hidden-size=768", "--vocab-size=50257", "--seq-length=1024"),
        124_439_808,
    ),
}


@pytest.mark.parametrize(("options", "parameters"), PARAMETERS.values(), ids=PARAMETERS)
def test_params_counts_every_kind_of_model(options: tuple[str, ...], parameters: int):
    """Text and JSON contain the number of parameters of a model.

    In JSON, the parameters of the model's parts add up to this number.
    """
    record = of_json("params", *options)
    assert record["parameters"] == sum(record["parts"].values()) == parameters
    assert record["billions"] == parameters / 1e9
    assert f"{parameters:,}" in estimate("params", *options).stdout


def test_params_shows_the_derivation_and_whether_the_label_is_right():
    """`estimate params` prints the formula in letters, then in numbers, and explains the letters.

    Its last line shows whether the model's name, e.g. 52B, agrees with the number of parameters.
    """
    text = estimate("params", "--model=52B").stdout
    assert "  = l·(12·h² + 13·h) + V·h + s·h + 2·h\n" in text
    assert "  = 4·64·8192² + 4·64·8192 + 2·64·8192·32768" in text
    assert "h = hidden_size = 8192" in text
    assert text.endswith("52B agrees with 51.97 * 10**9 parameters\n")


def test_an_old_size_is_reported_as_old():
    """If a model's name, e.g. 7B, gives its size in units of 2**30, the output reports that.

    E.g. BigScience's 7B has 7.46 * 10**9 parameters, which is 6.95 * 2**30.
    """
    assert of_json("params", "--model=7B")["label_unit"] == "2**30"
    assert "an older convention" in estimate("params", "--model=7B").stdout
    assert of_json("params", "--model=52B")["label_unit"] == "10**9"
    assert of_json("params", "--model=xl")["label_unit"] is None


def test_a_model_of_another_family_does_not_get_gpt_2_s_formula():
    """A model with a gated MLP gets its own formula, and not that of GPT-2."""
    text = estimate("params", *GPT2, "--gated-mlp").stdout
    assert "12·h²" not in text
    assert "3·l·h·f" in text


FLOPS = (*GPT2, "--global-batch-size=8")


def test_flops_have_one_entry_per_convention():
    """`estimate flops --json` has one object per convention, with its FLOPs per iteration.

    With activation checkpointing, only the conventions that count recomputation give more FLOPs.
    """
    records = of_json("flops", *FLOPS)
    assert [record["convention"] for record in records] == [
        convention.name for convention in FORMULA_CONVENTIONS
    ]
    by_name = {record["convention"]: record for record in records}
    assert by_name["bigscience"]["flops"] == 124_439_808 * 3 * 2 * 1024 * 8
    assert by_name["narayanan"]["flops"] == by_name["model"]["flops"]
    assert {record["tflops_per_gpu"] for record in records} == {None}
    again = {
        record["convention"]: record
        for record in of_json("flops", *FLOPS, "--activation-checkpointing")
    }
    assert again["bigscience"]["flops"] == 124_439_808 * 4 * 2 * 1024 * 8
    assert again["model"]["flops"] == by_name["model"]["flops"]


def test_the_numbers_shown_under_flops_give_the_flops():
    """For each convention, the printed formula with numbers gives the FLOPs printed below it."""
    text = estimate("flops", *FLOPS, "--activation-checkpointing").stdout
    derived = re.findall(r"^  = (\d\S* \+ .*|\d[\d·²]+)\n  = ([\d,]+)$", text, re.MULTILINE)
    assert len(derived) == len(FORMULA_CONVENTIONS)
    for numbers, result in derived:
        assert eval(numbers.replace("·", "*").replace("²", "**2")) == int(result.replace(",", ""))


SPEED = ("--world-size=4", "--step-seconds=0.5")


def test_with_time_and_ranks_there_are_tflops_and_with_a_gpu_utilization():
    """With step time, ranks and a GPU, the output has each convention's TFLOPs and utilization.

    The utilization is MFU for conventions without recomputation, and HFU for those with it.
    """
    for record in of_json("flops", *FLOPS, *SPEED, "--gpu=V100-SXM2-32GB"):
        tflops = record["flops"] / 0.5 / 4 / 1e12
        assert record["tflops_per_gpu"] == pytest.approx(tflops)
        of_hardware = record["counts_recomputation"]
        assert record["hfu"] == (pytest.approx(tflops / 125) if of_hardware else None)
        assert record["mfu"] == (None if of_hardware else pytest.approx(tflops / 125))
    text = estimate("flops", *FLOPS, *SPEED, "--gpu=V100-SXM2-32GB").stdout
    assert (
        "MFU and HFU are relative to 125 TFLOP/s in dense fp16, V100 SXM2: NVIDIA V100 data" in text
    )


@pytest.mark.parametrize(
    ("options", "peak", "sentence"),
    [
        (("--gpu=V100",), None, "MFU and HFU are unknown: 'V100' may mean"),
        (("--gpu=V100-SXM2", "--precision=bf16"), None, "no bf16 peak is known for V100 SXM2"),
        (("--gpu=V100-SXM2", "--precision=fp32"), 15.7, "15.7 TFLOP/s in dense fp32"),
        (("--gpu=Foo", "--gpu-peak-tflops=50"), 50, "relative to 50 TFLOP/s, given by the user"),
        ((), None, ""),
    ],
)
def test_an_unknown_peak_gives_no_utilization_and_shows_the_reason(
    options: tuple[str, ...], peak: float | None, sentence: str
):
    """If the GPU's peak is unknown, the output has no MFU or HFU, and shows the reason.

    The peak that the user gives with --gpu-peak-tflops is used.
    """
    records = of_json("flops", *FLOPS, *SPEED, *options)
    assert {record["peak_tflops"] for record in records} == {peak}
    assert all((record["mfu"] or record["hfu"]) is None for record in records) == (peak is None)
    text = estimate("flops", *FLOPS, *SPEED, *options).stdout
    assert sentence in text
    assert ("MFU %" in text) == (peak is not None)


def test_a_convention_without_a_formula_for_the_model_is_reported():
    """If a convention does not apply to a model, it has no FLOPs, and the reason is shown."""
    by_name = {record["convention"]: record for record in of_json("flops", *FLOPS, "--gated-mlp")}
    assert by_name["narayanan"]["flops"] is None
    assert by_name["narayanan"]["formula"] is None
    text = estimate("flops", *FLOPS, "--gated-mlp").stdout
    assert "does not apply to this model: it assumes an MLP of two matrices 4h wide" in text


TIMES: dict[str, tuple[tuple[str, ...], list[tuple[str, float]]]] = {
    "GPT-3 on 1024 A100s": (
        (
            "--parameters=175e9",
            "--tokens=300e9",
            "--world-size=1024",
            "--tflops-per-gpu=140",
            "--activation-checkpointing",
        ),
        [("tokens, with recomputation", 8 * 175e9 * 300e9 / (1024 * 140e12))],
    ),
    "without recomputation": (
        ("--parameters=10", "--tokens=100", "--world-size=2", "--tflops-per-gpu=3"),
        [("tokens, without recomputation", 6 * 10 * 100 / (2 * 3e12))],
    ),
    "of a preset": (
        ("--model=52B", "--tokens=1e9", "--world-size=64", "--tflops-per-gpu=50"),
        [("tokens, without recomputation", 6 * 51_966_533_632 * 1e9 / (64 * 50e12))],
    ),
    "of iterations": (("--train-iters=1000", "--step-seconds=2.5"), [("iterations", 2500.0)]),
    "both": (
        (
            "--parameters=10",
            "--tokens=100",
            "--world-size=2",
            "--tflops-per-gpu=3",
            "--train-iters=1000",
            "--step-seconds=2.5",
        ),
        [("tokens, without recomputation", 1e-9), ("iterations", 2500.0)],
    ),
}


@pytest.mark.parametrize(("options", "expected"), TIMES.values(), ids=TIMES)
def test_time_is_of_tokens_or_of_iterations(
    options: tuple[str, ...], expected: list[tuple[str, float]]
):
    """`estimate time` computes a time from tokens, a time from iterations, or both.

    It prints what each time is computed from, and the formula with its numbers.
    """
    records = of_json("time", *options)
    assert [(record["way"], record["seconds"]) for record in records] == [
        (way, pytest.approx(seconds)) for way, seconds in expected
    ]
    text = estimate("time", *options).stdout
    assert all(
        way in text and record["numbers"] in text for record in records for way in [record["way"]]
    )


def test_time_counts_gpu_hours_where_it_knows_the_gpus():
    """If the number of GPUs is known, the GPU-hours are those of all GPUs for the whole time."""
    (record,) = of_json("time", "--train-iters=7200", "--step-seconds=1", "--world-size=8")
    assert (record["days"], record["gpu_hours"]) == (pytest.approx(1 / 12), 16.0)
    (record,) = of_json("time", "--train-iters=7200", "--step-seconds=1")
    assert record["gpu_hours"] is None


def test_a_campaign_has_every_run_with_a_model(campaign: str):
    """For a campaign, every run with a model has an estimate.

    It is computed from the run's own sizes, batch, recomputation, precision and GPU.
    """
    records = of_json("params", campaign)
    assert [record["parameters"] for record in records] == [136_960, 136_960]
    labels = ["activation_checkpointing=false", "activation_checkpointing=true"]
    assert [record["label"] for record in records] == labels
    flops = of_json("flops", campaign, "--step-seconds=0.01")
    hardware = [record for record in flops if record["convention"] == "hardware"]
    assert [record["label"] for record in hardware] == labels
    assert [record["flops"] for record in hardware] == [2 * 226_492_416, 2 * 285_212_672]
    assert hardware[0]["hfu"] == pytest.approx(226_492_416 / 0.01 / 125e12)
    times = of_json("time", campaign, "--step-seconds=0.01")
    assert [record["seconds"] for record in times] == [0.5, 0.5]


def test_runs_with_the_same_model_share_a_derivation(campaign: str):
    """Runs with the same formula and numbers share one derivation in the output."""
    params = estimate("params", campaign).stdout
    assert params.count("activation_checkpointing=false and 1 more") == 1
    assert params.count("P = ") == 1
    flops = estimate("flops", campaign).stdout
    assert flops.count("model: exact") == 2
    assert flops.count("activation_checkpointing=true:\n\nmodel: exact") == 1
    assert "run" in flops.splitlines()[0]
    assert estimate("time", campaign, "--step-seconds=1").stdout.count(" = 50 s") == 1


def test_a_run_whose_batch_is_not_known_has_a_dash(campaign: str):
    """If a run's batch is unknown, the other runs still have their numbers."""
    path = Path(campaign)
    path.write_text(CAMPAIGN.replace("include: [", "include: [{tensor_parallel_size: 8}, "))
    records = of_json("flops", campaign)
    assert [record["flops"] is None for record in records] == [False] * 12 + [True] * 6
    assert records[-1]["symbols"] is None
    text = estimate("flops", campaign).stdout
    assert text.endswith("tp8:\n\nthe global batch is not known\n")


MISTAKES: dict[str, tuple[tuple[str, ...], int, str]] = {
    "nothing": (
        ("params",),
        1,
        "the model lacks --num-layers, --hidden-size, --vocab-size, --seq-length; give them",
    ),
    "some sizes": (("params", "--num-layers=2"), 1, "the model lacks --hidden-size"),
    "no such preset": (
        ("params", "--model=52C"),
        1,
        "there is no model '52C'; `teralog models` lists all; did you mean '52B'?",
    ),
    "no batch": (
        ("flops", "--model=52B", "--step-seconds=2"),
        1,
        "the global batch is not known; give --global-b",
    ),
    "groups that do not divide": (
        ("params", *GPT2, "--num-key-value-heads=5"),
        1,
        "num_key_value_heads=5 must divide num_attention_heads=12",
    ),
    "heads that do not divide": (
        ("params", *GPT2, "--num-attention-heads=10", "--num-key-value-heads=5"),
        1,
        "which must divide hidden_size=768",
    ),
    "more heads than fit": (
        ("params", *GPT2, "--num-attention-heads=10"),
        1,
        "num_attention_heads=10 must divide hidden_size=768",
    ),
    "no time": (("time",), 1, "give --tokens and --tflops-per-gpu, or --step-seconds"),
    "half of it": (
        ("time", "--tokens=1e9"),
        1,
        ("--tokens and --tflops-per-gpu: give both, or neither"),
    ),
    "no parameters": (
        ("time", "--tokens=1e9", "--tflops-per-gpu=1"),
        1,
        "the number of parameters is not known; give --parameters or a model",
    ),
    "no GPUs": (
        ("time", "--tokens=1e9", "--tflops-per-gpu=1", "--parameters=1e9"),
        1,
        "the number of GPUs is not known; give --world-size",
    ),
    "no iterations": (("time", "--step-seconds=1"), 1, "give --train-iters"),
    "parameters twice": (
        ("time", "--parameters=1", "--model=52B", "--step-seconds=1"),
        1,
        "give --parameters or a model, not both",
    ),
    "half a token": (("time", "--tokens=0.5"), 2, "0.5 is not a whole number above 0"),
    "endless tokens": (("time", "--tokens=inf"), 2, "inf is not a whole number above 0"),
    "no layers": (("params", "--num-layers=0"), 2, "0 is not in the range x>=1"),
    "no time at all": (("flops", "--step-seconds=0"), 2, "0.0 is not in the range x>0"),
    "no file": (("params", "nowhere.yaml"), 1, "nowhere.yaml"),
}


@pytest.mark.parametrize(("arguments", "code", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_a_sentence(arguments: tuple[str, ...], code: int, sentence: str):
    """A mistake gives a message on stderr, no traceback, and nothing on stdout.

    The exit code is 1, or 2 if the command line is wrong.
    """
    result = estimate(*arguments)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""


@pytest.mark.parametrize("option", ["--model=52B", "--gated-mlp", "--gpu=A100"])
def test_a_campaign_and_a_model_are_not_asked_for_at_once(campaign: str, option: str):
    """A campaign and a model together are refused, because neither may be silently ignored."""
    result = estimate("flops", campaign, option)
    assert result.exit_code == 2
    assert f"{option.partition('=')[0]}: cannot be used with a campaign" in result.stderr


def test_a_campaign_without_a_model_is_reported(tmp_path: Path):
    """A campaign is refused if teralog does not know the model of any of its runs.

    E.g. teralog does not know the model in a user's own script.
    """
    path = tmp_path / "campaign.yaml"
    path.write_text("name: x\ndefaults: {framework: deepspeed, script: train.py}\n")
    result = estimate("params", str(path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "nothing to estimate, because none of its runs has a model" in result.stderr


@pytest.mark.parametrize("number", ["nan", "inf", "0", "-1"])
@pytest.mark.parametrize("option", ["--step-seconds", "--gpu-peak-tflops"])
def test_a_number_that_is_not_above_zero_is_refused(option: str, number: str) -> None:
    """For a step time or a peak, the options refuse 0, negative numbers, NaN and infinity."""
    done = estimate("flops", "--model", "52B", option, number)
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("options", "is_reported"),
    [
        ("--gpu H200", True),
        ("--step-seconds 2", True),
        ("--gpu H200 --step-seconds 2", True),
        ("--gpu H200 --step-seconds 2 --world-size 8", False),
        ("", False),
    ],
)
def test_a_speed_that_cannot_be_worked_out_is_reported(options: str, is_reported: bool) -> None:
    """If options for TFLOPs are incomplete, a message names the two that TFLOPs need.

    They are --world-size and --step-seconds.
    """
    done = estimate("flops", "--model", "52B", "--global-batch-size", "8", *options.split())
    assert done.exit_code == 0
    assert ("need both --world-size and --step-seconds" in done.stderr) == is_reported


COUNTS: dict[str, int | None] = {
    "300e9": 300 * 10**9,
    "300B": 300 * 10**9,
    "300b": 300 * 10**9,
    "1.5T": 1_500 * 10**9,
    "0.35k": 350,
    "7m": 7 * 10**6,
    "300,000": 300_000,
    "1e+3": 1_000,
    "12": 12,
    "0": None,
    "0.5": None,
    "1.5": None,
    "-3B": None,
    "inf": None,
    "nan": None,
    "B": None,
    "3GB": None,
    "1e999": None,
    "": None,
}


@pytest.mark.parametrize(("text", "number"), COUNTS.items(), ids=COUNTS)
def test_a_count_may_have_a_unit_in_either_case(text: str, number: int | None):
    """A number of tokens or parameters may end with a unit in either case, e.g. `7B` or `7b`.

    A number that is not an integer above 0 is refused.
    """
    others = ("--parameters=1", "--world-size=1", "--tflops-per-gpu=1")
    if number is None:
        refused = estimate("time", f"--tokens={text}", *others)
        assert refused.exit_code == 2
        assert "is not a whole number above 0; write e.g. 300B or 300e9" in refused.stderr
        return
    (record,) = of_json("time", f"--tokens={text}", *others)
    assert record["numbers"] == f"6·{number}·1 / (1·1e12)"
    (record,) = of_json("time", "--tokens=1", f"--parameters={text}", *others[1:])
    assert record["numbers"] == f"6·1·{number} / (1·1e12)"


def test_a_preset_is_found_in_any_case():
    """A preset is found in any case, e.g. `52b` for 52B.

    If the names of two presets differ only in case, e.g. 18b and 18B, the name that matches exactly
    is chosen, and a message describes the other preset.
    """
    assert of_json("params", "--model=52b")["parameters"] == 51_966_533_632
    assert estimate("params", "--model=52b").stderr == ""
    small, large = estimate("params", "--model=18b"), estimate("params", "--model=18B")
    assert small.stdout != large.stdout
    assert (
        "18b has 90 layers of width 4096; the preset 18B is another model, with 40 layers"
        in small.stderr
    )
    assert (
        "18B has 40 layers of width 6144; the preset 18b is another model, with 90 layers"
        in large.stderr
    )


def test_runs_with_the_same_numbers_have_one_row(tmp_path: Path):
    """Text output merges equal runs into one row; JSON has each run."""
    path = tmp_path / "campaign.yaml"
    path.write_text(
        CAMPAIGN.partition("matrix")[0].replace("v100.yaml", "local")
        + """\
matrix:
  strategy: [ddp, zero1, zero2]
  model: [{preset: s}, {preset: m}]
"""
    )
    rows = estimate("params", str(path)).stdout.splitlines()[3:5]
    assert [row.partition("  ")[0] for row in rows] == [
        "ddp s and 2 more",
        "ddp m and 2 more",
    ], rows
    assert len(of_json("params", str(path))) == 6
    flops = estimate("flops", str(path), "--format=csv", "--step-seconds=1").stdout
    assert len(flops.splitlines()) == 1 + 6 * len(FORMULA_CONVENTIONS)
    names = re.findall(
        r"^\|\s*(\S.*?) +\|", estimate("flops", str(path), "--format=markdown").stdout, re.MULTILINE
    )
    assert names[1:] == ["ddp s and 2 more"] * 6 + ["ddp m and 2 more"] * 6
    times = estimate("time", str(path), "--step-seconds=1").stdout
    assert "ddp s and 5 more" in times
