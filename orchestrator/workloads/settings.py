"""Read the settings of a training program from its command line."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .precision import PRECISIONS, Precision

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

# A run of a campaign has the same defaults: `orchestrator.run.model` takes them from here.
DEFAULT_PRECISION: Precision = "fp32"
DEFAULT_LEARNING_RATE = 1.5e-4
DEFAULT_SEED = 1234


class SettingsError(Exception):
    """A mistake of the user, in a sentence: where it is, what is wrong, what to type instead."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a training program, from its command line."""

    strategy: str
    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    num_attention_heads: int
    vocab_size: int
    seq_length: int
    micro_batch_size: int
    num_microbatches: int
    train_iters: int
    precision: str
    activation_checkpointing: bool
    deepspeed_config: Path | None
    learning_rate: float
    seed: int
    device: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that all training programs of this folder accept to a parser."""

    def positive(text: str) -> int:
        if int(text) < 1:
            raise ValueError(text)
        return int(text)

    add = parser.add_argument
    add("--num-layers", type=positive, required=True, help="number of layers")
    add("--hidden-size", type=positive, required=True, help="width of the model")
    add("--ffn-hidden-size", type=positive, help="width of the MLP (4 * hidden size)")
    add(
        "--num-attention-heads",
        type=positive,
        required=True,
        help="attention heads per layer; must divide the hidden size",
    )
    add("--vocab-size", type=positive, required=True, help="number of different tokens")
    add("--seq-length", type=positive, required=True, help="tokens in a sequence")
    add(
        "--micro-batch-size",
        type=positive,
        required=True,
        help="sequences that a rank processes at a time",
    )
    add("--num-microbatches", type=positive, default=1, help="micro-batches per iteration (1)")
    add("--train-iters", type=positive, required=True, help="number of iterations")
    add(
        "--precision",
        choices=PRECISIONS,
        default=DEFAULT_PRECISION,
        help="number format; must agree with DeepSpeed's configuration file (%(default)s)",
    )
    add(
        "--activation-checkpointing",
        action="store_true",
        help="recompute activations in the backward pass",
    )
    add(
        "--deepspeed-config",
        "--deepspeed_config",
        type=Path,
        metavar="FILE",
        help="DeepSpeed's configuration file (JSON), for ZeRO",
    )
    add(
        "--learning-rate",
        type=float,
        default=DEFAULT_LEARNING_RATE,
        help="learning rate; must agree with DeepSpeed's configuration file (1.5e-4)",
    )
    add(
        "--seed",
        type=int,
        default=DEFAULT_SEED,
        help="seed of the weights and the tokens (%(default)s)",
    )
    add(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto: cuda if there is a GPU, otherwise cpu",
    )
    add("--local-rank", "--local_rank", help="set by launchers; LOCAL_RANK is used instead")


def settings_of(options: Mapping[str, Any], strategy: str) -> Settings:
    """Return the settings, given the parsed options and a strategy, e.g. `zero2`."""
    names = (field.name for field in fields(Settings))
    chosen = {name: options[name] for name in names if name != "strategy"}
    chosen["ffn_hidden_size"] = chosen["ffn_hidden_size"] or 4 * chosen["hidden_size"]
    return Settings(strategy=strategy, **chosen)


def check_heads(settings: Settings) -> None:
    """Raise SettingsError if the number of heads does not divide the hidden size."""
    if settings.hidden_size % settings.num_attention_heads:
        raise SettingsError(
            f"--hidden-size {settings.hidden_size} is not divisible by "
            f"--num-attention-heads {settings.num_attention_heads}; change one of them"
        )


def config_value(config: Mapping[str, Any], name: str) -> Any:
    """Return the value at a dotted path, e.g. `bf16.enabled`; None if the path is missing."""
    value: Any = config
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of DeepSpeed's JSON file. Raises SettingsError if it cannot be read."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(f"{path}: cannot be read as DeepSpeed's JSON: {error}") from error
