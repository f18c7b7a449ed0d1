"""Parse metrics that programs write as JSON, an object on each line.

    {"step": 3, "epoch": 0, "timestamp": "2026-04-01T16:06:16.930Z", "loss": 0.8, "grad_norm": 71.7,
     "lr": 4.6e-06, "mem": 10.66, "tps": 93026.5, "tps_per_gpu": 11628.3, "mfu": 7.35, …}
        NVIDIA's Automodel: allocated memory in GiB, `tps` of all ranks, the MFU in percent. `tps`
        is `num_tokens_per_step` divided by the time since the previous step. Sequences are of
        different length, so the tokens differ between steps
    {"step": 10, "throughput(tps)": 2228.1, "tflops": 83.74, "mfu(%)": 8.47, …}
        torchtitan's metrics, as its loggers get them: `tps` per rank, reserved memory in GiB
    {…, "step": 10, "log_type_name": "step_end", "value": 812.5, …}
        torchtitan's structured log, a file for each rank: the milliseconds of a step
    {"current_steps": 5, "total_steps": 100, "loss": 1.2, "lr": 2e-05, "elapsed_time": "0:00:10", …}
        LLaMA-Factory's trainer_log.jsonl
    {"loss": 1.2, "global_step/max_steps": "5/100", "train_speed(s/it)": 2.1, …}
        ms-swift's logging.jsonl
    {"step": 1, "data": {"perf/throughput": 3283.3, "timing_s/step": 48.7, …}}
        verl's file logger
    DLLL {"timestamp": …, "type": "LOG", "step": 16, "data": {"train_step_timing in s": 92.28, …}}
        NeMo with NVIDIA's dllogger
    {"train/loss": 2.1, "train/global_step": 10, "_runtime": 35.2, "_step": 0, …}
        the history of a run of Hugging Face's Trainer, exported from Weights & Biases (W&B)
    {"train/loss": 2.1, "throughput/duration": 1.2, "throughput/mfu": 41.2, "_step": 10, …}
        the history of a run of levanter: rates of all devices
    {"step": 1, "loss": 1.17, "lr": 2e-05, "tokens_per_second_per_gpu": 655.93, …}
        torchtune's disk logger; its memory is in bytes, in GB or in GiB, and is not read
    {"learning/loss": 2.136, "perf/step_time_seconds": 3.443, …, "step": 14.0, "run_name": "a"}
        MaxText's metrics, a file for each run, or for some steps of a run

LLaMA-Factory and ms-swift use the keys of Hugging Face's Trainer and add their own (`hf_keys`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from parsers.fields import finite_json, is_quoted, json_float, json_numbers, parse_json
from parsers.formats.declared.json_blocks import JsonBlocks
from parsers.formats.hf_keys import ELAPSED, integration_fields, step_of
from parsers.labels import after_labels
from parsers.records import COUNT_FIELDS, NOT_FINITE_FIELDS, RunTotals, Step
from parsers.scan.reader import NEVER, LogFormat

_OBJECT = r'\s*(?:DLLL )?(?P<object>\{\s*".*\})\s*$'

Json = dict[str, Any]


def json_object(text: str) -> Json | None:
    """Return the JSON object on a line; None if there is none.

    Labels before the object are skipped, e.g. a rank's `[rank0]: `.
    """
    match = None if is_quoted(text) else after_labels(_OBJECT).match(text)
    value = parse_json(match["object"]) if match else None
    return value if isinstance(value, dict) else None


def count_of(value: object) -> int | None:
    """Return a JSON value as an integer if it is one of at least 0, e.g. 14 or 14.0; or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 10**18:
        return None
    return int(value) if value == int(value) else None


def _number(name: str, value: object) -> float | None:
    """Return a JSON value for the field `name` of Step; None if the field cannot have the value."""
    if name in COUNT_FIELDS:
        return count_of(value)
    return json_float(value) if name in NOT_FINITE_FIELDS else finite_json(value)


