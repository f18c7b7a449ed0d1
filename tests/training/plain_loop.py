"""Train the GPT of `orchestrator/workloads/gpt.py` in this process, with a plain loop.

The loop uses neither DDP nor ZeRO, so its losses are a reference for trainings that do.
"""

import torch

from orchestrator.workloads import gpt_model
from orchestrator.workloads.settings import Settings


def plain_losses(settings: Settings, ranks: int) -> list[float]:
    """Return the loss of each iteration, over the tokens of all ranks together."""
    model = gpt_model.build_model(settings, torch.device("cpu"), None, None)
    adam = {"betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.01}
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, **adam)
    losses = []
    for iteration in range(1, settings.train_iters + 1):
        tokens = [gpt_model.dummy_tokens(settings, iteration, rank)[0] for rank in range(ranks)]
        loss = model(torch.cat(tokens))
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses
