"""Check the TFLOP/s of published models on performance pages."""

from pathlib import Path

import pytest

from orchestrator.markdown.check.findings import FindingKind
from orchestrator.markdown.check.page import check_page
from orchestrator.markdown.meaning.benchmark_pages import read_page

TITLES = "| System | #-GPUs | Sequence Length | Tokens / sec / GPU | Model TFLOP / sec / GPU |"
DASHES = "|---|---|---|---|---|"
# FLOPs per token with causal attention, by hand: 6 · (parameters without embedding and norms) +
# 6 · layers · width of heads · (s + 1) for Llama 3 8B, 4,096 wide, at 8,192 tokens.
LLAMA3_8B = 6 * (8_030_261_248 - (128_256 + 65) * 4096) + 6 * 32 * 4096 * 8193


def page(model: str, *rows: str, titles: str = TITLES, above: str = "") -> bytes:
    """Return a page with one table below a heading that names the model."""
    return "\n".join([above, f"#### Model: {model}", "", titles, DASHES, *rows, ""]).encode()


def findings_of(data: bytes) -> list[tuple[FindingKind, str]]:
    """Return the type and the message of each finding on a page."""
    return [(finding.kind, finding.message) for finding in check_page(read_page(data))]


def row(tokens: str, tflops: str, seq: str = "8192", gpus: int = 7) -> str:
    """Return a table row with these cells.

    tokens: tokens/s per GPU. tflops: TFLOP/s per GPU. seq: sequence length. gpus: number of GPUs,
    by default 7, so that a speed does not look like a whole number of sequences per second.
    """
    return f"| DGX-H100 | {gpus} | {seq} | {tokens} | {tflops} |"


def llama(tokens: int, factor: float = 1.0) -> str:
    """Return a row of Llama 3 8B whose TFLOP/s are `factor` times the right value."""
    return row(str(tokens), f"{tokens * LLAMA3_8B * factor / 1e12:.0f}")


def test_tflops_that_follow_from_the_model_are_right() -> None:
    """TFLOP/s that follow from the model and tokens/s give no finding, however they are written.

    E.g. with thousands separators, bold text, footnotes, or `8K` for the sequence length.
    """
    tflops = f"**{12_345 * LLAMA3_8B / 1e12:.0f}**[^1]"
    assert findings_of(page("LLAMA3_8B", llama(12_345), row("12,345", tflops, "8K"))) == []


def test_a_row_that_is_30_percent_too_high_is_found() -> None:
    """TFLOP/s that do not follow from the model and tokens/s give a finding.

    Its message has the FLOPs per token that the row implies, those of the model, and the right
    TFLOP/s.
    """
    [(kind, message)] = findings_of(page("Llama 3 8B", llama(12_345), llama(12_345, 1.3)))
    assert kind is FindingKind.MODEL_FLOPS
    assert "implies 66.91 GFLOPs per token" in message
    assert "llama3-8b has 51.47 at 8192 tokens" in message
    assert "so 635 TFLOP/s would be right" in message
    assert "no known way to count" in message


@pytest.mark.parametrize(
    ("model", "tokens", "tflops", "why"),
    [
        ("GPT OSS 120B", 19_366, 526, "two matrices"),
        ("GPT OSS 120B", 19_366, 526, "ignores attention windows"),
        ("Nemotron_3_Nano", 39_749, 885, "inner width 2h"),
        ("DeepSeekV3", 1_000, 281, "over all keys"),
        ("DeepSeekV3", 1_000, 334, "recomputed"),
        ("Mixtral 8x7B", 1_000, 77.3, "6N"),
        ("GPT-OSS 20B", 13_058, 279, "width is hidden size / heads"),
        ("Llama3 8B LoRA", 12_472, 402, "two thirds"),
    ],
)
def test_a_known_convention_is_named(model: str, tokens: int, tflops: float, why: str) -> None:
    """If wrong TFLOP/s follow from a known way to count FLOPs, the finding names this way.

    E.g. a way that ignores attention windows, or counts recomputation.
    """
    length = "8192" if "Nano" in model else "4096"
    causal = page("Llama3 8B", llama(12_345), llama(10_007)).decode()
    data = causal + page(model, row(str(tokens), str(tflops), length)).decode()
    [(kind, message)] = findings_of(data.encode())
    assert kind is FindingKind.MODEL_FLOPS
    assert why in message


def test_multi_token_prediction_counts() -> None:
    """TFLOP/s of DeepSeek-V3 give no finding, with or without its layer for multi-token prediction.

    With this layer, DeepSeek-V3 takes 260.0 GFLOPs per token, and 250.5 without it.
    """
    rows = [row("6289", f"{6289 * 0.2600:.0f}", "4096"), row("4912", "1277", "4096")]
    assert findings_of(page("DeepSeekV3", *rows)) == []
    assert (
        findings_of(page("DeepSeekV3 (w/o MTP)", row("6289", f"{6289 * 0.2498:.0f}", "4096"))) == []
    )


