"""Expand a campaign file into entries (the values of runs), and build runs from entries."""

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from typing import Any

from orchestrator.campaign.file import CampaignFile
from orchestrator.campaign.parameters import MODEL_SIZES, CommonParameters, option_names
from orchestrator.common.errors import UserError
from orchestrator.common.text import counted
from orchestrator.frameworks.base import Framework
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.time_limit import time_limit_seconds
from orchestrator.run.chosen_model import chosen_shape, source_of
from orchestrator.run.model import Batch, Parallelism, Resources, Run, Training
from orchestrator.run.shape import ModelShape

MAX_RUNS = 100_000

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """The values of one run, by parameter, as the campaign file gives them.

    where: the part of the campaign file that contains the entry, e.g. `include[0]`.
    inherited: the parameters whose values come only from the file's defaults; empty if the defaults
        are the entry.
    """

    where: str
    values: Values
    inherited: frozenset[str] = frozenset()

    def value(self, name: str) -> Any:
        """Return the entry's value of a parameter.

        If the entry has no value, returns the parameter's default; None if there is no default.
        """
        return self.values.get(name, default(name, self.values.get("framework")))

    def place(self, name: str) -> str:
        """Return the path of the part of the campaign file that gives a parameter its value.

        This is `defaults` for an inherited parameter. For others, it is the part that contains the
        entry, e.g. `matrix` or `include[0]`.
        """
        return "defaults" if name in self.inherited else self.where


def entries(file: CampaignFile) -> tuple[Entry, ...]:
    """Return the values of every run: all combinations of `matrix`, then the entries of `include`.

    The repeats of a run have the same values, so they share one entry. If the file has neither
    `matrix` nor `include`, its defaults are the only entry. Raises UserError for more than
    `MAX_RUNS` runs; here each repeat counts as a run.
    """
    crossings = math.prod(len(values) for values in file.matrix.values())
    count = (crossings + len(file.include)) * file.repeats
    if count > MAX_RUNS:
        raise UserError(f"requests {counted(count, 'run')}; the maximum is {MAX_RUNS:,}")
    crossed: Iterator[tuple[Any, ...]] = itertools.product(*file.matrix.values())
    if not file.matrix and file.include:
        crossed = iter(())
    where = "matrix" if file.matrix else "defaults"
    inherited = frozenset(file.defaults.keys() - file.matrix.keys() if file.matrix else ())
    return (
        *(
            Entry(where, {**file.defaults, **dict(combination)}, inherited)
            for combination in (zip(file.matrix, values, strict=True) for values in crossed)
        ),
        *(
            Entry(
                f"include[{index}]",
                {**file.defaults, **values},
                frozenset(file.defaults.keys() - values.keys()),
            )
            for index, values in enumerate(file.include)
        ),
    )


def make_run(entry: Entry, cluster: str, repeat: int = 1) -> Run:
    """Build the run that an entry describes.

    entry: an entry without problems, according to `entry_problems`. cluster: the cluster's name.
    """
    name = entry.values["framework"]
    framework = FRAMEWORKS[name]
    values = {**framework.implied(entry.values), **entry.values}
    choice = model_choice(values)
    model = chosen_shape(choice) if choice else None
    resources = Resources(
        values.get("nodes", default("nodes")),
        values.get("gpus_per_node", default("gpus_per_node")),
        time_limit_seconds(values.get("time_limit", default("time_limit"))),
        sbatch=tuple(values.get("sbatch", ())),
        srun=tuple(values.get("srun", ())),
    )
    options = framework.options(
        **{option: values[option] for option in option_names(name) & values.keys()}
    )
    parallelism = _parallelism(values, resources.world_size, framework, options)
    replicas, rest = divmod(resources.world_size, parallelism.ranks_per_replica)
    return Run(
        framework=name,
        cluster=cluster,
        model=model if isinstance(model, ModelShape) else None,
        model_name=_model_name(values.get("model")),
        # Sizes are recorded as single parameters. A model that differs from GPT-2 in more than its
        # sizes is recorded as the user chose it.
        model_choice=json.dumps(choice)
        if isinstance(model, ModelShape) and model.variants
        else None,
        parallelism=parallelism,
        batch=_batch(values, 0 if rest else replicas),
        resources=resources,
        training=_training(values),
        options=options,
        vocab_size_multiple=framework.model.vocab_size_multiple,
        repeat=repeat,
    )


def difference(entry: Entry, name: str, repeat: int) -> tuple[str, Any]:
    """Return a text and a value by which runs are divided into series for `give_up`.

    The text contains `repeat` and the run's parameters. The parameter `name` is left out, and so
    are parameters with their default values. The value is that of the parameter `name`. Runs with
    equal texts form a series, because they differ at most in the parameter `name`.
    """
    framework = entry.values.get("framework")
    rest = {
        key: value
        for key, value in entry.values.items()
        if key != name and value != default(key, framework)
    }
    text = json.dumps([rest, repeat], sort_keys=True, default=str)
    return text, entry.value(name)


def model_shape(values: Values) -> ModelShape | str | None:
    """Return the shape of the model that the values choose.

    Returns None if they choose no model, and a sentence if the choice is wrong or incomplete.
    """
    choice = model_choice(values)
    return chosen_shape(choice) if choice else None


def model_choice(values: Values) -> dict[str, Any]:
    """Return the values of an entry that describe its model: those under `model`, and its sizes.

    The keys are those of `model` in a campaign file, e.g. `preset`, and the names of sizes.
    """
    given = values.get("model", {})
    choice = source_of(given) if isinstance(given, str) else dict(given)
    choice.update((name, values[name]) for name in MODEL_SIZES if name in values)
    return choice


def _model_name(model: Any) -> str | None:
    if not isinstance(model, Mapping):
        return None if model is None else str(model)
    key = model.get("preset", model.get("name"))
    if key is None and "config" in model:
        key = model["config"].get("_name_or_path") or model["config"].get("model_type")
    return None if key is None else str(key)


def _training(values: Values) -> Training:
    chosen = {field: values[field] for field in _names(Training) & values.keys()}
    if "learning_rate" in chosen:
        chosen["learning_rate"] = float(chosen["learning_rate"])  # 1 and 1.0 are one value
    return Training(**chosen)


def _parallelism(
    values: Values, world_size: int, framework: Framework, options: Any
) -> Parallelism:
    given = Parallelism(**{field: values[field] for field in _names(Parallelism) & values.keys()})
    split = framework.divided(given, world_size, options)
    copies = values.get("data_parallel_size")
    if copies is None or copies * split.ranks_per_replica == world_size:
        return split
    return replace(split, contradicted_data_parallel_size=copies)


def _batch(values: Values, replicas: int) -> Batch:
    micro = values.get("micro_batch_size", default("micro_batch_size"))
    given = values.get("global_batch_size")
    count = values.get("num_microbatches")
    # If the ranks do not form whole replicas, another check reports that.
    made = micro * (count or 1) * replicas or None
    if given is None:
        return Batch(micro, made)
    return Batch(micro, given, None if count is None or made == given else count)


@cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind))


@cache
def _defaults(framework: str | None) -> dict[str, Any]:
    kinds: list[type] = [CommonParameters]
    if framework in FRAMEWORKS:
        kinds.append(FRAMEWORKS[framework].options)
    return {field.name: field.default for kind in kinds for field in fields(kind)}


def default(name: str, framework: str | None = None) -> Any:
    """Return the default value of a parameter; None if the parameter has no default.

    If no framework is given, only the parameters that every framework has are considered.
    """
    default = _defaults(framework).get(name)
    return None if default is MISSING else default
