"""Labels of runs are short, and safe to type in a shell."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.campaign.campaign import Campaign
from orchestrator.campaign.labels import shell_safe

LARGE = (
    "{num_layers: 40, hidden_size: 6144, num_attention_heads: 48, vocab_size: 51200, "
    "seq_length: 2048}"
)
SMALL = "{num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}"
TINY = "{num_layers: 1, hidden_size: 2, num_attention_heads: 1, vocab_size: 2, seq_length: 2}"
NEARLY_A_MILLION = SMALL.replace("512", "13995")
WIDE = "{num_layers: 2, hidden_size: 64, num_attention_heads: 8, vocab_size: 512, seq_length: 64}"


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ("micro_batch_size: [1, 2]", ["mb1", "mb2"]),
        ("strategy: [ddp, zero1], nodes: [2]", ["ddp", "zero1"]),
        ("seed: [1, 2]", ["seed=1", "seed=2"]),
        (f"model: [{LARGE}, {SMALL}]", ["18.4B", "137k"]),
        (f"model: [{SMALL}, {WIDE}]", ["2-64-4-512-64", "2-64-8-512-64"]),
        (f"model: [s, {SMALL}]", ["s", "137k"]),
        (f"model: [{TINY}, {SMALL}]", ["86", "137k"]),
        (f"model: [{NEARLY_A_MILLION}, {SMALL}]", ["1M", "137k"]),
    ],
)
def test_labels_are_short(
    campaign_of: Callable[[str], Campaign], matrix: str, expected: list[str]
) -> None:
    """A label abbreviates parameters, e.g. "mb2" for a micro-batch size of 2.

    A model without a name is shown by its number of parameters, e.g. "18.4B". If two models have
    nearly the same number, they are shown by their shapes.
    """
    text = f"name: c\ndefaults: {{framework: gpt, model: {SMALL}}}\nmatrix: {{{matrix}}}\n"
    labels = [planned.label for planned in campaign_of(text).runs]
    assert labels == expected


def test_repeats_are_numbered_without_a_comment_sign(
    campaign_of: Callable[[str], Campaign],
) -> None:
    """A label numbers repeats as r1, r2, …, because `#1` would begin a comment in a shell."""
    text = f"name: c\nrepeats: 2\ndefaults: {{framework: gpt, model: {SMALL}}}\n"
    assert [planned.label for planned in campaign_of(text).runs] == ["gpt r1", "gpt r2"]


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40))
def test_a_shell_changes_no_word_of_a_label(text: str) -> None:
    """A shell splits an unquoted label only at its spaces, and changes none of its characters."""
    label = shell_safe(text)
    assert label == label.strip() != ""
    assert shlex.split(label, comments=True) == label.split(" ")
    assert not set(label) & set(";&|<>*?\"'`$(){}[]\\!")


def test_bash_splits_labels_into_the_same_words(tmp_path: Path) -> None:
    """An unquoted label stays unchanged in bash, even if a wildcard would match a file."""
    (tmp_path / "x").touch()
    label = shell_safe('zero2 ds={"a": [1, 2]} ~/x # $HOME `id` * ? !! a;b a|b >x <y &')
    done = subprocess.run(
        ["bash", "-c", f"printf '%s ' {label}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == label
