"""Compare docs/background/formulas.md with the code: its conventions, ratios, GPUs and options."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli.main import main
from orchestrator.common.tables import DASH
from orchestrator.hardware.gpus import GPUS, Gpu
from orchestrator.model.convention_names import CONVENTIONS
from orchestrator.run.flops import FORMULA_CONVENTIONS, Iteration, flops_by
from orchestrator.run.shape import ModelShape

TEXT = (Path(__file__).parents[3] / "docs" / "background" / "formulas.md").read_text()
APART = re.findall(r"^\| ([^|]+) \| (\d+), (\d+), (\d+), (\d+) \| (.+) \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("row", APART, ids=lambda row: row[0])
def test_conventions_are_as_far_apart_as_it_says(row: tuple[str, ...]):
    """The ratios between conventions' FLOPs on the page are those that the code gives.

    BigScience's convention with recomputation is divided by `hardware`. The conventions without
    recomputation, BigScience's among them, are divided by `model`.
    """
    layers, hidden, seq, vocab = (int(size) for size in row[1:5])
    model = ModelShape(layers, hidden, 1, vocab, seq)

    def flops(name: str, *, recomputed: bool = False) -> int:
        iteration = Iteration(
            model=model, padded_vocab_size=vocab, global_batch_size=1, recomputed=recomputed
        )
        counted = flops_by(CONVENTIONS[name], iteration)
        assert counted is not None
        return counted

    again = flops("bigscience", recomputed=True) / flops("hardware", recomputed=True)
    others = (flops(name) / flops("model") for name in ("bigscience", "palm", "megatron-core"))
    assert row[5] == " | ".join(f"{ratio:.3f}" for ratio in (again, *others))


def test_the_table_of_differences_is_there():
    """The page's table of ratios has six models, from GPT-2 to GPT-3."""
    assert len(APART) == 6


def test_every_convention_is_in_it():
    """The table of conventions in the page has every convention by its name."""
    assert re.findall(r"^\| `([a-z][a-z-]+)` \|", TEXT, re.MULTILINE) == [
        convention.name for convention in FORMULA_CONVENTIONS
    ]


def shown(gpu: Gpu) -> str:
    """Return the row that the page must have for a GPU."""
    peaks = (gpu.peak_tflops.get(precision) for precision in ("fp16", "bf16", "fp32"))
    cells = (
        gpu.name,
        gpu.dies,
        ", ".join(str(size) for size in gpu.memory_gib),
        *(DASH if peak is None else f"{peak:g}" for peak in peaks),
        gpu.source,
    )
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def test_every_gpu_is_in_it_with_its_figures():
    """The page has a row for every GPU: its dies, memory sizes, peak TFLOPs and source."""
    rows = [shown(gpu) for gpu in GPUS]
    assert "\n".join(rows) in TEXT


def test_every_option_that_changes_a_model_is_in_it():
    """The page explains each option of `estimate params` that describes a family of models.

    It does not explain options for sizes, input and output.
    """
    words = set(re.findall(r"^\| `(--[a-z-]+)` \|", TEXT, re.MULTILINE))
    help_text = CliRunner().invoke(main, ["estimate", "params", "--help"]).stdout
    offered = set(re.findall(r"--[a-z-]+", help_text))
    plain = {
        *("--model", "--num-layers", "--hidden-size", "--num-attention-heads", "--vocab-size"),
        *("--seq-length", "--tensor-parallel-size", "--position-table", "--help"),
        *("--config", "--megatron-arguments"),
        *("--format", "--json", "--wide"),
    }
    assert words == offered - plain