def trainer_result(values: Json, step: int | None, offset: int) -> RunTotals | None:
    """Return the result of a training by Hugging Face's Trainer; None for any other object.

    step: the step of the object, i.e. the last one of the training; None if unknown.
    """
    seconds = finite_json(values.get("train_runtime"))
    if seconds is None or "train_steps_per_second" not in values or "loss" in values:
        return None
    return RunTotals(
        train_seconds=seconds,
        samples_per_second=finite_json(values.get("train_samples_per_second")),
        steps_per_second=finite_json(values["train_steps_per_second"]),
        last_iteration=step,
        mean_loss=json_float(values.get("train_loss")),
        offset=offset,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JsonLines:
    """A format with one JSON object per report, and a callable that reads its lines.

    name: the name that users see.
    keys: JSON keys in quotes; each line of the format contains at least one.
    fields: for each JSON key, the field of Step, and the divisor that converts the key's value
    to the field's unit.
    step: keys of the iteration; of several keys in an object, the first one counts. A history of
        W&B has `_step`, which counts calls if the program gave no step.
    steps: the key of the number of iterations; empty without such a key.
    inner: the key of an inner object that contains the metrics; None without an inner object.
    only: keys and values; an object is read only if its keys have these values.
    integrations: whether to read also the keys that the module `hf_keys` describes.
    log_interval: 1 if each report is about one iteration; None if unknown.
    """

    name: str
    keys: tuple[str, ...]
    fields: Mapping[str, tuple[str, float]]
    step: tuple[str, ...] = ("step", "global_step", "_step")
    steps: str = ""
    inner: str | None = None
    only: Mapping[str, str] = field(default_factory=dict)
    integrations: bool = False
    log_interval: int | None = None

    def blocks(self) -> JsonBlocks:
        """Return the reader of many lines at once."""
        keys = {**dict.fromkeys(self.step, ("iteration", 1.0)), **self.fields}
        return JsonBlocks(keys, self, self.log_interval)

    def __call__(self, offset: int, line: str) -> Iterator[Step | RunTotals]:
        """Yield the step that a line reports, or the result of Hugging Face's Trainer."""
        values = json_object(line)
        if values is None or any(values.get(key) != value for key, value in self.only.items()):
            return
        iteration, iterations = self._step(values)
        metrics = values if self.inner is None else values.get(self.inner)
        if iteration is None or not isinstance(metrics, dict):
            return
        # A report of a validation has none of these keys.
        if not self.only and not any(key.strip('"') in metrics for key in self.keys):
            return
        if self.integrations and (result := trainer_result(metrics, iteration, offset)):
            yield result  # the object also contains the last step
        fields: dict[str, Any] = {}
        for key, (name, divisor) in self.fields.items():
            number = _number(name, metrics.get(key))
            if number is not None:
                fields.setdefault(name, number / divisor if divisor != 1 else number)
        if self.integrations:
            fields |= integration_fields(json_numbers(metrics), metrics.get(ELAPSED), iteration)
        timestamp = values.get("timestamp")
        yield Step(
            iteration=iteration,
            iterations=iterations,
            log_interval=self.log_interval,
            timestamp=timestamp if isinstance(timestamp, str) else None,
            offset=offset,
            **fields,
        )

    def _step(self, values: Json) -> tuple[int | None, int | None]:
        """Return the iteration of an object, and the number of iterations of its run."""
        if self.integrations and (pair := step_of(values)):
            return pair
        iteration = next((values[key] for key in self.step if key in values), None)
        return count_of(iteration), count_of(values.get(self.steps))


def _format(declared: JsonLines) -> LogFormat:
    keys = "|".join(re.escape(key) for key in declared.keys)
    return LogFormat(
        name=declared.name,
        anchors=tuple(key.encode() for key in declared.keys),
        parse=declared,
        parse_lines=None if declared.integrations else declared.blocks(),
        # Most objects with other keys are events.
        report=NEVER if declared.only else re.compile(rf"^[^{{]*\{{.*(?:{keys})"),
    )


_OF_TRAINER = {
    "loss": ("loss", 1.0),
    "grad_norm": ("grad_norm", 1.0),
    "learning_rate": ("learning_rate", 1.0),
    "lr": ("learning_rate", 1.0),
}

AUTOMODEL = _format(
    JsonLines(
        name="Automodel metrics",
        keys=('"tps_per_gpu"',),
        fields={
            "loss": ("loss", 1.0),
            "grad_norm": ("grad_norm", 1.0),
            "lr": ("learning_rate", 1.0),
            "mem": ("max_memory_allocated_gib", 1.0),
            "tps": ("tokens_per_second", 1.0),
            "tps_per_gpu": ("tokens_per_second_per_gpu", 1.0),
            "mfu": ("reported_mfu", 100.0),
            "num_tokens_per_step": ("tokens", 1.0),
        },
    )
)

TORCHTITAN_METRICS = _format(
    JsonLines(
        name="torchtitan metrics",
        keys=('"throughput(tps)"',),
        fields={
            "loss_metrics/global_avg_loss": ("loss", 1.0),
            "grad_norm": ("grad_norm", 1.0),
            "lr": ("learning_rate", 1.0),
            "throughput(tps)": ("tokens_per_second_per_gpu", 1.0),
            "time_metrics/end_to_end(s)": ("nominal_step_seconds", 1.0),
            "tflops": ("reported_tflops_per_gpu", 1.0),
            "mfu(%)": ("reported_mfu", 100.0),
            "memory/max_reserved(GiB)": ("max_memory_reserved_gib", 1.0),
        },
    )
)

TORCHTITAN_EVENTS = _format(
    JsonLines(
        name="torchtitan structured log",
        keys=('"step_end"',),
        fields={"value": ("step_seconds", 1000.0)},
        only={"log_type_name": "step_end"},
        log_interval=1,
    )
)

LLAMA_FACTORY = _format(
    JsonLines(
        name="LLaMA-Factory's log",
        keys=('"current_steps"',),
        fields=_OF_TRAINER,
        step=("current_steps",),
        steps="total_steps",
        integrations=True,
    )
)

SWIFT = _format(
    JsonLines(
        name="ms-swift's log",
        keys=('"train_speed(s/it)"', '"train_speed(iter/s)"', '"global_step/max_steps"'),
        fields=_OF_TRAINER,
        integrations=True,
    )
)

VERL_METRICS = _format(
    JsonLines(
        name="verl metrics",
        keys=('"timing_s/step"',),
        inner="data",
        fields={
            "timing_s/step": ("step_seconds", 1.0),
            "perf/throughput": ("tokens_per_second_per_gpu", 1.0),
            "perf/max_memory_allocated_gb": ("max_memory_allocated_gib", 1.0),
            "perf/max_memory_reserved_gb": ("max_memory_reserved_gib", 1.0),
            "actor/perf/max_memory_allocated_gb": ("max_memory_allocated_gib", 1.0),
            "actor/perf/max_memory_reserved_gb": ("max_memory_reserved_gib", 1.0),
            "actor/lr": ("learning_rate", 1.0),
            "actor/grad_norm": ("grad_norm", 1.0),
            "actor/pg_loss": ("loss", 1.0),
        },
        log_interval=1,
    )
)

NEMO_DLLOGGER = _format(
    JsonLines(
        name="NeMo's dllogger",
        keys=('"train_step_timing in s"',),
        inner="data",
        fields={
            "train_step_timing in s": ("step_seconds", 1.0),
            "reduced_train_loss": ("loss", 1.0),
            "grad_norm": ("grad_norm", 1.0),
            "lr": ("learning_rate", 1.0),
        },
        log_interval=1,
    )
)

WANDB_HISTORY = _format(
    JsonLines(
        name="Hugging Face Trainer, history of W&B",
        keys=('"train/loss"',),
        fields={
            "train/loss": ("loss", 1.0),
            "train/grad_norm": ("grad_norm", 1.0),
            "train/learning_rate": ("learning_rate", 1.0),
        },
        step=("train/global_step",),
        integrations=True,
    )
)

MAXTEXT_METRICS = _format(
    JsonLines(
        name="MaxText metrics",
        keys=('"perf/step_time_seconds"',),
        fields={
            "perf/step_time_seconds": ("step_seconds", 1.0),
            "perf/per_device_tflops_per_sec": ("reported_tflops_per_gpu", 1.0),
            "perf/per_device_tokens_per_sec": ("tokens_per_second_per_gpu", 1.0),
            "learning/loss": ("loss", 1.0),
            "learning/grad_norm": ("grad_norm", 1.0),
            "learning/current_learning_rate": ("learning_rate", 1.0),
        },
        log_interval=1,
    )
)

LEVANTER_HISTORY = _format(
    JsonLines(
        name="levanter, history of W&B",
        keys=('"throughput/duration"',),
        fields={
            "throughput/duration": ("step_seconds", 1.0),
            "throughput/examples_per_second": ("samples_per_second", 1.0),
            "throughput/tokens_per_second": ("tokens_per_second", 1.0),
            "throughput/mfu": ("reported_mfu", 100.0),
            "train/loss": ("loss", 1.0),
            "optim/learning_rate": ("learning_rate", 1.0),
        },
        log_interval=1,
    )
)

TORCHTUNE_METRICS = _format(
    JsonLines(
        name="torchtune metrics",
        keys=('"tokens_per_second_per_gpu"',),
        fields=_OF_TRAINER | {"tokens_per_second_per_gpu": ("tokens_per_second_per_gpu", 1.0)},
    )
)

JSON_LINES = (
    AUTOMODEL,
    TORCHTITAN_METRICS,
    TORCHTITAN_EVENTS,
    LLAMA_FACTORY,
    SWIFT,
    VERL_METRICS,
    NEMO_DLLOGGER,
    MAXTEXT_METRICS,
    # Other programs have the key `train/loss`, too.
    replace(WANDB_HISTORY, anchors=(b'"train/global_step"',)),
    LEVANTER_HISTORY,
    TORCHTUNE_METRICS,
)
"""Formats of metrics as JSON."""
