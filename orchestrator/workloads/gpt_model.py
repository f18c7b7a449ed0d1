"""Build the GPT to train, its initial weights, and its tokens.

Equal seeds give equal initial weights and equal tokens. So the losses of different strategies can
be compared.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from .settings import Settings


class Block(nn.Module):
    """A layer: causal attention and a GELU feed-forward network, each after a LayerNorm.

    The outputs of the attention and of the feed-forward network are added to the residual stream.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        hidden_size, ffn_hidden_size = settings.hidden_size, settings.ffn_hidden_size
        self.num_attention_heads = settings.num_attention_heads
        self.attention_norm = nn.LayerNorm(hidden_size)
        self.attention_in = nn.Linear(hidden_size, 3 * hidden_size)
        self.attention_out = nn.Linear(hidden_size, hidden_size)
        self.ffn_norm = nn.LayerNorm(hidden_size)
        self.ffn_in = nn.Linear(hidden_size, ffn_hidden_size)
        self.ffn_out = nn.Linear(ffn_hidden_size, hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """Map a tensor of shape (micro_batch_size, seq_length, hidden_size) to the same shape."""
        query, key, value = (
            part.unflatten(-1, (self.num_attention_heads, -1)).transpose(1, 2)
            for part in self.attention_in(self.attention_norm(x)).chunk(3, dim=-1)
        )
        attention = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(attention.transpose(1, 2).flatten(2))
        ffn = functional.gelu(self.ffn_in(self.ffn_norm(x)), approximate="tanh")
        output: Tensor = x + self.ffn_out(ffn)
        return output


class GPT(nn.Module):
    """GPT-2: learned positions, biases everywhere, output head tied to the token embedding.

    The number of parameters is computed from l = layers, h = hidden size, f = feed-forward size,
    v = vocabulary and s = sequence length. It is the sum of:

    - in each of the l blocks: 4h^2 + 4h in the attention (query, key, value, output), 2hf + f + h
      in the feed-forward network, and 4h in the two LayerNorms;
    - vh + sh in the embeddings;
    - 2h in the final LayerNorm.

    With f = 4h, the sum is l(12h^2 + 13h) + vh + sh + 2h. Each tied weight is counted once.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.activation_checkpointing = settings.activation_checkpointing
        self.token_embedding = nn.Embedding(settings.vocab_size, settings.hidden_size)
        self.position_embedding = nn.Embedding(settings.seq_length, settings.hidden_size)
        self.blocks = nn.ModuleList(Block(settings) for _ in range(settings.num_layers))
        self.final_norm = nn.LayerNorm(settings.hidden_size)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss of next-token prediction.

        tokens: token ids of shape (micro_batch_size, seq_length + 1).
        """
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        positions = torch.arange(inputs.shape[1], device=inputs.device)
        x = self.token_embedding(inputs) + self.position_embedding(positions)
        for block in self.blocks:
            if self.activation_checkpointing:
                # Reentrant, because it recomputes the whole block, as the usual FLOPs formulas
                # count it; the other kind leaves out the block's last matrix product.
                x = checkpoint(block, x, use_reentrant=True, preserve_rng_state=False)
            else:
                x = block(x)
        logits = functional.linear(self.final_norm(x), self.token_embedding.weight)
        return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def build_model(settings: Settings, device: torch.device, deepspeed: Any, config: Any) -> GPT:
    """Return a GPT with GPT-2's initial weights.

    Weights are drawn from a normal distribution with standard deviation 0.02. For output
    projections, this standard deviation is divided by the square root of twice the number of
    layers. Under ZeRO-3 the weights are partitioned over the ranks from the start.
    """
    partitioned = settings.strategy == "zero3"
    with deepspeed.zero.Init(config_dict_or_path=config) if partitioned else device:
        model = GPT(settings)
    draw_weights(model, settings, device, deepspeed, output="_out.")
    return model


def draw_weights(
    model: nn.Module, settings: Settings, device: torch.device, deepspeed: Any, *, output: str
) -> None:
    """Give a model GPT-2's initial weights.

    output: a text that only the names of output projections contain.

    Each weight is drawn whole and in fp32, even if it is partitioned over the ranks. So all
    strategies start from the same numbers.
    """
    partitioned = settings.strategy == "zero3"
    generator = torch.Generator(device).manual_seed(settings.seed)
    for name, weight in model.named_parameters():
        gather = deepspeed.zero.GatheredParameters(weight, modifier_rank=0) if partitioned else None
        with torch.no_grad(), gather or nullcontext():
            if name.endswith("bias"):
                weight.zero_()
            elif weight.ndim == 2:
                std = 0.02 / math.sqrt(2 * settings.num_layers if output in name else 1)
                drawn = torch.empty(weight.shape, device=device)
                weight.copy_(drawn.normal_(0, std, generator=generator))


def dummy_tokens(settings: Settings, iteration: int, rank: int) -> Tensor:
    """Return the random token ids that a rank trains on in an iteration.

    The shape is (num_microbatches, micro_batch_size, seq_length + 1). The sequences do not depend
    on how the batch is divided into micro-batches.
    """
    seed = ((settings.seed * 1_000_003 + iteration) * 1_000_003 + rank) % 2**63
    shape = (settings.num_microbatches, settings.micro_batch_size, settings.seq_length + 1)
    return torch.randint(settings.vocab_size, shape, generator=torch.Generator().manual_seed(seed))
