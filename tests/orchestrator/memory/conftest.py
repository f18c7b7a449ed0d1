"""A fixture that makes runs with any parallel sizes, without a framework."""

from collections.abc import Callable

import pytest

from orchestrator.run.model import Batch, Parallelism, Resources, Run, Training
from orchestrator.run.presets import preset
from orchestrator.run.shape import ModelShape


@pytest.fixture(scope="session")
def split_run() -> Callable[..., Run]:
    """Return a function that makes a run of a model or a preset.

    The function takes the model, the number of GPUs, and parallel and batch sizes.
    """

    def make(
        model: ModelShape | str | None,
        gpus: int = 1,
        *,
        tensor: int = 1,
        pipeline: int = 1,
        micro_batch: int = 1,
        micro_batches: int = 1,
        vocab_size_multiple: int = 128,
    ) -> Run:
        replicas = gpus // (tensor * pipeline)
        return Run(
            framework="any",
            cluster="any",
            model=preset(model) if isinstance(model, str) else model,
            parallelism=Parallelism(tensor, pipeline),
            batch=Batch(micro_batch, micro_batch * micro_batches * replicas or None),
            resources=Resources(1, gpus),
            training=Training(precision="fp16"),
            options=None,
            vocab_size_multiple=vocab_size_multiple,
        )

    return make
