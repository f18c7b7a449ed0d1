"""The settings with which a page's tables were computed."""

import pytest

from orchestrator.common.errors import UserError
from orchestrator.markdown.document.tables import read_document
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.settings import (
    KEYS,
    Formula,
    PageSettings,
    overridden,
    stated_seq_length,
    with_comment,
)


def settings_of(page: bytes) -> PageSettings:
    """Return the settings of a page that has one comment."""
    (comment,) = read_document(page).texts
    return with_comment(PageSettings(), comment, page)


def seq_length_of(page: bytes) -> tuple[int, int] | None:
    """Return the sequence length in a page's prose, and its line number."""
    return stated_seq_length(read_document(page), page)


def test_a_comment_sets_what_holds_below_it() -> None:
    """A `teralog` comment sets options, e.g. `factor`, and sizes of runs, e.g. `seq_length`."""
    settings = settings_of(
        b"<!-- teralog: seq_length=2048 factor=3 decimals=2 formula=narayanan\n"
        b'  gpu="A100 SXM4" gpu_peak_tflops=312 parameters=7.5B num_layers = 96 -->\n'
    )
    assert settings == PageSettings(
        formula=Formula.NARAYANAN,
        factor=3,
        decimals=2,
        gpu="A100 SXM4",
        gpu_peak_tflops=312,
        constants={
            Meaning.SEQ_LENGTH: 2048,
            Meaning.PARAMETERS: 7_500_000_000,
            Meaning.NUM_LAYERS: 96,
        },
    )


@pytest.mark.parametrize(("text", "tokens"), [("8192", 8192), ("8,192", 8192), ("8K", 8192)])
def test_a_sequence_length_may_have_a_unit(text: str, tokens: int) -> None:
    """A setting is read like a cell of the column of the same meaning, so 8K is 8192 tokens."""
    settings = settings_of(f"<!-- teralog: seq_length={text} -->".encode())
    assert settings.constants == {Meaning.SEQ_LENGTH: tokens}


@pytest.mark.parametrize(
    "page", [b"<!-- any other -->", b"<!-- teralog is nice -->", b"<!-- not teralog: factor=3 -->"]
)
def test_other_comments_set_nothing(page: bytes) -> None:
    """Only a comment that begins with `teralog` counts."""
    assert settings_of(page) == PageSettings()


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("seq_lenght=2048", "seq_lenght: is not a setting; did you mean 'seq_length'?"),
        ("seq_length=abc", "seq_length: 'abc' is not a whole number"),
        ("global_batch_size=2K", "global_batch_size: '2K' is not a whole number"),
        ("factor=5", "factor: '5' is not one of 3, 4"),
        ("formula=mine", "formula: 'mine' is not one of bigscience, narayanan"),
        ("decimals=99", "decimals: '99' is not one of 0, 1, 2, 3, 4, 5, 6"),
        ("gpu_peak_tflops=-1", "gpu_peak_tflops: '-1' is not a number above zero"),
        ("gpu_peak_tflops=nan", "gpu_peak_tflops: 'nan' is not a number above zero"),
        ("factor", "'factor' is not a setting such as seq_length=2048"),
    ],
)
def test_an_invalid_setting_is_reported(setting: str, problem: str) -> None:
    """An invalid setting in a comment raises UserError; the message has the comment's line."""
    with pytest.raises(UserError) as caught:
        settings_of(f"\n<!-- teralog: {setting} -->".encode())
    assert caught.value.problems == (f"2: {problem}",)


def test_all_problems_in_a_comment_are_reported_at_once() -> None:
    """If a comment has several problems, they are reported together, one sentence each."""
    with pytest.raises(UserError) as caught:
        settings_of(b"<!-- teralog: factor=5 decimals=1 foo=1 -->")
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("key", KEYS)
def test_every_key_can_be_set(key: str) -> None:
    """A comment can set every key in `KEYS`."""
    values = {"formula": "narayanan", "factor": "3", "gpu": "V100", "attention": "causal"}
    value = values.get(key, "2")
    assert settings_of(f"<!-- teralog: {key}={value} -->".encode()) != PageSettings()


@pytest.mark.parametrize(
    "line",
    [
        "Seq length is 1024",
        "- Sequence length: 1,024",
        "seq_length=1024",
        "**Sequence length** = `1024` tokens",
        "### Sequence Length=1024",
        "with a seq len of 1024.",
        "Seq length is 1024, for all",
        "Seq length is 1K",
        "Sequence length: **1 k** tokens",
    ],
)
def test_prose_names_the_sequence_length(line: str) -> None:
    """A sequence length in a page's prose is read if it is written in a usual way.

    E.g. "Seq length is 1024" or "seq_length=1024".
    """
    assert seq_length_of(f"# Page\n\n{line}\n".encode()) == (1024, 3)


@pytest.mark.parametrize(
    "page",
    [
        b"Seq length is 1024\n\nSeq length is 2048\n",
        b"```\nSEQ_LEN=512\nseq_length=512\n```\n",
        b"<!-- seq length is 512 -->\n",
        b"| a | b |\n| - | - |\n| 1 | seq length is 512 |\n",
        b"a sequence of lengths: 512",
        b"Seq length is 0",
        b"Seq length is 2.5 times longer",
        b"Seq length is 4K-32K",
        b"Seq length is 1M",
    ],
)
def test_a_note_that_is_not_plain_is_ignored(page: bytes) -> None:
    """A sequence length in code, a comment or a table cell is ignored.

    If the page's prose has two different lengths, both are ignored.
    """
    assert seq_length_of(page) is None


def test_a_length_said_twice_is_one() -> None:
    """If the prose gives the same sequence length twice, its line number is that of the first."""
    assert seq_length_of(b"Seq length is 1024\n\nSeq length is 1024\n") == (1024, 1)


def test_a_page_that_sets_an_option_otherwise_is_noticed() -> None:
    """A message names each setting of the page that differs from the user's option."""
    given = PageSettings(factor=3, constants={Meaning.SEQ_LENGTH: 1024, Meaning.NODES: 2})
    constants = {Meaning.SEQ_LENGTH: 2048, Meaning.NODES: 2}
    page = PageSettings(factor=4, decimals=1, constants=constants)
    assert list(overridden(given, page)) == ["factor=4", "seq_length=2048"]
    assert list(overridden(PageSettings(), page)) == []
