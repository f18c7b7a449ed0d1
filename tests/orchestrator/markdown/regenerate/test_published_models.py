"""Compute TFLOPs of published models again, from tokens/s per GPU."""

from orchestrator.markdown.meaning.settings import PageSettings
from orchestrator.markdown.regenerate.page import regenerate

TITLES = "| System | #-GPUs | Sequence Length | Tokens / sec / GPU | Model TFLOP / sec / GPU |"
DASHES = "|---|---|---|---|---|"
# GFLOPs per token of Llama 3 8B at 8,192 tokens: with causal attention 51.48, with all keys 57.91.
CAUSAL, ALL = 51.477, 57.911


def page(*rows: str, heading: str = "#### Model: LLAMA3_8B", titles: str = TITLES) -> bytes:
    """Return a page with one table."""
    return "\n".join([heading, "", titles, DASHES, *rows, ""]).encode()


def row(tokens: int, tflops: str, name: str = "DGX-H100") -> str:
    """Return a row of a run on 7 GPUs."""
    return f"| {name} | 7 | 8192 | {tokens} | {tflops} |"


def changes(data: bytes, **settings: object) -> list[tuple[str, str]]:
    """Return the old and the new text of the cells that change."""
    made = regenerate(data, PageSettings(**settings))  # type: ignore[arg-type]
    return [(change.old, change.new) for change in made.changes]


def test_right_cells_stay_and_wrong_ones_are_computed_as_the_page_counts() -> None:
    """Right TFLOPs stay. Wrong ones are computed again in the way of the page's other rows.

    In this test, the other rows count causal attention.
    """
    right = [row(tokens, f"{tokens * CAUSAL / 1e3:.0f}") for tokens in (10_007, 12_345)]
    wrong = [row(10_007, f"{10_007 * CAUSAL * 1.2 / 1e3:.0f}")]
    assert changes(page(*right, *wrong)) == [("618", "515")]
    assert changes(page(*(row(10_007, f"{10_007 * ALL / 1e3:.0f}") for _ in range(2)))) == []


def test_the_user_may_say_which_keys_count() -> None:
    """The setting `attention` decides which keys are included in the FLOPs of attention.

    The user gives it as an option or in a comment of the page. It overrides the convention of the
    page's other rows.
    """
    data = page(row(10_007, "515"))
    assert changes(data, attention="window") == [("515", "580")]
    assert changes(b"<!-- teralog: attention=full -->\n\n" + data) == [("515", "580")]


def test_plain_tflops_of_a_model_column_are_model_flops() -> None:
    """If a row names a published model, its TFLOPs follow from tokens/s per GPU and the model.

    Neither the global batch nor the number of parameters is needed.
    """
    titles = "| Model | #GPUs | Seq Length | TPS/GPU | TFLOPs/GPU |"
    data = page(row(10_007, "", "Llama3 8B"), heading="# Speed", titles=titles)
    made = regenerate(data, PageSettings(attention="causal"))
    assert b"515.1" in made.data


def test_a_model_that_is_not_known_is_named() -> None:
    """If the model of a table is unknown, a message names it, and the rows stay as they are."""
    data = page(row(10_007, "618"), heading="#### Model: Secret 1T")
    made = regenerate(data, PageSettings())
    assert made.data == data
    assert ["'Secret 1T' is not a model" in remark.text for remark in made.unclear] == [True]
