"""Build DeepSpeed's JSON configuration from a run, and find contradictions in it."""

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.frameworks.deepspeed.known_keys import with_todays_names
from orchestrator.run.model import Run

FILE_NAME = "ds_config.json"
_ADAM = ("adam", "adamw")


def deepspeed_config(
    run: Run,
    *,
    offload_optimizer: str,
    offload_param: str,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Return DeepSpeed's configuration for a program that lets DeepSpeed make the optimizer.

    extra: the user's own settings. They are merged into the configuration, section by section.

    `steps_per_print` 1 and `log_level` "info" make DeepSpeed print its throughput line at every
    step. Without `log_level` "info", DeepSpeed 0.17.6 and later versions do not print this line.
    """
    adam: dict[str, Any] = {
        "lr": run.training.learning_rate,
        "betas": [0.9, 0.95],
        "eps": 1e-8,
        "weight_decay": 0.01,
    }
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": run.batch.micro_batch_size,
        "gradient_accumulation_steps": run.num_microbatches,
        "steps_per_print": 1,
        "log_level": "info",
        "optimizer": _optimizer_section(adam, extra),
        "zero_optimization": _zero_section(run, offload_optimizer, offload_param),
    }
    if run.training.precision != "fp32":
        config[run.training.precision] = {"enabled": True}
    return _overlay(config, with_todays_names(extra))


def program_config(
    run: Run,
    *,
    offload_optimizer: str = "none",
    offload_param: str = "none",
    usual: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the DeepSpeed configuration for a program that makes its own optimizer.

    The batch sizes, the ZeRO section and the precision come from the run.
    usual: the settings that the program usually has. They are merged into the configuration first.
    extra: the user's own settings, which are merged last.
    Both `usual` and `extra` are merged section by section.
    """
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": run.batch.micro_batch_size,
        "gradient_accumulation_steps": run.num_microbatches,
        "zero_optimization": _zero_section(run, offload_optimizer, offload_param),
    }
    if run.training.precision != "fp32":
        config[run.training.precision] = {"enabled": True}
    return _overlay(_overlay(config, usual), extra)


