"""What several programs cannot do, or are not told, as sentences."""

from collections.abc import Iterator

from orchestrator.model import Run, Training

_DEFAULT = Training()


def unsplit(run: Run) -> Iterator[str]:
    """Yield that a program gives each rank the whole of the model, where a run wants it split."""
    tensor, pipeline = run.parallelism.tensor_parallel_size, run.parallelism.pipeline_parallel_size
    if tensor * pipeline > 1:
        yield (
            f"framework {run.framework} splits no layers: tensor_parallel_size={tensor} and "
            f"pipeline_parallel_size={pipeline} must both be 1"
        )
    yield from whole_sequences(run)


def whole_sequences(run: Run) -> Iterator[str]:
    """Yield that a program splits no sequences, where a run wants it to."""
    if (context := run.parallelism.context_parallel_size) > 1:
        yield (
            f"framework {run.framework} splits no sequences: "
            f"context_parallel_size={context} must be 1"
        )


def unaccumulated(run: Run) -> Iterator[str]:
    """Yield that a program steps after each micro-batch, where a run wants several."""
    if (run.num_microbatches or 1) > 1:
        yield (
            f"framework {run.framework} accumulates no gradients: "
            f"global_batch_size={run.batch.global_batch_size} must be "
            f"micro_batch_size*world_size={run.batch.micro_batch_size * run.world_size}"
        )


def unheard(run: Run, *names: str) -> Iterator[str]:
    """Yield which parameters of the training a run has changed that its program never hears of."""
    for name in names:
        value = getattr(run.training, name)
        if value != getattr(_DEFAULT, name):
            yield f"framework {run.framework} hands no {name} to its program; take {value} out"
