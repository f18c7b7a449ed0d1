"""Parse `trainer_state.json` and `train_results.json` of Hugging Face's Trainer.

The Trainer keeps all its reports in `trainer_state.json`:

    "log_history": [
      {
        "epoch": 0.31,
        "grad_norm": 1.2,
        "learning_rate": 5e-05,
        "loss": 2.2788,
        "step": 10
      },

Its example scripts write the result of the training to `train_results.json`, and together
with other results to `all_results.json`. The keys of such a file are indented by four spaces.

These facts are from trainer_callback.py of transformers 4.40 to 5.23:

* The keys of an object are sorted. teralog finds an object by its key `epoch` and reads the
  lines from there on, so keys that sort before `epoch` are not read.
* Each object has its step, and its numbers are not rounded.
* The last object is the result of the training.
* An evaluation has no key `loss`, so it is not read as a step report.
* `train_batch_size` is the batch of one device, so it is not read as the global batch.
"""

from collections.abc import Iterator

from parsers.fields import finite_json, json_float, json_numbers, parse_json
from parsers.formats.declared.json_lines import Json, count_of, trainer_result
from parsers.formats.hf_keys import ELAPSED, integration_fields, step_of
from parsers.labels import after_labels
from parsers.records import RunTotals, Setting, Step
from parsers.scan.reader import NEVER, LogFormat

_FOLLOWING = 120
_ENDS = {6: r"\s{4}\},?\s*$", 4: r"\}\s*$"}
_ROWS = {spaces: rf'\s{{{spaces}}}(?P<row>".*)' for spaces in _ENDS}


def _object(text: str, spaces: int) -> Json | None:
    """Return the JSON object whose inner lines are in `text`; None if the object's end is missing.

    spaces: the number of spaces before each inner line.
    """
    rows: list[str] = []
    for line in text.split("\n"):
        if after_labels(_ENDS[spaces]).match(line):
            values = parse_json("{" + "\n".join(rows) + "}")
            return values if isinstance(values, dict) else None
        if not (row := after_labels(_ROWS[spaces]).match(line)):
            return None
        rows.append(row["row"])
    return None


def _parse(offset: int, text: str) -> Iterator[Step | RunTotals]:
    values = _object(text, 6)
    if values is None:
        return
    step, loss = count_of(values.get("step")), json_float(values.get("loss"))
    if step is not None and loss is not None:
        steps = step_of(values)
        yield Step(
            iteration=step,
            iterations=steps[1] if steps else None,
            loss=loss,
            learning_rate=finite_json(values.get("learning_rate")),
            grad_norm=json_float(values.get("grad_norm")),
            offset=offset,
            **integration_fields(json_numbers(values), values.get(ELAPSED), step),
        )
    if (result := trainer_result(values, step, offset)) is not None:
        yield result


def _parse_result(offset: int, text: str) -> Iterator[RunTotals]:
    values = _object(text, 4)
    if values is not None and (result := trainer_result(values, None, offset)) is not None:
        yield result


_MAX_STEPS = r'  "max_steps": (?P<steps>[1-9][0-9]{0,17}),$'


def _settings(offset: int, line: str) -> Iterator[Setting]:
    if match := after_labels(_MAX_STEPS).match(line.rstrip()):
        yield Setting(name="train_iters", value=match["steps"], source="arguments", offset=offset)


TRAINER_STATE = LogFormat(
    name="Hugging Face Trainer, state",
    anchors=(b'      "epoch": ',),
    parse=_parse,
    following=_FOLLOWING,
    # Evaluations are such objects, too.
    report=NEVER,
)
TRAINER_RESULT = LogFormat(
    name="Hugging Face Trainer, result in train_results.json",
    anchors=(b'    "train_loss": ',),
    parse=_parse_result,
    following=_FOLLOWING,
    report=NEVER,
)
TRAINER_STATE_SETTINGS = LogFormat(
    name="Hugging Face Trainer, settings in trainer_state.json",
    anchors=(b'  "max_steps": ',),
    parse=_settings,
    report=NEVER,
)
