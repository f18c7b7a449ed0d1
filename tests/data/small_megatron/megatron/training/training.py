"""Configure the optimizer, and start the training."""

import dataclasses

from . import arguments, global_vars, initialize


@dataclasses.dataclass
class OptimizerConfig:
    """The configuration of an optimizer.

    Raises an error if the learning rate for embeddings is higher than the general learning rate.
    """

    lr: float
    decoupled_lr: float | None = None

    def __post_init__(self):
        if self.decoupled_lr is not None and self.decoupled_lr > self.lr:
            raise ValueError(f"decoupled_lr ({self.decoupled_lr}) is above lr")


def pretrain(model, extra_args_provider=None, args_defaults=None):
    """Read and check the arguments as Megatron does, and end the program instead of training."""
    args = arguments.parse_args(extra_args_provider)
    arguments.validate_args(args, args_defaults)
    global_vars.set_global_variables(args)
    initialize._initialize_distributed(None)
    raise SystemExit("would train")
