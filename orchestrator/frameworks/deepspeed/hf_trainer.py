"""Check a DeepSpeed configuration against the values of Hugging Face's Trainer.

The Trainer fills in what the configuration leaves to it as "auto", and refuses any other value than
its own: HfTrainerDeepSpeedConfig of transformers 5.23.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.frameworks.arguments import given, number
from orchestrator.frameworks.deepspeed.config import value_at
from orchestrator.run.model import Run

# By what the Trainer calls them; those of hf_gpt.py are chosen there, the others its own defaults.
_DEFAULTS = {
    "max_grad_norm": 1.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "weight_decay": 0.0,
}
_OF_HF_GPT = {**_DEFAULTS, "adam_beta2": 0.95, "weight_decay": 0.01}
_FILLED_IN = "auto"


def mismatches(run: Run, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a configuration says otherwise than what the run's Trainer is given."""
    for path, (value, names) in _expected(run).items():
        found = value_at(config, path, absent=_FILLED_IN)
        if found in (_FILLED_IN, None, value):
            continue
        shown = f"{path}={found} contradicts the Trainer's {' and '.join(names)}={value}"
        remedy = "take it out"
        if run.options.program == "run_clm" and set(names) <= _DEFAULTS.keys():
            options = " and ".join(f"--{name}" for name in names)
            remedy = f"say it by {options} in script_args, too, or take it out"
        yield f"deepspeed: {shown}; {remedy}"


def _expected(run: Run) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Return by path what the Trainer compares with, and what that is called."""
    told = _told(run)
    rate, steps = run.training.learning_rate, run.training.train_iters
    return {
        "gradient_clipping": (told["max_grad_norm"], ("max_grad_norm",)),
        "optimizer.params.betas": (
            [told["adam_beta1"], told["adam_beta2"]],
            ("adam_beta1", "adam_beta2"),
        ),
        "optimizer.params.eps": (told["adam_epsilon"], ("adam_epsilon",)),
        "optimizer.params.weight_decay": (told["weight_decay"], ("weight_decay",)),
        "scheduler.params.warmup_max_lr": (rate, ("learning_rate",)),
        "scheduler.params.total_num_steps": (steps, ("train_iters",)),
        # DeepSpeed takes no warm-up of no steps.
        "scheduler.params.warmup_num_steps": (
            max(1, run.options.warmup_steps),
            ("warmup_steps",),
        ),
    }


def _told(run: Run) -> dict[str, float]:
    if run.options.program == "hf_gpt":
        return dict(_OF_HF_GPT)
    # It takes hyphens for underscores, too.
    options = {
        f"--{option[2:].replace('-', '_')}": values
        for option, values in given(run.options.script_args).items()
    }
    found = {name: number(options, f"--{name}") for name in _DEFAULTS}
    return {name: _DEFAULTS[name] if value is None else value for name, value in found.items()}
