"""Record which configuration keys and values the installed DeepSpeed takes; for `make record`.

DeepSpeed refuses an unknown key in the sections it validates with pydantic and ignores it in
silence everywhere else, so that no list of its keys exists. This one is made by asking: DeepSpeed
parses a configuration whose dictionaries write down every key that is looked up in them. Which
values it takes is known of the sections that it validates.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, get_args

PACKAGE = Path(__file__).parent.parent / "orchestrator" / "frameworks" / "deepspeed"
RECORD = PACKAGE / "known_keys.json"

# Sections DeepSpeed reads from plain dictionaries; those it validates are read off their models.
PLAIN_SECTIONS = (
    "activation_checkpointing",
    "aio",
    "autotuning",
    "checkpoint",
    "data_types",
    "flops_profiler",
    "optimizer",
    "scheduler",
    "torch_autocast",
)
# Looked up by other programs or by DeepSpeed's engine after the configuration has been parsed, or,
# as the sizes of groups, only among several ranks.
ELSEWHERE = {
    "": (
        "amp",
        "comms_logger",
        "data_efficiency",
        "data_parallel_size",
        "elasticity",
        "sequence_parallel_size",
        "sparse_attention",
    ),
    "optimizer": ("legacy_fusion", "params", "type"),
    "scheduler": ("params", "type"),
}


class RecordingDict(dict[str, Any]):
    """A dictionary that remembers which keys it was asked for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.asked: set[str] = set()

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Look up a key, as dict.get does, and remember it."""
        self.asked.add(key)
        return super().get(key, default)


def known_keys() -> dict[str, list[str]]:
    """Return the known keys of each section, by its dotted path ("" is the top level)."""
    from deepspeed.runtime.config import DeepSpeedConfig

    sections = {name: RecordingDict() for name in PLAIN_SECTIONS}
    config = RecordingDict({"train_batch_size": 1, **sections})
    DeepSpeedConfig(config)
    keys = {"": config.asked, **{name: section.asked for name, section in sections.items()}}
    for section, more in ELSEWHERE.items():
        keys[section].update(more)
    keys.update({section: {*_fields(model)} for section, model in _validated().items()})
    return {section: sorted(found) for section, found in sorted(keys.items()) if found}


def known_values() -> dict[str, dict[str, dict[str, Any]]]:
    """Return by section and key which numbers and truth values there are, as JSON Schema has it."""
    found = {}
    for section, model in sorted(_validated().items()):
        fields = sorted(_fields(model).items())
        schemas = {name: _schema(field) for name, field in fields}
        found[section] = {name: schema for name, schema in schemas.items() if schema}
    return found


def renamed_keys() -> dict[str, dict[str, str]]:
    """Return by section and key what DeepSpeed calls it today, of keys it takes by another name.

    They are deprecated, or names of a field that is configured by its alias.
    """
    from deepspeed.runtime.precision_config import BFLOAT16, BFLOAT16_OLD

    found = {"": {BFLOAT16_OLD: BFLOAT16}}
    for section, model in sorted(_validated().items()):
        today = {name: _today(model, name) for name in sorted(model.model_fields)}
        found[section] = {name: new for name, new in today.items() if new != name}
    return {section: renamed for section, renamed in found.items() if renamed}


def removed_keys() -> list[str]:
    """Return the keys at the top that DeepSpeed refuses today and earlier ones take."""
    from deepspeed.runtime.config import _REMOVED_TOP_LEVEL_CONFIG_KEYS

    known = known_keys()[""]
    return sorted({*known} & _REMOVED_TOP_LEVEL_CONFIG_KEYS.keys())


def known_types() -> dict[str, list[str]]:
    """Return the `type`s of optimizers and of schedulers: DeepSpeed's own, and torch's.

    Those of DeepSpeed's optimizers are in lower case, and it takes them in any.
    """
    import torch
    from deepspeed.runtime.config import DEEPSPEED_OPTIMIZERS
    from deepspeed.runtime.lr_schedules import VALID_LR_SCHEDULES

    optimizers = _kinds_in(torch.optim, torch.optim.Optimizer)
    schedulers = _kinds_in(torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler)
    return {
        "optimizer": sorted({*DEEPSPEED_OPTIMIZERS, *optimizers}),
        "scheduler": sorted({*VALID_LR_SCHEDULES, *schedulers}),
    }


def _kinds_in(module: Any, base: type) -> list[str]:
    return [
        name
        for name, found in vars(module).items()
        if isinstance(found, type) and issubclass(found, base) and found is not base
        if not name.startswith("_")
    ]


def _today(model: Any, name: str) -> str:
    field = model.model_fields[name]
    extra = field.json_schema_extra or {}
    if extra.get("deprecated") and (new := extra.get("new_param")):
        # It names a field, or says in words which there are.
        return _today(model, new) if new in model.model_fields else str(new)
    return str(field.alias or name)


def _schema(field: Any) -> dict[str, Any] | None:
    """Return what there is to a field of numbers or truth values; None where it is of others."""
    from pydantic import TypeAdapter

    kinds = {*(get_args(field.annotation) or (field.annotation,))} - {type(None)}
    if kinds not in ({bool}, {int}, {float}):
        return None
    # An annotation needs one remark at least; what pydantic does not know it passes over.
    schema = TypeAdapter(Annotated[kinds.pop(), field.title, *field.metadata]).json_schema()
    known = ("type", "minimum", "maximum", "exclusiveMinimum")
    optional = {"optional": True} if type(None) in get_args(field.annotation) else {}
    return {key: schema[key] for key in known if key in schema} | optional


def _fields(model: Any) -> dict[str, Any]:
    """Return the fields of a model by name, and by alias where one has it."""
    return {
        name: field
        for own, field in model.model_fields.items()
        for name in (own, field.alias)
        if name
    }


def _validated() -> dict[str, Any]:
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.runtime.zero.offload_config import (
        DeepSpeedZeroOffloadOptimizerConfig,
        DeepSpeedZeroOffloadParamConfig,
    )

    return {
        "bf16": DeepSpeedBF16Config,
        "fp16": DeepSpeedFP16Config,
        "zero_optimization": DeepSpeedZeroConfig,
        "zero_optimization.offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
        "zero_optimization.offload_param": DeepSpeedZeroOffloadParamConfig,
    }


def main() -> None:
    """Rewrite the record."""
    import deepspeed

    record = {
        "deepspeed": deepspeed.__version__,
        "sections": known_keys(),
        "values": known_values(),
        "renamed": renamed_keys(),
        "removed": removed_keys(),
        "types": known_types(),
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {RECORD.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
