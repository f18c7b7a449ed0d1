"""Generate logs for benchmarks: Megatron's step reports among the other output of many nodes."""

import random
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_NOISE = (
    "[2026-01-02 03:04:05,{:03d}] [INFO] [logging.py:96:log_dist] [Rank 0] optimizer state {}",
    "node{}:{}:{} [0] NCCL INFO Channel 02 : 1[1c000] -> 2[88000] [receive] via NET/IB/1/GDRDMA",
    "[rank{}]: W0102 03:04:05.678901 {} torch/_inductor/utils.py:1250] not enough SMs to use it",
    "/usr/lib/python3/site-packages/torch/nn/modules/module.py:{}: UserWarning: deprecated {}",
    "INFO:datasets.arrow_dataset:Loading cached processed dataset at /cache/text-{}/{}.arrow",
    "    loading shard {} of 64 from /data/corpus/text_document_{}.bin, done",
    " > building dataset index of {} documents with seed {} ... finished",
)
_RECORD = (
    " iteration {:8d}/ 1000000 | consumed samples: {:12d} | elapsed time per iteration (ms): {:.1f}"
    " | learning rate: 1.499E-04 | global batch size:  1024 | lm loss: {:.6E} | loss scale: 1.0"
    " | grad norm: {:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
)


@lru_cache
def _noise() -> list[str]:
    rng = random.Random(0)
    return [
        rng.choice(_NOISE).format(*(rng.randrange(1000) for _ in range(3))) for _ in range(50_000)
    ]


def pieces(size: int, lines_per_record: int, seed: int = 0) -> Iterator[bytes]:
    """Yield a generated log of about `size` bytes, piece by piece.

    Each piece has `lines_per_record` lines, of which the last is a step report.
    """
    rng, noise = random.Random(seed), _noise()
    written = iteration = 0
    while written < size:
        iteration += 1
        first = rng.randrange(len(noise) - lines_per_record)
        seconds, loss, grad_norm = rng.uniform(6, 7), rng.uniform(2, 4), rng.uniform(0, 3)
        record = _RECORD.format(iteration, iteration * 1024, 1000 * seconds, loss, grad_norm)
        piece = "\n".join([*noise[first : first + lines_per_record - 1], record, ""]).encode()
        written += len(piece)
        yield piece


def write_log(path: Path, size: int, lines_per_record: int, seed: int = 0) -> int:
    """Write a generated log, and return how many step reports it contains."""
    with path.open("wb") as log:
        return sum(1 for piece in pieces(size, lines_per_record, seed) if log.write(piece))
