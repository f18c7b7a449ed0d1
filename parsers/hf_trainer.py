"""The lines of Hugging Face's Trainer: its result, as a dictionary and as a block of metrics.

    {'train_runtime': 437.8544, 'train_samples_per_second': 25.132, …, 'epoch': 3.0}
    {'train_runtime': '437.9', 'train_samples_per_second': '25.13', …, 'epoch': '3'}     since 5.0
    ***** train metrics *****
      train_runtime            = 0:07:17.85

Read in trainer.py, trainer_utils.py and trainer_callback.py of transformers 4.40 to 5.23:

* `train_runtime` is the wall time of the whole training loop, evaluation and checkpoints within it
  included; the two rates are the samples and the optimizer steps that were planned, divided by it.
* Where there is no `train_steps_per_second`, the line may be of transformers 4.6 or older, whose
  `train_samples_per_second` was the number of *steps* a second. Nothing else in the line tells
  the two apart, so such a rate is not reported.
* `train_tokens_per_second` counts one device's tokens, whereas the other rates are of all ranks.
  So it is a record of its own, with `per_gpu`.
* Since 5.0, four significant digits are printed, in quotes.

**Copies.** The first rank of each node prints the dictionary, the first of all prints the block
too: a training on 16 nodes says its result 17 times. Each is a record. Copies stand behind each
other, without the start of another run between them; their clocks were stopped by each node for
itself, so train_seconds differs by fractions of a second, and a rate in its last digit.

Reports on the way are read in `hf_trainer_reports`. With `include_num_input_tokens_seen` they hold
a `train_runtime`, too: that of the training so far, which is no result.
"""

import re
from collections.abc import Iterator, Mapping

from parsers.fields import COUNT, NUMBER, finite, printed
from parsers.line_parts import line_parts
from parsers.records import RunTotals
from parsers.scan import LogFormat

_DICTIONARY = re.compile(r"\{'[^{}\n]*\}")
_ITEM = re.compile(rf"'(?P<name>\w+)': (?P<quote>'?)(?P<value>{NUMBER})(?P=quote)(?=, '|\}})")

_ENTRY = re.compile(
    r"(?<!\w)(?P<name>train_(?:runtime|loss|(?:samples|steps|tokens)_per_second))"
    r"\s+=\s+(?P<value>\S.*)"
)
_DURATION = re.compile(
    rf"(?:(?P<days>{COUNT}) days?, )?"
    r"(?P<hours>[0-9]{1,2}):(?P<minutes>[0-9]{2}):(?P<seconds>[0-9]{2})\.(?P<hundredths>[0-9]{2})"
)


def dictionaries(text: str) -> Iterator[tuple[dict[str, str], int]]:
    """Yield the numbers in each dictionary of a text, as printed, and where the dictionary ends."""
    for dictionary in _DICTIONARY.finditer(text):
        values = {item["name"]: item["value"] for item in _ITEM.finditer(dictionary[0])}
        yield values, dictionary.end()


def _parse_result(offset: int, line: str) -> Iterator[RunTotals]:
    for part in line_parts(line):
        for values, _ in dictionaries(part):
            if "train_samples_per_second" in values and "loss" not in values:
                seconds = finite(values.get("train_runtime"))
                if seconds is not None:
                    yield from _totals(offset, seconds, values)


def _parse_metrics(offset: int, text: str) -> Iterator[RunTotals]:
    _, *lines = text.split("\n")
    values: dict[str, str] = {}
    width = None
    for number, line in enumerate(lines, start=1):
        if "*****" in line:
            break  # another block
        if not (entry := _ENTRY.search(line.rstrip())):
            continue
        # Values are aligned on the right, which shows whether the log's last line is whole.
        if number == len(lines) and entry.end() - entry.start() != width:
            break
        width = entry.end() - entry.start()
        values.setdefault(entry["name"], entry["value"])
    seconds = _seconds(values.get("train_runtime", ""))
    if seconds is not None:
        yield from _totals(offset, seconds, values)


def _totals(offset: int, seconds: float, values: Mapping[str, str]) -> Iterator[RunTotals]:
    steps_per_second = _number(values.get("train_steps_per_second"))
    samples_per_second = _number(values.get("train_samples_per_second"))
    mean_loss = values.get("train_loss")
    yield RunTotals(
        train_seconds=seconds,
        samples_per_second=None if steps_per_second is None else samples_per_second,
        steps_per_second=steps_per_second,
        mean_loss=None if mean_loss is None or not _is_number(mean_loss) else printed(mean_loss),
        offset=offset,
    )
    tokens_per_second = _number(values.get("train_tokens_per_second"))
    if tokens_per_second is not None:
        yield RunTotals(tokens_per_second=tokens_per_second, per_gpu=True, offset=offset)


def _is_number(text: str) -> bool:
    return re.fullmatch(NUMBER, text) is not None


def _number(text: str | None) -> float | None:
    return finite(text) if text is not None and _is_number(text) else None


def _seconds(text: str) -> float | None:
    """Return what `1 day, 2:03:04.05` is in seconds, None for other text."""
    if not (match := _DURATION.fullmatch(text)):
        return None
    minutes = (int(match["days"] or 0) * 24 + int(match["hours"])) * 60 + int(match["minutes"])
    # One division of whole numbers gives the float that is nearest to the decimal number.
    return ((minutes * 60 + int(match["seconds"])) * 100 + int(match["hundredths"])) / 100


HF_TRAINER_RESULT = LogFormat(
    name="Hugging Face Trainer, result",
    anchors=(b"'train_runtime': ",),
    parse=_parse_result,
    report=re.compile(r"\{'train_runtime': '?[0-9]"),
)

HF_TRAINER_METRICS = LogFormat(
    name="Hugging Face Trainer, block of metrics",
    anchors=(b"***** train metrics *****",),
    parse=_parse_metrics,
    following=24,
)
