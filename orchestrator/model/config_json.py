"""Read the keys of a `config.json`; missing keys have the defaults of the model's family.

The defaults are those of transformers' configuration classes. `tools/record_model_defaults.py`
writes them to `huggingface_defaults.json`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.common.errors import UserError


class ConfigError(UserError):
    """Raised if a configuration does not describe a model that teralog can count."""


@dataclass(frozen=True, slots=True)
class Config:
    """The keys of one `config.json`, with the defaults of its family for missing keys.

    asked: the names of all keys that were looked up. The tool that records the defaults needs them.
    """

    values: Mapping[str, Any]
    defaults: Mapping[str, Any]
    asked: set[str] = field(default_factory=set)

    def get(self, *names: str) -> Any:
        """Return the value of a key that has different names in different families.

        names: the possible names. The result is the first value in the file that is not null, in
        the order of `names`.

        - If the file has none of the names, the result is the default of the first name that has a
          default, or None.
        - If the file has only null for these names, the result is None, even if there is a default.
        """
        self.asked.update(names)
        given = [self.values[name] for name in names if name in self.values]
        source = given or [self.defaults.get(name) for name in names]
        return next((value for value in source if value is not None), None)

    def size(self, *names: str) -> int:
        """Return the value of the first of these keys that has a value, in the file or by default.

        Raises ConfigError if no key has a value, or if the value is not an integer of at least 1.
        """
        value = self.get(*names)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            problem = (
                "is missing"
                if value is None
                else f"must be a whole number of at least 1 (got {value!r})"
            )
            raise ConfigError(f"{names[0]}: {problem}")
        return value

    def optional_size(self, *names: str) -> int | None:
        """Return the value of the first of these keys that has a value: an integer of at least 1.

        Returns None without a value, or if the value is 0. Raises ConfigError for any other value.
        """
        return self.size(*names) if self.get(*names) else None

    def flag(self, name: str) -> bool:
        """Return the value of a key that is true or false; False if the key is absent.

        Raises ConfigError for any other value.
        """
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"{name}: must be true or false (got {value!r})")
        return bool(value)

    def given_list(self, name: str, length: int) -> list[Any] | None:
        """Return the first `length` items of a list in the file, one item per layer.

        Returns None if the file lacks the key, or has null. Raises ConfigError if the value is not
        a list, or has fewer than `length` items.
        """
        self.asked.add(name)
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) < length:
            raise ConfigError(f"{name}: must be a list of {length} items, one per layer")
        return value[:length]

    @property
    def num_layers(self) -> int:
        """The number of layers, under whichever name the configuration has it."""
        return self.size("num_hidden_layers", "n_layer", "n_layers", "num_layers")

    @property
    def hidden_size(self) -> int:
        """The hidden size, under whichever name the configuration has it."""
        return self.size("hidden_size", "n_embd", "d_model")

    @property
    def heads(self) -> int:
        """The number of attention heads, under whichever name the configuration has it."""
        return self.size("num_attention_heads", "n_head", "n_heads")

    @property
    def head_size(self) -> int:
        """The width of a head: as given, or the hidden size divided by the number of heads."""
        return self.optional_size("head_dim") or self.hidden_size // self.heads

    @property
    def key_value_heads(self) -> int:
        """The number of heads that have keys and values; the number of all heads if not given."""
        return self.optional_size("num_key_value_heads") or self.heads


def read_model_config(path: Path) -> dict[str, Any]:
    """Return the keys of a `config.json`, given its path or its folder.

    Raises UserError if the file cannot be read, or is not JSON.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise UserError(f"{file}: must contain a JSON object, as config.json of transformers does")
    return config


@cache
def _all_defaults() -> dict[str, dict[str, Any]]:
    path = Path(__file__).with_name("huggingface_defaults.json")
    kinds: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))["defaults"]
    return kinds


def defaults(kind: str) -> dict[str, Any]:
    """Return the default values of a family of models, for the keys that teralog reads.

    kind: the family's `model_type`. The values are those of transformers' configuration class.
    The result is empty if the family is not known.
    """
    return _all_defaults().get(kind, {})
