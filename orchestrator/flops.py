"""Floating-point operations of one training iteration of a GPT, by exact matrix products.

A product of (m, k) by (k, n) costs 2mkn. Embedding look-ups, LayerNorms, softmax, GELU and the
optimizer are left out, as everybody leaves them out: they are below 1 % for any model worth timing.
"""

from orchestrator.model import ModelShape, Run


def forward_flops(model: ModelShape, padded_vocab_size: int, sequences: int) -> tuple[int, int]:
    """Return the FLOPs of one forward pass over `sequences`, of the layers and of the head.

    Per token and layer, with h = hidden_size, f = ffn width and s = seq_length: query, key, value
    and output projections 8h², the MLP's two matrices 4hf, attention scores and their product with
    the values 4sh (every token attends to s tokens: the causal half is not taken off). The head
    costs 2hV per token.
    """
    h, f, s = model.hidden_size, model.ffn_width, model.seq_length
    tokens = sequences * s
    layers = model.num_layers * (8 * h * h + 4 * h * f + 4 * s * h) * tokens
    return layers, 2 * h * padded_vocab_size * tokens


def model_flops(run: Run) -> int | None:
    """Return the FLOPs an iteration needs: forward and backward, no recomputation; for MFU.

    The backward pass costs twice the forward pass, one product for the gradient of the inputs and
    one for that of the weights. With f = 4h this is 72·B·s·l·h²·(1 + s/6h + V/12lh): equation 3 of
    Narayanan et al. 2021 (arXiv 2104.04473) with the recomputed forward pass taken out, and what
    torch's FlopCounterMode counts with the math attention kernel. None where the model or the
    batch is not known.
    """
    return _per_iteration(run, layer_passes=3)


def hardware_flops(run: Run) -> int | None:
    """Return the FLOPs the GPUs do in an iteration, recomputation included; for HFU and TFLOPs.

    With activation checkpointing each layer runs forward twice, the head once: with f = 4h this is
    equation 3 of Narayanan et al. 2021, 96·B·s·l·h²·(1 + s/6h + V/16lh). Without it, it is
    `model_flops`. None where the model or the batch is not known.
    """
    return _per_iteration(run, layer_passes=4 if run.training.activation_checkpointing else 3)


def tflops_per_gpu(flops: int | None, step_seconds: float | None, world_size: int) -> float | None:
    """Return 10**12 FLOPs per second and rank, or None where a number is missing."""
    if flops is None or not step_seconds:
        return None
    return flops / step_seconds / world_size / 1e12


def _per_iteration(run: Run, layer_passes: int) -> int | None:
    if run.model is None or run.padded_vocab_size is None or run.batch.global_batch_size is None:
        return None
    layers, head = forward_flops(run.model, run.padded_vocab_size, run.batch.global_batch_size)
    return layer_passes * layers + 3 * head
