"""`teralog estimate memory`: a forecast for options of the command line, or for a campaign."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main

LARGE = ("--model", "52B", "--world-size", "64", "--activation-checkpointing")


def memory(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["estimate", "memory", *arguments])


def record(*arguments: str) -> dict[str, Any]:
    """Return what it says for programs, of one model."""
    result = memory(*arguments, "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    return dict(found)


@pytest.mark.parametrize(("stage", "fits"), [("2", "no"), ("3", "yes")])
def test_a_model_s_memory_is_told_with_its_parts(stage: str, fits: str):
    """The ends are the sums of the parts."""
    found = record(*LARGE, "--zero-stage", stage, "--gpu", "V100-SXM2-32GB")
    assert (found["fits"], found["capacity_gib"]) == (fits, 32)
    assert found["low_gib"] == pytest.approx(sum(part["low_gib"] for part in found["parts"]))


def test_what_is_printed_has_every_part_and_the_interval():
    """With where each number comes from."""
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
def test_every_option_is_looked_at(arguments: tuple[str, ...]):
    """Each of these needs less than plain ZeRO-2."""
    usual = record(*LARGE, "--zero-stage", "2", "--micro-batch-size", "16")
    assert record(*LARGE, *arguments)["high_gib"] < usual["high_gib"]


def test_a_gpu_that_is_not_known_has_no_verdict_and_is_named():
    """Half a name may be several."""
    assert record(*LARGE, "--zero-stage", "3", "--gpu", "V100")["fits"] is None
    assert "'V100' may be" in memory(*LARGE, "--zero-stage", "3", "--gpu", "V100").stdout


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
def test_what_does_not_go_together_is_said(arguments: tuple[str, ...], sentence: str):
    """In the words of the command line."""
    result = memory(*LARGE, *arguments)
    assert result.exit_code == 1
    assert sentence in result.stderr


def test_a_campaign_s_runs_stand_in_one_table(tmp_path: Path):
    """And a model beside it is refused."""
    path = tmp_path / "campaign.yaml"
    path.write_text(
        "name: a\ndefaults: {framework: gpt, model: s}\nmatrix: {strategy: [ddp, zero1]}"
    )
    text = memory(str(path)).stdout
    assert [line.split()[0] for line in text.splitlines()[3:5]] == ["ddp", "zero1"]
    assert memory(str(path), "--model", "s").exit_code == 2
