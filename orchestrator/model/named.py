"""Look up published models by name.

Each model is a table in a TOML file of the folder `named`. A table has:

- source: where the values in `config` come from, e.g. a repository on Hugging Face;
- also: other names of the model, if any;
- size: the published number of parameters, in billions;
- active: the published number of parameters that one token uses, in billions, if it is
  smaller;
- seq_length: the usual number of tokens of a training sequence;
- config: keys of `config.json`. TOML has no null, so 0 is used for null.
"""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.model.description import Model
from orchestrator.model.huggingface import model_of_config

_FOLDER = Path(__file__).with_name("named")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    """A published model, with its published size in billions of parameters.

    active: the parameters that a token uses, in billions; None if it uses all.
    seq_length: the usual number of tokens of a training sequence.
    config: the keys of its `config.json`.
    also: other names of the model.
    """

    name: str
    source: str
    size: float
    active: float | None
    seq_length: int
    config: dict[str, Any] = field(hash=False)
    also: tuple[str, ...] = ()

    def model(self, seq_length: int | None = None) -> Model:
        """Return the model's description.

        seq_length: the number of tokens of a training sequence; None for the model's usual
        number.
        """
        return model_of_config(self.config, seq_length or self.seq_length)


@cache
def named_models() -> dict[str, NamedModel]:
    """Return all published models, by name.

    The models of one TOML file are next to each other; the files are sorted by name.
    """
    models = {}
    for file in sorted(_FOLDER.glob("*.toml")):
        for name, table in tomllib.loads(file.read_text("utf-8")).items():
            models[name] = NamedModel(
                name=name,
                source=table["source"],
                size=table["size"],
                active=table.get("active"),
                seq_length=table["seq_length"],
                config=table["config"],
                also=tuple(table.get("also", ())),
            )
    return models


def named_model(name: str) -> NamedModel:
    """Return the published model called `name`, e.g. `llama3-8b`.

    Upper and lower case, spaces and hyphens are ignored, so `Llama 3 8B` is the same name.
    Raises UserError, with the most similar name, if no model has this name.
    """
    models = named_models()
    for model in models.values():
        if _is_called(model, name):
            return model
    raise UserError(
        f"there is no model {name!r}; `teralog models` lists all models{did_you_mean(name, models)}"
    )


def is_named(name: str) -> bool:
    """Return whether there is a published model called `name`."""
    return any(_is_called(model, name) for model in named_models().values())


def _is_called(model: NamedModel, name: str) -> bool:
    return any(_plain(own_name) == _plain(name) for own_name in (model.name, *model.also))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name.lower())
