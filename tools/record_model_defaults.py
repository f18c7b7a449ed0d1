"""Record the defaults of transformers' configuration classes, for the keys that teralog reads.

Each model family has a configuration class with default values. A `config.json` may leave out a
value that equals the default. This tool writes `orchestrator/model/huggingface_defaults.json`. It
needs the extra `hf`.
"""

import json
from pathlib import Path
from typing import Any

import transformers

from orchestrator.model import config_json, huggingface

FILE = Path(huggingface.__file__).with_name("huggingface_defaults.json")
# The types of the layers follow from the number of layers, which a file may change.
_PER_LAYER = {"layer_types", "layers_block_type", "mlp_only_layers", "moe_layers", "no_rope_layers"}

_DOUBLED = ("hidden_size", "num_attention_heads", "n_embd", "n_head", "d_model", "n_heads")
# Values with which the reader of a model family looks up all other keys, too.
_GIVEN: dict[str, dict[str, Any]] = {
    "nemotron_h": {"hybrid_override_pattern": "ME*-"},
    **{f"qwen{name}": {"use_sliding_window": True} for name in ("2", "2_moe", "3", "3_moe")},
}


def defaults(kind: str) -> dict[str, Any]:
    """Return the defaults of a model family, for the keys that teralog reads.

    kind: the name of the model family. transformers computes some defaults from other sizes, e.g.
    from the hidden size. Such defaults are left out, because `orchestrator.model` computes them
    itself when it reads a `config.json`.
    """
    usual = transformers.AutoConfig.for_model(kind).to_dict()
    doubled = {name: 2 * usual[name] for name in _DOUBLED if isinstance(usual.get(name), int)}
    try:
        other = transformers.AutoConfig.for_model(kind, **doubled).to_dict()
    except Exception:  # noqa: BLE001 - huggingface_hub's own kind: sizes that do not go together
        other = usual
    values = {
        name: value
        for name, value in usual.items()
        if name not in _PER_LAYER and (name in doubled or other.get(name) == value)
    }
    config = config_json.Config({}, values)
    needed = {**_GIVEN.get(kind, {})}
    for _ in range(10):
        # Some classes have no default for a key that every file gives.
        try:
            huggingface.READERS[kind](config_json.Config(needed, values, config.asked))
            break
        except config_json.ConfigError as error:
            needed[str(error).partition(":")[0]] = 1
    return {name: values[name] for name in sorted(config.asked) if values.get(name) is not None}


def main() -> None:
    """Write the defaults of all families to the data file of `orchestrator.model`."""
    values = {kind: defaults(kind) for kind in sorted(huggingface.READERS)}
    data = {"transformers": transformers.__version__, "defaults": values}
    FILE.write_text(json.dumps(data, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
