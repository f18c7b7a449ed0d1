"""The reports that Hugging Face's Trainer prints on the way, every `logging_steps`.

    {'loss': 2.2788, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.31}
    {'loss': '2.279', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.31'}     since 5.0

Read in trainer.py and trainer_callback.py of transformers 4.40 to 5.23, and in tqdm/std.py:

* The loss is the mean over the steps since the report before, and over all ranks; a step is an
  update of the weights. The gradients' norm and the learning rate are those of the last step.
* A report does not say of which step it is, but the progress bar does that tqdm draws anew right
  behind it, `20/100 [00:50<03:20,  2.50s/it]`. Such a report is a Step; one without a bar behind
  it, or with a bar before it that has got further, as another node's may, is a LossReport. Where
  the program's output is held back, reports come many at once, with no bar between them.
* The bar in front of a report may be some steps old: bars are drawn ten times a second at most.
* `num_input_tokens_seen`, of an option, is summed over all ranks.

**No time of a step** is read from a bar. Its rate is an exponential moving mean, of which the last
three updates are two thirds; evaluation and checkpoints are in it; and it has two decimals of its
unit. Its clock counts whole seconds. The time of all steps is in the result (see `hf_trainer`).

Bars alone are no records: evaluation draws the same ones, and each node its own.
"""

import re
from collections.abc import Iterator

from parsers.fields import COUNT, finite, printed
from parsers.hf_trainer import dictionaries
from parsers.line_parts import LABELS, line_parts
from parsers.records import LossReport, Step
from parsers.scan import LogFormat

#  20%|██        | 20/100 [00:50<03:20,  2.50s/it]
_BAR = re.compile(
    rf"{LABELS}\s*[0-9]{{1,3}}%\|[^|\r\n]{{0,400}}\| (?P<step>{COUNT})/(?P<steps>{COUNT})"
    r" \[[0-9:]{1,12}<[0-9:?]{1,12}, [^\[\]\r\n]{1,40}\]"
)
_NOTHING = re.compile(rf"{LABELS}\s*$")


def _parse(offset: int, text: str) -> Iterator[Step | LossReport]:
    line, _, following = text.partition("\n")
    before: re.Match[str] | None = None
    parts = list(line_parts(line))
    for number, part in enumerate(parts):
        before = _BAR.match(part) or before
        for values, end in dictionaries(part):
            epoch, loss = finite(values.get("epoch")), _optional(values.get("loss"))
            if epoch is None or loss is None:
                continue
            rest = [part[end:], *parts[number + 1 :], *following.split("\r")]
            behind = next((_BAR.match(one) for one in rest if not _NOTHING.match(one)), None)
            rate, norm = (_optional(values.get(name)) for name in ("learning_rate", "grad_norm"))
            if behind and _goes_on(before, behind):
                yield Step(
                    iteration=int(behind["step"]),
                    iterations=int(behind["steps"]),
                    consumed_tokens=_count(values.get("num_input_tokens_seen")),
                    loss=loss,
                    learning_rate=rate,
                    grad_norm=norm,
                    offset=offset,
                )
            else:
                yield LossReport(
                    epoch=epoch, loss=loss, learning_rate=rate, grad_norm=norm, offset=offset
                )


def _goes_on(before: re.Match[str] | None, behind: re.Match[str]) -> bool:
    """Return whether the bar behind a report can be the one in front of it, drawn anew."""
    step, steps = int(behind["step"]), int(behind["steps"])
    if not 0 < step <= steps:
        return False
    return before is None or (int(before["steps"]) == steps and int(before["step"]) <= step)


def _optional(text: str | None) -> float | None:
    return None if text is None else printed(text)


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(COUNT, text) else None


HF_TRAINER_REPORTS = LogFormat(
    name="Hugging Face Trainer, reports",
    anchors=(b"{'loss': ",),
    parse=_parse,
    following=1,
    report=re.compile(r"\{'loss': [^{}]*'epoch': '?[0-9]"),
)
