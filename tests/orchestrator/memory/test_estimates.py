"""`teralog estimate memory` for options of the command line, or for a campaign."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main

LARGE = ("--model", "52B", "--world-size", "64", "--activation-checkpointing")


def memory(*arguments: str) -> Result:
    """Run `teralog estimate memory`."""
    return CliRunner().invoke(main, ["estimate", "memory", *arguments])


def record(*arguments: str) -> dict[str, Any]:
    """Return the JSON object that `teralog estimate memory` prints for one model."""
    result = memory(*arguments, "--json")
    assert result.exit_code == 0, result.output
    (model,) = json.loads(result.stdout)
    return dict(model)


@pytest.mark.parametrize(("stage", "fits"), [("2", "no"), ("3", "yes")])
def test_a_model_s_memory_is_reported_with_its_parts(stage: str, fits: str):
    """The low end of a forecast is the sum of the low ends of its parts."""
    measured = record(*LARGE, "--zero-stage", stage, "--gpu", "V100-SXM2-32GB")
    assert (measured["fits"], measured["capacity_gib"]) == (fits, 32)
    assert measured["low_gib"] == pytest.approx(sum(part["low_gib"] for part in measured["parts"]))


def test_the_output_has_every_part_and_the_interval():
    """The output has the parts of the forecast, how each is computed, and the verdict."""
    text = memory(*LARGE, "--zero-stage", "2", "--gpu", "V100-SXM2-32GB").stdout
    assert "weights" in text
    assert "51,966,533,632 parameters of 2 bytes" in text
    assert "V100-SXM2-32GB has 32; fits: no" in text


LOWER: dict[str, tuple[str, ...]] = {
    "stage": ("--zero-stage", "3", "--micro-batch-size", "16"),
    "offload of the optimizer": (
        *("--zero-stage", "2", "--micro-batch-size", "16"),
        "--offload-optimizer",
    ),
    "a smaller micro-batch": ("--zero-stage", "2", "--micro-batch-size", "2"),
    "tensor parallelism": (
        *("--zero-stage", "2", "--micro-batch-size", "16"),
        *("--tensor-parallel-size", "4"),
    ),
    "a pipeline": (
        *("--zero-stage", "2", "--micro-batch-size", "16"),
        *("--pipeline-parallel-size", "4"),
    ),
    "Megatron over all ranks": (
        *("--tensor-parallel-size", "4", "--pipeline-parallel-size", "16"),
        *("--micro-batch-size", "16"),
    ),
}


@pytest.mark.parametrize("arguments", LOWER.values(), ids=LOWER)
def test_each_of_these_options_lowers_the_forecast(arguments: tuple[str, ...]):
    """More parallelism, offloading or a smaller micro-batch needs less memory than plain ZeRO-2."""
    usual = record(*LARGE, "--zero-stage", "2", "--micro-batch-size", "16")
    assert record(*LARGE, *arguments)["high_gib"] < usual["high_gib"]


CAPACITIES: dict[str, tuple[tuple[str, ...], list[tuple[float, str]], str]] = {
    "one size": (("--gpu=V100-SXM2-32GB",), [(32, "yes")], "has 32; fits: yes"),
    "two sizes": (
        ("--gpu=V100",),
        [(16, "maybe"), (32, "yes")],
        "V100 has 16 or 32; fits: maybe with 16 GiB, yes with 32 GiB",
    ),
    "two sizes, the same verdict": (
        ("--gpu=A100",),
        [(40, "yes"), (80, "yes")],
        "A100 has 40 or 80; fits: yes",
    ),
    "a size of one's own": (("--gpu-memory=16",), [(16, "maybe")], "a GPU has 16; fits: maybe"),
    "both": (("--gpu=V100", "--gpu-memory=64"), [(64, "yes")], "V100 has 64; fits: yes"),
    "not known": (("--gpu=B900",), [], "'B900' is not in the table of GPUs; give --gpu-memory GIB"),
    "not given": ((), [], "the rank that needs the most memory needs"),
}


@pytest.mark.parametrize(("options", "verdicts", "text"), CAPACITIES.values(), ids=CAPACITIES)
def test_every_memory_that_a_gpu_may_have_gets_a_verdict(
    options: tuple[str, ...], verdicts: list[tuple[float, str]], text: str
):
    """If a GPU's name stands for several memory sizes, each size has a verdict.

    In the JSON, capacity_gib is null if there are several sizes. fits is null if verdicts differ.
    """
    measured = record(*LARGE, "--zero-stage", "3", *options)
    assert [(capacity["gib"], capacity["fits"]) for capacity in measured["capacities"]] == verdicts
    assert measured["capacity_gib"] == (verdicts[0][0] if len(verdicts) == 1 else None)
    different = {verdict for _, verdict in verdicts}
    assert measured["fits"] == (different.pop() if len(different) == 1 else None)
    assert text in memory(*LARGE, "--zero-stage", "3", *options).stdout


def test_a_campaign_on_gpus_of_two_sizes_has_both_verdicts(tmp_path: Path):
    """If a GPU is sold with two memory sizes, the table has a verdict for each size."""
    (tmp_path / "v100.yaml").write_text("gpus_per_node: 4\ngpu: V100\n")
    path = tmp_path / "campaign.yaml"
    path.write_text(
        "name: a\ncluster: v100.yaml\ndefaults: {framework: gpt, model: xl, precision: fp16}\n"
        "matrix: {seed: [1, 2]}"
    )
    text = memory(str(path)).stdout
    assert "seed=1 and 1 more" in text.splitlines()[3]
    assert "no with 16 GiB, maybe with 32 GiB" in text.splitlines()[3]
    assert text.count("the rank that needs the most memory") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--offload-optimizer",), "--offload-optimizer needs --zero-stage 1, 2, 3"),
        (
            ("--offload-parameters", "--zero-stage", "2"),
            "--offload-parameters needs --zero-stage 3",
        ),
        (("--tensor-parallel-size", "3"), "--world-size 64 is not divisible by"),
    ],
)
def test_contradictory_options_are_reported(arguments: tuple[str, ...], sentence: str):
    """The message about contradictory options has their names on the command line."""
    result = memory(*LARGE, *arguments)
    assert result.exit_code == 1
    assert sentence in result.stderr


def test_a_campaign_s_runs_are_in_one_table(tmp_path: Path):
    """The runs of a campaign are in one table. `--model` in addition to a campaign is refused."""
    path = tmp_path / "campaign.yaml"
    path.write_text(
        "name: a\ndefaults: {framework: gpt, model: s}\nmatrix: {strategy: [ddp, zero1]}"
    )
    text = memory(str(path)).stdout
    assert [line.split()[0] for line in text.splitlines()[3:5]] == ["ddp", "zero1"]
    assert memory(str(path), "--model", "s").exit_code == 2
