"""One name for what programs and scripts call differently: the project's own words."""

from collections.abc import Mapping

# Megatron, Megatron-DeepSpeed, gpt-neox and DeepSpeed's configuration.
_ARGUMENTS: Mapping[str, str] = {
    "tensor_model_parallel_size": "tensor_parallel_size",
    "model_parallel_size": "tensor_parallel_size",  # Megatron up to 1.1.5, gpt-neox
    "pipeline_model_parallel_size": "pipeline_parallel_size",
    "pipe_parallel_size": "pipeline_parallel_size",
    "expert_model_parallel_size": "expert_parallel_size",
    "batch_size": "micro_batch_size",  # Megatron up to 1.1.5, gpt-neox
    "train_micro_batch_size_per_gpu": "micro_batch_size",
    "train_batch_size": "global_batch_size",
    "gradient_accumulation_steps": "num_microbatches",
    "gas": "num_microbatches",
    "zero_optimization_stage": "zero_stage",
    "stage": "zero_stage",
}

# The variables of the scripts in use at BigScience and of Megatron's examples.
_VARIABLES: Mapping[str, str] = {
    "NLAYERS": "num_layers",
    "NUM_LAYERS": "num_layers",
    "NHIDDEN": "hidden_size",
    "HIDDEN_SIZE": "hidden_size",
    "NHEADS": "num_attention_heads",
    "NUM_HEADS": "num_attention_heads",
    "SEQ_LEN": "seq_length",
    "SEQ_LENGTH": "seq_length",
    "VOCAB_SIZE": "vocab_size",
    "MICRO_BATCH_SIZE": "micro_batch_size",
    "GLOBAL_BATCH_SIZE": "global_batch_size",
    "GAS": "num_microbatches",
    "PP_CHUNKS": "num_microbatches",
    "TP_SIZE": "tensor_parallel_size",
    "PP_SIZE": "pipeline_parallel_size",
    "DP_SIZE": "data_parallel_size",
    "ZERO_STAGE": "zero_stage",
    "WORLD_SIZE": "world_size",
    "NNODES": "nodes",
    "GPUS_PER_NODE": "gpus_per_node",
}


def argument_name(name: str) -> str:
    """Return the project's word for a program's argument; else its own, with underscores."""
    name = name.replace("-", "_")
    return _ARGUMENTS.get(name, name)


def variable_name(name: str) -> str:
    """Return the project's word for a script's variable; else its own."""
    return _VARIABLES.get(name, name)
