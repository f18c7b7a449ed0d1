"""Parse the lines of Hugging Face's Trainer: its result, and the reports before it.

**Result**, a dictionary and a block of metrics:

    {'train_runtime': 437.8544, 'train_samples_per_second': 25.132, …, 'epoch': 3.0}
    {'train_runtime': '437.9', 'train_samples_per_second': '25.13', …, 'epoch': '3'}     since 5.0
    ***** train metrics *****
      train_runtime            = 0:07:17.85

These facts are from trainer.py, trainer_utils.py and trainer_callback.py of transformers
4.40 to 5.23:

* `train_runtime` is the wall time of the whole training loop, including evaluation and
  checkpoints. The two rates, `train_samples_per_second` and `train_steps_per_second`, are
  the planned samples and optimizer steps divided by this time.
* If there is no `train_steps_per_second`, the line may be of transformers 4.6 or older. In
  these versions, `train_samples_per_second` was the number of *steps* per second. Nothing
  else in the line shows the version, so the rate is not reported.
* `train_tokens_per_second` counts the tokens of one device, but the other rates are of all
  ranks. So it becomes a separate record, with `per_gpu`.
* Since 5.0, four significant digits are printed, in quotes.

**Copies.** The first rank of each node prints the dictionary, and rank 0 also prints the
block. So a training on 16 nodes prints its result 17 times, and each copy becomes a record.
No other run starts between the copies. Each node measures the time with its own clock. So
`train_runtime` differs between copies by fractions of a second, and the rates differ in
their last digit.

**Reports before the result**, printed every `logging_steps`:

    {'loss': 2.2788, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.31}
    {'loss': '2.279', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.31'}     since 5.0

These facts are from trainer.py and trainer_callback.py of transformers 4.40 to 5.23, and
from tqdm/std.py:

* The loss is the mean over the steps since the previous report, and over all ranks. A step
  is an update of the weights. The gradients' norm and the learning rate are those of the
  last step.
* A report does not contain its step, but the progress bar does: tqdm draws it again right
  after the report, e.g. `20/100 [00:50<03:20,  2.50s/it]`. A report with a bar after it
  becomes a Step. A report becomes a LossReport if no bar follows, e.g. because the
  program's output is buffered and many reports come at once. It also becomes a LossReport
  if the bar before it has a later step than the bar after it. One of the two bars may then
  be another node's. A bar with the next report right behind it shows the next report's step:
  a terminal has overwritten the bars between.
* The bar before a report may be some steps old, because bars are drawn at most ten times a
  second.
* ms-swift and some callbacks add the step itself, and other tools add their own keys (see
  `hf_keys`).
* `num_input_tokens_seen`, which an option adds, is summed over all ranks. With this option
  a report also contains `train_runtime`: the time of the training so far, which is not a
  result. teralog computes step times from it.

**No step time** is read from a bar. The bar's rate is an exponential moving mean, to which
the last three updates contribute two thirds. It includes evaluation and checkpoints, and
has only two decimals. The bar's clock counts whole seconds. The time of all steps is in the
result.

Bars without reports make no records, because an evaluation draws the same bars, and each
node draws its own.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields

from parsers.fields import COUNT, NUMBER, finite, line_parts, parse_number
from parsers.formats.hf_keys import ELAPSED, STEPS, TOKENS, integration_fields, step_of
from parsers.labels import after_labels
from parsers.records import LossReport, RunTotals, Step
from parsers.scan.reader import LogFormat

_DICTIONARY = re.compile(r"\{'[^{}\n]*\}")
_ITEM = re.compile(
    rf"'(?P<name>[\w/() ]{{1,60}})': (?P<quote>'?)(?P<value>{NUMBER})(?P=quote)(?=, '|\}})"
)
# Texts of ms-swift, which prints the step.
_TEXT = re.compile(rf"'(?P<name>{'|'.join((*STEPS, ELAPSED))})': '(?P<value>[^'{{}}]{{1,40}})'")

_ENTRY = re.compile(
    r"(?<!\w)(?P<name>train_(?:runtime|loss|(?:samples|steps|tokens)_per_second))"
    r"\s+=\s+(?P<value>\S.*)"
)
_DURATION = re.compile(
    rf"(?:(?P<days>{COUNT}) days?, )?"
    r"(?P<hours>[0-9]{1,2}):(?P<minutes>[0-9]{2}):(?P<seconds>[0-9]{2})\.(?P<hundredths>[0-9]{2})"
)


def dictionaries(text: str) -> Iterator[tuple[dict[str, str], re.Match[str]]]:
    """Yield for each dictionary in a text: its numbers as printed, by key, and its match object."""
    for dictionary in _DICTIONARY.finditer(text):
        yield {item["name"]: item["value"] for item in _ITEM.finditer(dictionary[0])}, dictionary


def _parse_result(offset: int, line: str) -> Iterator[RunTotals]:
    for part in line_parts(line):
        for values, _ in dictionaries(part):
            if "train_samples_per_second" in values and "loss" not in values:
                seconds = finite(values.get("train_runtime"))
                if seconds is not None:
                    more = integration_fields(_exact_numbers(values), None, None)
                    peak_gib = more.get("max_memory_allocated_gib")
                    yield from _totals(offset, seconds, values, peak_gib)


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


def _totals(
    offset: int, seconds: float, values: Mapping[str, str], peak_gib: float | None = None
) -> Iterator[RunTotals]:
    numbers = {name: text for name, text in values.items() if re.fullmatch(NUMBER, text)}
    steps_per_second = finite(numbers.get("train_steps_per_second"))
    samples_per_second = finite(numbers.get("train_samples_per_second"))
    yield RunTotals(
        train_seconds=seconds,
        samples_per_second=None if steps_per_second is None else samples_per_second,
        steps_per_second=steps_per_second,
        mean_loss=_optional(numbers.get("train_loss")),
        max_memory_allocated_gib=peak_gib,
        offset=offset,
    )
    tokens_per_second = finite(numbers.get("train_tokens_per_second"))
    if tokens_per_second is not None:
        yield RunTotals(tokens_per_second=tokens_per_second, per_gpu=True, offset=offset)


def _seconds(text: str) -> float | None:
    """Convert a text such as `1 day, 2:03:04.05` to seconds; None for other text."""
    if not (match := _DURATION.fullmatch(text)):
        return None
    minutes = (int(match["days"] or 0) * 24 + int(match["hours"])) * 60 + int(match["minutes"])
    # One division of whole numbers gives the float that is nearest to the decimal number.
    return ((minutes * 60 + int(match["seconds"])) * 100 + int(match["hundredths"])) / 100


HF_TRAINER_RESULT = LogFormat(
    name="Hugging Face Trainer, result",
    anchors=(b"'train_runtime': ",),
    parse=_parse_result,
    report=re.compile(r"'train_samples_per_second': '?[0-9]"),
)

HF_TRAINER_METRICS = LogFormat(
    name="Hugging Face Trainer, block of metrics",
    anchors=(b"***** train metrics *****",),
    parse=_parse_metrics,
    following=24,
    report=re.compile(r"\*{5} train metrics \*{5}\s*$"),
)


#  20%|██        | 20/100 [00:50<03:20,  2.50s/it]
_BAR = (
    rf"\s*[0-9]{{1,3}}%\|[^|\r\n]{{0,400}}\| (?P<step>{COUNT})/(?P<steps>{COUNT})"
    r" \[[0-9:]{1,12}<[0-9:?]{1,12}, [^\[\]\r\n]{1,40}\]"
)
_NOTHING = r"\s*$"
_REPORT = "{'loss': "
_WHOLE = re.compile(rf"{COUNT}(?:\.0)?")
_OF_LOSS_REPORTS = frozenset(field.name for field in fields(LossReport))


def _parse(offset: int, text: str) -> Iterator[Step | LossReport]:
    line, _, following = text.partition("\n")
    before: re.Match[str] | None = None
    parts = list(line_parts(line))
    for number, part in enumerate(parts):
        before = after_labels(_BAR).match(part) or before
        for values, dictionary in dictionaries(part):
            epoch, loss = finite(values.get("epoch")), _optional(values.get("loss"))
            texts = {item["name"]: item["value"] for item in _TEXT.finditer(dictionary[0])}
            steps = step_of(texts) or _printed_step(values)
            if loss is None or (epoch is None and steps is None):
                continue
            rest = [part[dictionary.end() :], *parts[number + 1 :], *following.split("\r")]
            pieces = (piece for piece in rest if not after_labels(_NOTHING).match(piece))
            behind = next(map(after_labels(_BAR).match, pieces), None)
            if behind and _REPORT in behind.string[behind.end() :]:
                behind = None
            rate, norm = (_optional(values.get(name)) for name in ("learning_rate", "grad_norm"))
            if steps is None and behind and _goes_on(before, behind):
                steps = int(behind["step"]), int(behind["steps"])
            numbers = _exact_numbers(values)
            more = integration_fields(numbers, texts.get(ELAPSED), steps[0] if steps else None)
            if steps is not None:
                yield Step(
                    iteration=steps[0],
                    iterations=steps[1],
                    loss=loss,
                    learning_rate=rate,
                    grad_norm=norm,
                    offset=offset,
                    **more,
                )
            elif epoch is not None:
                kept = {name: value for name, value in more.items() if name in _OF_LOSS_REPORTS}
                yield LossReport(
                    epoch=epoch,
                    loss=loss,
                    learning_rate=rate,
                    grad_norm=norm,
                    offset=offset,
                    **kept,
                )


def _printed_step(values: Mapping[str, str]) -> tuple[int, int | None] | None:
    """Return the step that a Trainer's report contains, and None for the unknown last step.

    Returns None if `values` is not a report of the Trainer, or contains no step. A report contains
    the learning rate and the epoch. In other dictionaries, a step may be counted within an epoch.
    """
    if not {"learning_rate", "epoch"} <= values.keys():
        return None
    printed = (values.get(name, "") for name in ("global_step", "step"))
    return next(((int(text), None) for text in printed if re.fullmatch(COUNT, text)), None)


def _exact_numbers(values: Mapping[str, str]) -> dict[str, float]:
    """Return the finite numbers of a report by key, without counts of tokens that were rounded.

    A count of tokens was rounded if it is not printed as an integer.
    """
    numbers = ((name, finite(text)) for name, text in values.items())
    return {
        name: number
        for name, number in numbers
        if number is not None and (name not in TOKENS or _WHOLE.fullmatch(values[name]))
    }


def _goes_on(before: re.Match[str] | None, behind: re.Match[str]) -> bool:
    """Return whether the progress bars before and after a report may be two states of one bar.

    before, behind: the bars before and after the report; `before` is None if there is none. Two
    states of one bar have the same number of steps, and the step does not decrease.
    """
    step, steps = int(behind["step"]), int(behind["steps"])
    if not 0 < step <= steps:
        return False
    return before is None or (int(before["steps"]) == steps and int(before["step"]) <= step)


def _optional(text: str | None) -> float | None:
    return None if text is None else parse_number(text)


HF_TRAINER_REPORTS = LogFormat(
    name="Hugging Face Trainer, reports",
    anchors=(b"{'loss': ",),
    parse=_parse,
    # An empty line is between, if a carriage return was written as a line end.
    following=2,
    report=re.compile(r"\{'loss': [^{}]*'(?:epoch|iteration)': '?[0-9]"),
)
