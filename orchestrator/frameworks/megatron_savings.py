"""Which further arguments save memory that the forecast takes a rank of Megatron to need."""

from collections.abc import Iterator

from orchestrator.frameworks import megatron_pipeline, megatron_programs
from orchestrator.frameworks.arguments import given
from orchestrator.model import Run

# States or activations are divided, offloaded or of fewer bytes, or the model is smaller.
_SAVES = (
    "--use-torch-fsdp2", "--use-megatron-fsdp", "--optimizer-cpu-offload",
    "--cpu-offloading-num-layers", "--use-precision-aware-optimizer", "--main-grads-dtype",
    "--main-params-dtype", "--exp-avg-dtype", "--exp-avg-sq-dtype", "--grad-reduce-in-bf16",
    "--fp8-format", "--fp8-param-gather", "--fp4-format", "--fp4-param-gather", "--optimizer",
    "--distribute-saved-activations", "--distribute-checkpointed-activations",
    "--num-experts", "--group-query-attention", "--kv-channels", "--multi-latent-attention",
    "--spec", "--heterogeneous-layers-config-path", "--heterogeneous-layers-config-encoded-json",
)  # fmt: skip


def may_save(run: Run) -> bool:
    """Return whether a run may need less than the forecast says, which knows none of these."""
    return bool(run.options.gives(*_SAVES, *megatron_pipeline.UNEVEN))


def warnings(run: Run) -> Iterator[str]:
    """Yield which of them are not told of already, as what changes sizes and TFLOPs, too."""
    told = megatron_programs.unreckoned(run)
    for option in given(run.options.extra_args):
        if option in _SAVES and option not in told:
            yield f"extra_args: the forecast knows nothing of {option}"
