"""Check model sizes in tables against the number of layers and the hidden size in the same row."""

import re
from collections.abc import Iterator
from fractions import Fraction

from orchestrator.markdown.check.findings import FindingKind, TableFinding, finding
from orchestrator.markdown.meaning.benchmark_rows import BenchmarkRow
from orchestrator.markdown.meaning.columns import Meaning
from orchestrator.markdown.meaning.printed_numbers import NumberRange
from orchestrator.run.shape import ModelShape

# For tables without a vocabulary: the largest vocabulary of a GPT (BLOOM's), and GPT-2's.
_LARGEST_VOCABULARY, _USUAL_VOCABULARY = 250_880, 50_257
_SEQ_LENGTH = 2048
_GIBI = Fraction(2**30, 10**9)
# A page with these words has models other than GPT, whose size does not follow from layers and
# hidden size.
_OTHER_MODELS = re.compile(
    rb"llama|mistral|mixtral|qwen|falcon|gemma|deepseek|baichuan|internlm|glm\b|\byi-|\bphi-?\d"
    rb"|\bt5\b|\bmoe\b|expert|swiglu|\bgqa\b|\bffn|intermediate.size",
    re.IGNORECASE,
)


def tells_of_other_models(data: bytes) -> bool:
    """Return whether a page contains a word about models other than GPTs, e.g. `llama` or `MoE`."""
    return _OTHER_MODELS.search(data) is not None


def model_size(row: BenchmarkRow) -> Iterator[TableFinding]:
    """Find a printed model size that contradicts the layers and the hidden size in the same row.

    The printed size is in 10**9 parameters. It is compared with a GPT-2 that has these layers
    and this hidden size. So only rows about GPTs can be checked. The embeddings may be counted once
    (tied), twice or not at all, because pages differ in this.
    """
    size = row.numbers.get(Meaning.PARAMETERS)
    layers = row.numbers.get(Meaning.NUM_LAYERS)
    hidden = row.numbers.get(Meaning.HIDDEN_SIZE)
    if size is None or layers is None or hidden is None:
        return
    vocabulary = row.numbers.get(Meaning.PADDED_VOCAB_SIZE)
    length = row.numbers.get(Meaning.SEQ_LENGTH)
    seq_length = length.whole if length else _SEQ_LENGTH
    usual = vocabulary.whole if vocabulary else _USUAL_VOCABULARY
    largest = 2 * vocabulary.whole if vocabulary else _LARGEST_VOCABULARY
    likely, high = (
        ModelShape(layers.whole, hidden.whole, 1, many, seq_length).parameters(many)
        for many in (usual, largest)
    )
    # The smallest size that people print is without embeddings, biases and norms.
    shape = NumberRange(Fraction(12 * layers.whole * hidden.whole**2), Fraction(high))
    printed = size.printed.interval()
    if printed.meets(shape):
        return
    likely_size = f"{likely / 1e9:.3g}B" if likely >= 1e9 else f"{likely / 1e6:.3g}M"
    is_gibi = (printed * NumberRange(_GIBI, _GIBI)).meets(shape)
    why = " (in units of 2**30, not of 10**9)" if is_gibi else ""
    yield finding(
        row,
        FindingKind.MODEL_SIZE,
        f"{size.shown}, but {layers.shown} and {hidden.shown} make {likely_size}{why}",
        last_digit_only=size.printed.interval(Fraction(3, 2)).meets(shape),
    )
