"""Define table columns of a run's chosen values and derived sizes, e.g. `GPUs` and `TP`.

All tables of runs have such columns, to show how the runs differ.
"""

from orchestrator.common.tables import EXACT, Column
from orchestrator.run.model import Run, sizes

FRAMEWORK: Column[Run] = Column("framework", "framework", lambda run: run.framework)
MODEL: Column[Run] = Column("model", "model", lambda run: run.model_name)
SIZE: Column[Run] = Column(
    "size (B)", "parameters_billions", lambda run: sizes(run)["parameters_billions"], EXACT
)
SEQUENCE: Column[Run] = Column(
    "seq", "seq_length", lambda run: run.model.seq_length if run.model else None
)
NODES: Column[Run] = Column("nodes", "nodes", lambda run: run.resources.nodes)
GPUS: Column[Run] = Column("GPUs", "world_size", lambda run: run.world_size)
TENSOR: Column[Run] = Column(
    "TP", "tensor_parallel_size", lambda run: run.parallelism.tensor_parallel_size
)
PIPELINE: Column[Run] = Column(
    "PP", "pipeline_parallel_size", lambda run: run.parallelism.pipeline_parallel_size
)
CONTEXT: Column[Run] = Column(
    "CP", "context_parallel_size", lambda run: run.parallelism.context_parallel_size
)
# For contradictory values, which a page may contain, the given number is shown.
DATA: Column[Run] = Column(
    "DP",
    "data_parallel_size",
    lambda run: run.parallelism.contradicted_data_parallel_size or run.data_parallel_size,
)
MICRO_BATCH: Column[Run] = Column(
    "micro-batch", "micro_batch_size", lambda run: run.batch.micro_batch_size
)
MICRO_BATCHES: Column[Run] = Column(
    "micro-batches",
    "num_microbatches",
    lambda run: run.batch.contradicted_num_microbatches or run.num_microbatches,
)
GLOBAL_BATCH: Column[Run] = Column(
    "global batch", "global_batch_size", lambda run: run.batch.global_batch_size
)
PRECISION: Column[Run] = Column("precision", "precision", lambda run: run.training.precision)
RECOMPUTATION: Column[Run] = Column(
    "recompute",
    "activation_checkpointing",
    lambda run: "yes" if run.training.activation_checkpointing else "no",
)
ITERATIONS: Column[Run] = Column("iterations", "train_iters", lambda run: run.training.train_iters)
SEED: Column[Run] = Column("seed", "seed", lambda run: run.training.seed)
REPEAT: Column[Run] = Column("repeat", "repeat", lambda run: run.repeat)