def trainer_config(
    run: Run,
    *,
    offload_optimizer: str,
    offload_param: str,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the DeepSpeed configuration of a run of Hugging Face's Trainer.

    Many values are "auto", because the Trainer refuses values that contradict its own arguments.
    The Trainer replaces most "auto" values by the values of its arguments. It computes up to three
    sizes in the ZeRO section from the model's hidden size.
    """
    zero = _zero_section(run, offload_optimizer, offload_param)
    if run.zero_stage:
        zero |= {"overlap_comm": True, "contiguous_gradients": True, "reduce_bucket_size": "auto"}
    if run.zero_stage == 3:
        zero |= {
            "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto",
            "stage3_gather_16bit_weights_on_model_save": False,
        }
    adam: dict[str, Any] = dict.fromkeys(("lr", "betas", "eps", "weight_decay"), "auto")
    config: dict[str, Any] = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "optimizer": _optimizer_section(adam, extra),
        "zero_optimization": zero,
    }
    if run.training.precision != "fp32":
        config[run.training.precision] = {"enabled": "auto"}
    return _overlay(config, with_todays_names(extra))


def trainer_sizes(hidden_size: int) -> dict[str, int]:
    """Return the three sizes that the Trainer computes from the hidden size, by their keys.

    The Trainer puts them in place of "auto" in the section `zero_optimization`. They are numbers of
    elements. Source: trainer_config_finalize in integrations/deepspeed.py of transformers 5.23.
    """
    return {
        "reduce_bucket_size": hidden_size**2,
        "stage3_prefetch_bucket_size": int(0.9 * hidden_size**2),
        "stage3_param_persistence_threshold": 10 * hidden_size,
    }


def without_fused_adam(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration for CPUs, with torch's AdamW in place of DeepSpeed's FusedAdam.

    FusedAdam is made for GPUs; on a CPU, it would have to be compiled first. If the optimizer is
    offloaded or is not Adam or AdamW, nothing is changed, because DeepSpeed then does not use
    FusedAdam. The user's own settings of the optimizer are kept.
    """
    kind = str(value_at(config, "optimizer.type")).lower()
    offloaded = value_at(config, "zero_optimization.offload_optimizer.device", absent="none")
    if kind not in _ADAM or offloaded != "none":
        return dict(config)
    usual = {"optimizer": {"params": {"torch_adam": True}}}
    return _overlay(config, _overlay(usual, {"optimizer": config["optimizer"]}))


def _optimizer_section(adam: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `optimizer` of the configuration, with the settings of AdamW.

    adam: the settings of AdamW.
    extra: the user's own settings. If they name an optimizer other than Adam and AdamW, the section
        contains only the learning rate. The caller then adds the name and the other settings.
    """
    asked = str(value_at(extra, "optimizer.type", absent="AdamW"))
    if asked.lower() not in _ADAM:
        return {"params": {"lr": adam["lr"]}}
    return {"type": "AdamW", "params": {**adam}}


def _zero_section(run: Run, offload_optimizer: str, offload_param: str) -> dict[str, Any]:
    """Return the ZeRO section of a run's configuration.

    Offloaded states are kept in pinned host memory. By default, DeepSpeed keeps them in pageable
    host memory, and copies between the GPU and pageable memory are slower.
    """
    zero: dict[str, Any] = {"stage": run.zero_stage}
    if offload_optimizer != "none":
        zero["offload_optimizer"] = {"device": offload_optimizer, "pin_memory": True}
    if offload_param != "none":
        zero["offload_param"] = {"device": offload_param, "pin_memory": True}
    return zero


def contradictions(
    run: Run, config: Mapping[str, Any], *, filled_in: bool = False
) -> Iterator[str]:
    """Yield one sentence for each value of a configuration that contradicts the run's parameters.

    A contradiction matters because the plan, the table and run.json show the run's parameters, but
    DeepSpeed uses the configuration. A section that is not a mapping is reported, too.

    filled_in: whether the program replaces every "auto" by a value of its command line. If so,
    "auto" does not contradict a parameter.
    """
    training = run.training
    settings = {
        "zero_optimization.stage": ("zero_stage", run.zero_stage),
        "train_batch_size": ("global_batch_size", run.batch.global_batch_size),
        "train_micro_batch_size_per_gpu": ("micro_batch_size", run.batch.micro_batch_size),
        "gradient_accumulation_steps": ("num_microbatches", run.num_microbatches),
        "sequence_parallel_size": (
            "context_parallel_size",
            run.parallelism.context_parallel_size,
        ),
        "data_parallel_size": ("data_parallel_size", run.data_parallel_size),
        "optimizer.params.lr": ("learning_rate", training.learning_rate),
        "fp16.enabled": ("precision", training.precision == "fp16"),
        "bf16.enabled": ("precision", training.precision == "bf16"),
        **{
            f"zero_optimization.{key}.device": (key, getattr(run.options, key, "none"))
            for key in ("offload_optimizer", "offload_param")
        },
    }
    for section in ("zero_optimization", "optimizer", "fp16", "bf16"):
        if section in config and not isinstance(config[section], Mapping):
            yield f"deepspeed: {section} must be a mapping, not {config[section]!r}"
    for path, (parameter, value) in settings.items():
        configured = value_at(config, path, absent=value)
        if configured != value and not (filled_in and configured == "auto"):
            yield f"deepspeed: {path}={configured} contradicts the run's {parameter}; remove it"
    path, ranks = "tensor_parallel.autotp_size", run.parallelism.tensor_parallel_size
    # 0 turns it off; the program may have another way to split its layers.
    if (configured := value_at(config, path, absent=0)) not in (0, ranks):
        yield (
            f"deepspeed: {path}={configured} contradicts the run's tensor_parallel_size; remove it"
        )
    for section in ("fp16", "bf16"):
        if config.get(section) and section != training.precision:
            enabled = value_at(config, f"{section}.enabled", absent=False)
            # Hugging Face's own template has `enabled: auto` in both sections.
            only_auto = filled_in and config[section] == {"enabled": "auto"}
            if enabled is False or (filled_in and enabled == "auto" and not only_auto):
                yield (
                    f"deepspeed: section {section} is for precision={section}, but this run has "
                    f"precision={training.precision}; remove the section"
                )


def value_at(config: Any, path: str, absent: Any = None) -> Any:
    """Return the value at a dotted path of a configuration; `absent` if the path does not exist."""
    for key in path.split("."):
        if not isinstance(config, Mapping) or key not in config:
            return absent
        config = config[key]
    return config


def _overlay(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in extra.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = _overlay(below, value) if both else value  # type: ignore[arg-type]
    return merged