def test_adapters_have_no_gradients_of_frozen_weights() -> None:
    """For LoRA, TFLOP/s that count only two thirds of the model's FLOPs give no finding.

    LoRA freezes the model's weights, so their gradients are not computed. Without the word LoRA in
    the heading, the same TFLOP/s give findings.
    """
    rows = [row("2643", "735", "4096"), row("2551", "710", "4096")]
    assert findings_of(page("LLAMA3_70B", *rows, above="### LoRA Performance")) == []
    assert len(findings_of(page("LLAMA3_70B", *rows))) == 2


def test_rows_of_a_model_that_is_not_known_must_agree() -> None:
    """For an unknown model, TFLOP/s divided by tokens/s must be equal in all rows."""
    rows = [row(str(tokens), str(tokens // 10)) for tokens in (1000, 2000, 3000)]
    [(kind, message)] = findings_of(page("Secret 1T", *rows, row("1000", "120")))
    assert kind is FindingKind.UNEQUAL_FLOPS
    assert "120 GFLOPs per token, but 3 other rows" in message
    assert findings_of(page("Secret 1T", *rows, row("1000", "120", "4096"))) == []


def test_speeds_in_whole_sequences_are_coarse() -> None:
    """If a speed is a whole number of sequences per second, the page may have rounded it.

    E.g. 39936 tokens/s per GPU on 8 GPUs are 39 sequences of 8192 tokens per second.
    Then any speed from 38.5 to 39.5 sequences per second is accepted.
    """
    rows = [row("39936", "1000", gpus=8), row("39936", "1024", gpus=8)]
    assert findings_of(page("Secret 1T", *rows)) == []
    assert len(findings_of(page("Secret 1T", row("39937", "1000"), row("39937", "1024")))) == 1


def test_tflops_from_step_time_and_batch() -> None:
    """Without tokens/s, the speed follows from time, batch, sequence length and GPUs."""
    titles = "| Model | GPUs | GBS | Seq Length | Time per Global Step (s) | Model TFLOPs/sec/GPU |"
    dashes = "|---|---|---|---|---|---|"
    tflops = 512 * 8192 * LLAMA3_8B / 20 / 16 / 1e12
    right = f"| Llama3 8B | 16 | 512 | 8192 | 20.000 | {tflops:.0f} |"
    wrong = f"| Llama3 8B | 16 | 512 | 8192 | 20.000 | {tflops * 1.2:.0f} |"
    messages = findings_of(f"# P\n{titles}\n{dashes}\n{right}\n{wrong}\n".encode())
    assert [kind for kind, _ in messages] == [FindingKind.MODEL_FLOPS]


PAGE = Path(__file__).parents[5] / "shared/data/tables/megatron-bridge-performance-summary.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the shared page is not here")
def test_the_shared_page_has_one_model_counted_otherwise() -> None:
    """On the real performance page in ../shared, only the TFLOP/s of nemotron3-nano give a finding.

    The page has nine models. For the Mamba layers of nemotron3-nano, it assumes an inner width of
    2h, h being the hidden size.
    """
    [(kind, message)] = findings_of(PAGE.read_bytes())
    assert kind is FindingKind.MODEL_FLOPS
    assert "nemotron3-nano" in message
    assert "inner width 2h" in message


@pytest.mark.parametrize(
    ("gpu", "precision", "tflops", "above"),
    [
        ("DGX-H100", "BF16", 1100, "989.5"),
        ("DGX-H100", "FP8", 1100, None),
        ("DGX-H100", "FP8", 2100, "1979"),
        ("H100-PCIe", "BF16", 800, "756.5"),
        ("DGX-GB300", "NVFP4", 9000, None),
        ("Secret GPU", "BF16", 9000, None),
    ],
)
def test_tflops_above_the_peak_of_the_row(
    gpu: str, precision: str, tflops: int, above: str | None
) -> None:
    """TFLOP/s above the peak of the row's GPU and number format give a finding.

    An unknown peak gives no finding.
    """
    titles = "| System | Precision | Model TFLOP / sec / GPU |"
    data = f"# P\n\n{titles}\n|---|---|---|\n| {gpu} | {precision} | {tflops} |\n".encode()
    assert [kind for kind, _ in findings_of(data)] == [FindingKind.TFLOPS_ABOVE_PEAK] * bool(above)
    assert all(
        f"peak of {gpu.split('-')[1][:4]}" in message
        for _, message in findings_of(data)
        if "DGX" in gpu
    )


MPT = """# MPT Training Benchmarks

## H100 80GB BF16

| Model | SeqLen (T) | # GPUs | Model TFLOP | Throughput (T/s/GPU) |
|---|---|---|---|---|
| 7b | 2048 | 8 | {tflops} | 10643 |
"""


@pytest.mark.parametrize(("tflops", "findings"), [("460", 0), ("560", 1)])
def test_a_size_in_a_row_is_completed_by_a_heading(tflops: str, findings: int) -> None:
    """If a row has only a size, e.g. 7b, the heading names the model's family, e.g. MPT.

    In the title `T/s/GPU`, T means tokens, as in llm-foundry's tables.
    """
    kinds = [kind for kind, _ in findings_of(MPT.format(tflops=tflops).encode())]
    assert kinds == [FindingKind.MODEL_FLOPS] * findings
