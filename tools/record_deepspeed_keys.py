"""Record which configuration keys the installed DeepSpeed knows; `make record` runs this.

DeepSpeed refuses an unknown key in the sections it validates with pydantic and ignores it in
silence everywhere else, so that no list of its keys exists. This one is made by asking: DeepSpeed
parses a configuration whose dictionaries write down every key that is looked up in them.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parent.parent / "orchestrator" / "deepspeed_keys.json"

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
# Looked up by other programs or by DeepSpeed's engine after the configuration has been parsed.
ELSEWHERE = {
    "": ("amp", "comms_logger", "data_efficiency", "elasticity", "sparse_attention"),
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
    keys.update(_validated())
    return {section: sorted(found) for section, found in sorted(keys.items()) if found}


def _validated() -> Iterator[tuple[str, set[str]]]:
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.runtime.zero.offload_config import (
        DeepSpeedZeroOffloadOptimizerConfig,
        DeepSpeedZeroOffloadParamConfig,
    )

    for section, model in {
        "bf16": DeepSpeedBF16Config,
        "fp16": DeepSpeedFP16Config,
        "zero_optimization": DeepSpeedZeroConfig,
        "zero_optimization.offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
        "zero_optimization.offload_param": DeepSpeedZeroOffloadParamConfig,
    }.items():
        yield (
            section,
            {
                name
                for field, info in model.model_fields.items()
                for name in (field, info.alias)
                if name
            },
        )


def main() -> None:
    """Rewrite the record."""
    import deepspeed

    record = {"deepspeed": deepspeed.__version__, "sections": known_keys()}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {RECORD.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
