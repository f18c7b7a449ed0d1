"""Record the configuration keys that the installed DeepSpeed accepts; part of `make record`.

DeepSpeed has no list of all its keys. It validates some sections with pydantic, and refuses unknown
keys there. The keys of these sections are the fields of pydantic models. In all other sections,
DeepSpeed silently ignores unknown keys. To find the known keys of the other sections, this tool
lets DeepSpeed parse a configuration of special dictionaries. They record every key that DeepSpeed
looks up in them.
"""

import json
import sys
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent.parent / "orchestrator" / "frameworks" / "deepspeed"
RECORD = PACKAGE / "known_keys.json"

# The sections that DeepSpeed reads from plain dictionaries, without validation.
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
# Keys that DeepSpeed does not look up when it parses the configuration on one rank. Other programs
# or DeepSpeed's engine look them up later. DeepSpeed needs the sizes of groups only with several
# ranks.
ELSEWHERE = {
    "": (
        "comms_logger",
        "data_efficiency",
        "data_parallel_size",
        "sequence_parallel_size",
    ),
    "optimizer": ("legacy_fusion", "params", "type"),
    "scheduler": ("params", "type"),
}
# Keys of earlier versions that DeepSpeed ignores today: `intra_op_parallelism` replaced it.
IGNORED_TODAY = {"aio": ("thread_count",)}


class RecordingDict(dict[str, Any]):
    """A dictionary that remembers the keys that were looked up."""

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
    """Return the keys that DeepSpeed knows in each section of its configuration.

    The result includes keys that DeepSpeed has removed. The name of a section is its dotted path;
    "" is the top level.
    """
    from deepspeed.runtime.config import DeepSpeedConfig

    sections = {name: RecordingDict() for name in PLAIN_SECTIONS}
    config = RecordingDict({"train_batch_size": 1, **sections})
    DeepSpeedConfig(config)
    keys = {"": config.asked, **{name: section.asked for name, section in sections.items()}}
    keys.update({section: {*_fields(model)} for section, model in _validated().items()})
    for more in (ELSEWHERE, earlier_keys()):
        for section, names in more.items():
            keys[section].update(names)
    return {section: sorted(names) for section, names in sorted(keys.items()) if names}


def renamed_keys() -> dict[str, dict[str, str]]:
    """Return for each section a dictionary: from an old or alternative key to the key to use.

    If several keys replace an old key, the value is a sentence about them. If a pydantic
    field has an alias, the alias is the key to use, and the field's name is an alternative.
    """
    from deepspeed.runtime.precision_config import BFLOAT16, BFLOAT16_OLD

    new_names = {"": {BFLOAT16_OLD: BFLOAT16}}
    for section, model in sorted(_validated().items()):
        today = {name: _today(model, name) for name in sorted(model.model_fields)}
        new_names[section] = {name: new for name, new in today.items() if new != name}
    return {section: renamed for section, renamed in new_names.items() if renamed}


def earlier_keys() -> dict[str, list[str]]:
    """Return for each section the keys that earlier versions of DeepSpeed accepted.

    Today, DeepSpeed refuses or ignores these keys.
    """
    from deepspeed.runtime.config import _REMOVED_TOP_LEVEL_CONFIG_KEYS, _REMOVED_ZERO_CONFIG_KEYS

    removed = {
        "": _REMOVED_TOP_LEVEL_CONFIG_KEYS,
        "zero_optimization": _REMOVED_ZERO_CONFIG_KEYS,
        **IGNORED_TODAY,
    }
    return {section: sorted(names) for section, names in removed.items()}


def _today(model: Any, name: str) -> str:
    field = model.model_fields[name]
    extra = field.json_schema_extra or {}
    if extra.get("deprecated") and (new := extra.get("new_param")):
        # `new` is the name of a field, or a sentence about several fields.
        return _today(model, new) if new in model.model_fields else str(new)
    return str(field.alias or name)


def _fields(model: Any) -> dict[str, Any]:
    """Return the fields of a pydantic model, by name and by alias.

    A field with an alias is in the result twice.
    """
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
    """Write the keys that the installed DeepSpeed accepts into their data file."""
    import deepspeed

    record = {
        "deepspeed": deepspeed.__version__,
        "sections": known_keys(),
        "renamed": renamed_keys(),
        "earlier": earlier_keys(),
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {RECORD.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
