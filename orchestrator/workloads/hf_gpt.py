"""Train a GPT-2 on dummy tokens with Hugging Face's Trainer and ZeRO, and report its speed.

The program needs torch, DeepSpeed, transformers and accelerate, and the files next to it. It is
started like gpt.py, e.g. by:

    python -m torch.distributed.run --standalone --nproc_per_node 2 -m teralog.hf_gpt

It has the arguments of gpt.py, with `--warmup-steps` instead of `--strategy`. DeepSpeed's JSON sets
the ZeRO stage, and the Trainer fills in "auto" values from the arguments.

The Trainer prints its own lines: a dictionary after each iteration and, at the end, its result with
the time of the whole training. The dictionary does not contain the time of the iteration, so rank 0
also reports this time, in the lines of reporting.py. `step_seconds` is the wall time from the
Trainer's `on_step_begin` to its `on_step_end`: all micro-batches and the optimizer step. Between
two steps, the Trainer fetches samples and reduces the loss for its dictionary. The time between two
steps is only in the Trainer's result.

Weights are drawn as in gpt.py, without dropout, so that the losses of the stages can be compared.
The learning rate is constant after `--warmup-steps`. AdamW has the same settings as in gpt.py. All
other settings of the training are the Trainer's defaults, including the clipping of gradients.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from .gpt_model import draw_weights
from .rank_process import (
    leave,
    load_module,
    print_settings_error,
    select_device,
    set_rank_environment,
)
from .reporting import clock, report_end, report_iteration, report_start
from .settings import Settings, SettingsError, add_arguments, check_heads, read_config, settings_of

if TYPE_CHECKING:
    from pathlib import Path


class DummyTokens(Dataset[dict[str, Tensor]]):
    """A data set of `samples` sequences of random token ids; equal seeds give equal sequences."""

    def __init__(self, settings: Settings, samples: int) -> None:
        self.settings = settings
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        seed = (self.settings.seed * 1_000_003 + index) % 2**63
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(
            self.settings.vocab_size, (self.settings.seq_length,), generator=generator
        )
        labels = tokens.clone()
        labels[0] = -100  # never predicted; the Trainer would count it in the mean loss
        return {"input_ids": tokens, "labels": labels}


@dataclass(slots=True)
class StepTimer:
    """Measures the time of each iteration, and prints it with the loss from the Trainer."""

    settings: Settings
    device: torch.device
    begun: float = 0.0
    seconds: float = 0.0
    loss: float = float("nan")

    def begin(self) -> None:
        """Record the time at which an iteration begins."""
        self.begun = clock(self.device)

    def end(self) -> None:
        """Record how long the iteration took that has just ended."""
        self.seconds = clock(self.device) - self.begun

    def tell(self, iteration: int, loss: float) -> None:
        """Print the report of the iteration that has just ended: its time and its loss.

        loss: the mean over all ranks and micro-batches.
        """
        self.loss = loss
        report_iteration(self.settings, self.device, iteration, self.seconds, loss)


def callback(transformers: Any, times: StepTimer) -> Any:
    """Return a callback of the Trainer that calls `times` at the beginning and end of each step.

    If the Trainer logs a loss, the callback also passes this loss to `times`.
    """

    class Reporter(transformers.TrainerCallback):  # type: ignore[misc]  # known when it is loaded
        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            times.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            times.end()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any, **more: Any) -> None:
            if "loss" in logs:
                times.tell(state.global_step, logs["loss"])

    return Reporter()


def build_hf_model(settings: Settings, deepspeed: Any, transformers: Any) -> Any:
    """Return transformers' GPT-2 of the given sizes.

    Call this after the Trainer's arguments are made: making them informs transformers about ZeRO-3.
    Under ZeRO-3, the model's weights are partitioned over the ranks from the start.
    """
    config = transformers.GPT2Config(
        vocab_size=settings.vocab_size,
        n_positions=settings.seq_length,
        n_embd=settings.hidden_size,
        n_inner=settings.ffn_hidden_size,
        n_layer=settings.num_layers,
        n_head=settings.num_attention_heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        # Tokens that a small vocabulary does not have.
        bos_token_id=None,
        eos_token_id=None,
    )
    model = transformers.AutoModelForCausalLM.from_config(config)
    draw_weights(model, settings, model.device, deepspeed, output="c_proj.")
    return model


def trainer_arguments(
    settings: Settings, device: torch.device, warmup_steps: int, folder: str, transformers: Any
) -> Any:
    """Return the TrainingArguments for these settings.

    folder: the output folder, which the Trainer requires; no checkpoints are written.
    """
    # Reentrant, for the reason in gpt_model.py.
    checkpointing: dict[str, Any] = {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": True},
    }
    if not settings.activation_checkpointing:
        checkpointing = {}
    return transformers.TrainingArguments(
        output_dir=folder,
        deepspeed=str(settings.deepspeed_config),
        use_cpu=device.type == "cpu",
        bf16=settings.precision == "bf16",
        fp16=settings.precision == "fp16",
        per_device_train_batch_size=settings.micro_batch_size,
        gradient_accumulation_steps=settings.num_microbatches,
        max_steps=settings.train_iters,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=warmup_steps,
        adam_beta2=0.95,
        weight_decay=0.01,
        seed=settings.seed,
        logging_steps=1,
        # A loss that is not a number is reported unchanged.
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **checkpointing,
    )


def run_hf_gpt(
    settings: Settings, device: torch.device, warmup_steps: int, transformers: Any
) -> None:
    """Build the model, print the report of the start, and train."""
    deepspeed = load_module("deepspeed", "DeepSpeed is not installed; try `pip install deepspeed`")
    with tempfile.TemporaryDirectory() as folder:
        arguments = trainer_arguments(settings, device, warmup_steps, folder, transformers)
        deepspeed.init_distributed()  # on the CPU, TrainingArguments do not call it
        model = build_hf_model(settings, deepspeed, transformers)
        versions = {"deepspeed": deepspeed.__version__, "transformers": transformers.__version__}
        report_start(settings, device, model, versions)
        times = StepTimer(settings, device)
        global_batch_size = (
            settings.micro_batch_size * settings.num_microbatches * arguments.world_size
        )
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=DummyTokens(settings, global_batch_size * settings.train_iters),
            callbacks=[callback(transformers, times)],
        )
        result = trainer.train()
        trainer.log_metrics("train", result.metrics)
        report_end(settings, device, result.metrics["train_runtime"], times.loss)
    torch.distributed.destroy_process_group()


def zero_stage(path: Path | None) -> int:
    """Return the ZeRO stage in DeepSpeed's JSON file; 0 if the file has no stage.

    Raises SettingsError if `path` is None, or if the file cannot be read or has an invalid stage.
    """
    if path is None:
        raise SettingsError("--deepspeed-config FILE is missing: the Trainer is run with DeepSpeed")
    section = read_config(path).get("zero_optimization", {})
    stage = section.get("stage", 0) if isinstance(section, dict) else None
    if stage not in (0, 1, 2, 3):
        raise SettingsError(f"{path}: zero_optimization.stage is {stage}; try 0, 1, 2 or 3")
    return int(stage)


def hf_gpt_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="hf_gpt.py", description=str(__doc__).split("\n")[0])
    add_arguments(parser)
    parser.add_argument(
        "--warmup-steps", type=int, default=0, help="steps in which the learning rate rises (0)"
    )
    return parser


def hf_gpt_main(arguments: Sequence[str] | None = None) -> int:
    """Train with the settings on the command line; return 0, or 1 after a mistake of the user."""
    options = vars(hf_gpt_parser().parse_args(arguments))
    try:
        set_rank_environment()
        stage = zero_stage(options["deepspeed_config"])
        settings = settings_of(options, f"zero{stage}")
        check_heads(settings)
        device = select_device(settings)
        os.environ["DS_ACCELERATOR"] = device.type  # otherwise DeepSpeed uses any GPU that it finds
        how = "`pip install transformers accelerate`"
        transformers = load_module("transformers", f"transformers is not installed; try {how}")
        load_module(
            "accelerate", f"accelerate is not installed, and the Trainer needs it; try {how}"
        )
        load_module("deepspeed", "DeepSpeed is not installed; try `pip install deepspeed`")
    except SettingsError as error:
        return print_settings_error("hf_gpt.py", error)
    run_hf_gpt(settings, device, options["warmup_steps"], transformers)
    return 0


if __name__ == "__main__":
    leave(hf_gpt_main(sys.argv[1:]))
