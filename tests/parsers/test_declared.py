"""Parse reports in declared formats (one line per report), and lines that only resemble them."""

import io
import json
import math
from pathlib import Path
from statistics import fmean, median

import pytest
from reports import parse

from parsers.formats.declared.fine_tuners import LITGPT, LITGPT_2023
from parsers.formats.declared.json_lines import AUTOMODEL
from parsers.formats.declared.maxtext import MAXTEXT
from parsers.formats.declared.mlperf import MLPERF
from parsers.formats.declared.nanogpt import (
    BUILD_NANOGPT,
    LLM_C,
    LLM_C_LOSSES,
    LLM_C_PYTORCH,
    MODDED_NANOGPT,
    NANOCHAT,
    NANOGPT,
    PARAMETER_GOLF,
)
from parsers.formats.declared.nemo import MEGATRON_BRIDGE, NEMO, NEMO_1
from parsers.formats.declared.paddle import PADDLE, PADDLE_GPT
from parsers.formats.declared.reinforcement import VERL, VERL_SFT
from parsers.formats.declared.scripts import (
    FAIRSEQ,
    FAIRSEQ_JSON,
    TORCHTUNE,
    TORCHTUNE_BAR,
    TRANSFORMER_XL,
)
from parsers.formats.declared.small_trainers import AUTOMODEL_CONSOLE, PRIME_RL
from parsers.formats.declared.torchtitan import TORCHTITAN
from parsers.records import OutcomeKind, Step
from parsers.runs.reading import read
from parsers.scan.reader import LogFormat
from parsers.summary.run import summarise
from parsers.summary.warmup import Warmup

LOGS = Path(__file__).parents[3] / "shared" / "logs-2026"

TITAN = "[rank0]:[titan] 2025-12-13 06:57:02,246 - root - INFO - "
STEP_10 = "step: 10  loss: 10.0544  "
LINES: dict[str, tuple[LogFormat, str, dict[str, float]]] = {
    "torchtitan of 2025": (
        TORCHTITAN,
        (
            f"{TITAN}{STEP_10}grad_norm:  6.6503  memory: 116.82GiB(83.61%)  tps: 2,228  "
            "tflops: 83.74  mfu: 8.47%"
        ),
        {
            "iteration": 10,
            "loss": 10.0544,
            "grad_norm": 6.6503,
            "max_memory_reserved_gib": 116.82,
            "tokens_per_second_per_gpu": 2228.0,
            "reported_tflops_per_gpu": 83.74,
            "reported_mfu": 0.0847,
        },
    ),
    "torchtitan of 2024, with colors": (
        TORCHTITAN,
        f"{TITAN}\x1b[31m{STEP_10}\x1b[33mmemory:  9.01GiB(58.23%)  \x1b[34mwps: 1,191  mfu: 0.37%",
        {
            "iteration": 10,
            "loss": 10.0544,
            "max_memory_reserved_gib": 9.01,
            "tokens_per_second_per_gpu": 1191.0,
            "reported_mfu": 0.0037,
        },
    ),
    "torchtitan with FP8, of a module": (
        TORCHTITAN,
        (
            "[titan] 2026-09-13 06:57:02,246 - torchtitan.train - INFO - "
            f"{STEP_10}grad_norm: 1.0  memory: 1.00GiB(1.00%)  tps: 3  tflops: 2.00  mfu: N/A"
        ),
        {
            "iteration": 10,
            "loss": 10.0544,
            "grad_norm": 1.0,
            "max_memory_reserved_gib": 1.0,
            "tokens_per_second_per_gpu": 3.0,
            "reported_tflops_per_gpu": 2.0,
        },
    ),
    "NeMo 2 with memory": (
        NEMO,
        (
            "[2025-10-17T11:32:59+08:00] 0: Training epoch 0, iteration 45/99 | lr: 6.897e-06 | "
            "global_batch_size: 128 | global_step: 45 | max_memory_reserved: 2147483648 | "
            "max_memory_allocated: 1073741824 | reduced_train_loss: 11.96 | "
            "train_step_timing in s: 6.08 | TFLOPS_per_GPU: 1.249e+03 | consumed_samples: 5888"
        ),
        {
            "iteration": 45,
            "learning_rate": 6.897e-06,
            "global_batch_size": 128,
            "max_memory_reserved_gib": 2.0,
            "max_memory_allocated_gib": 1.0,
            "loss": 11.96,
            "step_seconds": 6.08,
            "reported_tflops_per_gpu": 1249.0,
            "consumed_samples": 5888,
            "log_interval": 1,
        },
    ),
    "Megatron-Bridge": (
        MEGATRON_BRIDGE,
        "Step Time : 2.41s GPU utilization: 1085.8MODEL_TFLOP/s/GPU",
        {
            "iteration": 0,
            "step_seconds": 2.41,
            "reported_tflops_per_gpu": 1085.8,
        },
    ),
    "Megatron-Bridge, older": (
        MEGATRON_BRIDGE,
        "Step Time : 2.41s GPU utilization: 1158.1TFLOP/s/GPU",
        {
            "iteration": 0,
            "step_seconds": 2.41,
            "reported_tflops_per_gpu": 1158.1,
        },
    ),
    "Megatron-Bridge, FLOPs unknown": (
        MEGATRON_BRIDGE,
        "Step Time : 2.41s GPU utilization: 0.0MODEL_TFLOP/s/GPU",
        {"iteration": 0, "step_seconds": 2.41},
    ),
    "MaxText": (
        MAXTEXT,
        (
            "I0601 22:14:54 metric_logger.py:181] completed step: 14, seconds: 3.443, "
            "TFLOP/s/device: 413.433, Tokens/s/device: 7138.890, total_weights: 196608, loss: 2.136"
        ),
        {
            "iteration": 14,
            "step_seconds": 3.443,
            "reported_tflops_per_gpu": 413.433,
            "tokens_per_second_per_gpu": 7138.89,
            "loss": 2.136,
            "log_interval": 1,
        },
    ),
    "verl": (
        VERL,
        (
            "\x1b[36m(TaskRunner pid=247607)\x1b[0m step:1 - actor/pg_loss:np.float64(0.5) - "
            "perf/mfu/actor_infer:0.7 - perf/mfu/actor:0.4 - perf/max_memory_allocated_gb:18.9 - "
            "timing_s/gen:16.2 - timing_s/step:48.7 - perf/throughput:3283.3"
        ),
        {
            "iteration": 1,
            "loss": 0.5,
            "reported_mfu": 0.4,
            "max_memory_allocated_gib": 18.9,
            "step_seconds": 48.7,
            "tokens_per_second_per_gpu": 3283.3,
            "log_interval": 1,
        },
    ),
    "nanoGPT": (
        NANOGPT,
        "2023-03-22 09:30:39 iter 2920: loss 3.9871, time 1099.31ms, mfu 15.34%",
        {
            "iteration": 2920,
            "loss": 3.9871,
            "step_seconds": 1.09931,
            "reported_mfu": 0.1534,
            "log_interval": 1,
        },
    ),
    "nanoGPT before its fifth iteration": (
        NANOGPT,
        "iter 0: loss nan, time 9371.81ms, mfu -100.00%",
        {"iteration": 0, "loss": float("nan"), "step_seconds": 9.37181, "log_interval": 1},
    ),
    "nanoGPT of January 2023": (
        NANOGPT,
        "iter 1631: loss 4.0861, time 561.93ms",
        {"iteration": 1631, "loss": 4.0861, "step_seconds": 0.56193, "log_interval": 1},
    ),
    "llm.c": (
        LLM_C,
        (
            "step   77/19560 | loss 7.012300 (-0.52z)| norm 2.3100 (+0.11z)| lr 6.60e-05 | "
            "301.20 ms | 53.2% bf16 MFU | 174012 tok/s"
        ),
        {
            "iteration": 77,
            "iterations": 19560,
            "loss": 7.0123,
            "grad_norm": 2.31,
            "learning_rate": 6.6e-05,
            "step_seconds": 0.3012,
            "reported_mfu": 0.532,
            "tokens_per_second": 174012.0,
            "log_interval": 1,
        },
    ),
    "llm.c on a GPU without a known peak": (
        LLM_C,
        (
            "step    1/74 | loss 10.9 (+nanz)| norm nan (+nanz)| lr 0.00e+00 | 301.20 ms | "
            "-100.0% bf16 MFU | 9 tok/s"
        ),
        {
            "iteration": 1,
            "iterations": 74,
            "loss": 10.9,
            "grad_norm": float("nan"),
            "learning_rate": 0.0,
            "step_seconds": 0.3012,
            "tokens_per_second": 9.0,
            "log_interval": 1,
        },
    ),
    "llm.c's program in C": (
        LLM_C,
        "step 2: train loss 4.623322 (took 29932.181000 ms)",
        {"iteration": 2, "loss": 4.623322, "step_seconds": 29.932181, "log_interval": 1},
    ),
    "llm.c of May 2024": (
        LLM_C,
        "step    2/74: train loss 4.623322 norm 15.3387 lr 3.00e-04 (77.38 ms, 105868 tok/s)",
        {
            "iteration": 2,
            "iterations": 74,
            "loss": 4.623322,
            "grad_norm": 15.3387,
            "learning_rate": 3e-4,
            "step_seconds": 0.07738,
            "tokens_per_second": 105868.0,
            "log_interval": 1,
        },
    ),
    "llm.c with the MFU of another GPU": (
        LLM_C,
        (
            "step    2/74 | train loss 4.6233 | norm 15.3387 | lr 3.00e-04 | 77.38 ms | "
            "51.1% A100 fp16 MFU | 105868 tok/s"
        ),
        {
            "iteration": 2,
            "iterations": 74,
            "loss": 4.6233,
            "grad_norm": 15.3387,
            "learning_rate": 3e-4,
            "step_seconds": 0.07738,
            "tokens_per_second": 105868.0,
            "log_interval": 1,
        },
    ),
    "Automodel without the rate of one GPU": (
        AUTOMODEL_CONSOLE,
        "step 3 | epoch 0 | loss 1.9234 | grad_norm 9.1250 | lr 1e-05 | mem 12.34 GiB | tps 9.50",
        {
            "iteration": 3,
            "loss": 1.9234,
            "grad_norm": 9.125,
            "learning_rate": 1e-05,
            "max_memory_allocated_gib": 12.34,
        },
    ),
    "prime-rl, a step of less than a second": (
        PRIME_RL,
        (
            "Step 7 |   345ms | Loss 0.5125 | Grad. Norm 0.0625 | LR 1.00e-06 | Throughput 7101 "
            "tokens/s | MFU 22.0% | Peak Mem. 41.5 GiB"
        ),
        {
            "iteration": 7,
            "loss": 0.5125,
            "grad_norm": 0.0625,
            "learning_rate": 1e-6,
            "step_seconds": 0.345,
            "tokens_per_second": 7101.0,
            "reported_mfu": 0.22,
            "max_memory_reserved_gib": 41.5,
            "log_interval": 1,
        },
    ),
    "prime-rl, a step of minutes": (
        PRIME_RL,
        (
            "Step 7 |  2m 13s | Loss 0.5125 | Entropy 0.2 | LR 1.00e-06 | Throughput 7101 tokens/s "
            "| MFU 22.0% | Peak Mem. 41.5 GiB"
        ),
        {
            "iteration": 7,
            "loss": 0.5125,
            "learning_rate": 1e-6,
            "step_seconds": 133.0,
            "tokens_per_second": 7101.0,
            "reported_mfu": 0.22,
            "max_memory_reserved_gib": 41.5,
            "log_interval": 1,
        },
    ),
    "prime-rl, a step of hours": (
        PRIME_RL,
        "Step 7 |   2h 3m | Loss 0.5125 | LR 1.00e-06 | Throughput 0 tokens/s | Peak Mem. 41.5 GiB",
        {
            "iteration": 7,
            "loss": 0.5125,
            "learning_rate": 1e-6,
            "step_seconds": 7380.0,
            "max_memory_reserved_gib": 41.5,
            "log_interval": 1,
        },
    ),
    "verl of 2026, at the beginning of a warm-up": (
        VERL,
        "step:1 - actor/lr:0.0 - timing_s/step:96.5 - perf/throughput:5.5",
        {
            "iteration": 1,
            "learning_rate": 0.0,
            "step_seconds": 96.5,
            "tokens_per_second_per_gpu": 5.5,
            "log_interval": 1,
        },
    ),
    "Transformer-XL without a rate": (
        TRANSFORMER_XL,
        (
            "| epoch   2 step    16800 |   5330 batches | lr 0.000246 | ms/batch 621.31 | "
            "loss  7.34 | ppl  1544.213"
        ),
        {"iteration": 16800, "learning_rate": 0.000246, "step_seconds": 0.62131, "loss": 7.34},
    ),
    "MaxText of 2023": (
        MAXTEXT,
        "completed step: 2, seconds: 0.207, TFLOP/s: 71.958, loss: 9.351",
        {
            "iteration": 2,
            "step_seconds": 0.207,
            "reported_tflops_per_gpu": 71.958,
            "loss": 9.351,
            "log_interval": 1,
        },
    ),
    "MaxText with prediction of several tokens": (
        MAXTEXT,
        "completed step: 3, seconds:  0.324, TFLOP/s/device: 56.061,  main_model_loss: 11.551",
        {
            "iteration": 3,
            "step_seconds": 0.324,
            "reported_tflops_per_gpu": 56.061,
            "loss": 11.551,
            "log_interval": 1,
        },
    ),
    "verl of 2026, with the memory of the actor": (
        VERL,
        (
            "(TaskRunner pid=1) step:3 - perf/mfu/actor_infer:0.0 - actor/loss:0.04 - "
            "actor/perf/max_memory_allocated_gb:24.5 - actor/perf/max_memory_reserved_gb:27.6 - "
            "perf/mfu/actor:0.0 - timing_s/step:48.7 - perf/throughput:3283.3"
        ),
        {
            "iteration": 3,
            "max_memory_allocated_gib": 24.5,
            "max_memory_reserved_gib": 27.6,
            "step_seconds": 48.7,
            "tokens_per_second_per_gpu": 3283.3,
            "log_interval": 1,
        },
    ),
    "verl, supervised fine-tuning of 2025": (
        VERL_SFT,
        (
            "Epoch 1/3:   0%|          | 0/35 [00:00<?, ?it/s]step:1 - "
            "train/loss:1.1166926622390747 - train/lr(1e-3):0.002 - train/time(s):2.81"
        ),
        {
            "iteration": 1,
            "loss": 1.1166926622390747,
            "learning_rate": 2e-06,
            "step_seconds": 2.81,
            "log_interval": 1,
        },
    ),
    "verl, supervised fine-tuning of 2026": (
        VERL_SFT,
        (
            "step:7 - train/loss:0.54 - train/grad_norm:19.875 - train/lr:1.66e-06 - "
            "train/mfu:0.25 - train/time(s):2.81 - train/global_tokens:4096"
        ),
        {
            "iteration": 7,
            "loss": 0.54,
            "grad_norm": 19.875,
            "learning_rate": 1.66e-06,
            "reported_mfu": 0.25,
            "step_seconds": 2.81,
            "log_interval": 1,
        },
    ),
    "verl of 2025, whose learning rate is rounded to zero": (
        VERL,
        "(main_task pid=1) step:1 - actor/lr:0.000 - mfu/actor:0.322 - timing_s/step:215.1 - a:1",
        {
            "iteration": 1,
            "reported_mfu": 0.322,
            "step_seconds": 215.1,
            "log_interval": 1,
        },
    ),
    "NeMo 2 with allocated memory": (
        NEMO,
        (
            "Training epoch 0, iteration 4/9 | global_step: 4 | memory_allocated: 1073741824 | "
            "train_step_timing in s: 2.5"
        ),
        {"iteration": 4, "memory_allocated_gib": 1.0, "step_seconds": 2.5, "log_interval": 1},
    ),
    "nanochat": (
        NANOCHAT,
        (
            "step 00002/04200 (0.05%) | loss: 10.841203 | lrm: 0.05 | dt: 312.44ms | "
            "tok/sec: 1,679,832 | bf16_mfu: 51.83 | epoch: 1 | total time: 0.10m"
        ),
        {
            "iteration": 2,
            "iterations": 4200,
            "loss": 10.841203,
            "step_seconds": 0.31244,
            "tokens_per_second": 1679832.0,
            "reported_mfu": 0.5183,
            "log_interval": 1,
        },
    ),
    "nanochat on an unknown device": (
        NANOCHAT,
        "step 00002/04200 (0.05%) | loss: nan | lrm: 0.05 | dt: 312.44ms | tok/sec: 9 | mfu: 0.00",
        {
            "iteration": 2,
            "iterations": 4200,
            "loss": float("nan"),
            "step_seconds": 0.31244,
            "tokens_per_second": 9.0,
            "log_interval": 1,
        },
    ),
    "modded-nanogpt": (
        MODDED_NANOGPT,
        "step:1390/1390 train_time:80605ms step_avg:57.99ms",
        {
            "iteration": 1390,
            "iterations": 1390,
            "train_seconds": 80.605,
            "running_step_seconds": 0.05799,
        },
    ),
    "modded-nanogpt in seconds": (
        MODDED_NANOGPT,
        "step:3/9 train_loss:4.5 train_time:22.870s step_avg:nanms",
        {"iteration": 3, "iterations": 9, "train_seconds": 22.87, "loss": 4.5},
    ),
    "modded-nanogpt with more fields": (
        MODDED_NANOGPT,
        "step:3/9 train_loss:4.5 train_aux_loss:0.1 lr_mul:1.0 train_time:229ms step_avg:76.33ms",
        {
            "iteration": 3,
            "iterations": 9,
            "train_seconds": 0.229,
            "running_step_seconds": 0.07633,
            "loss": 4.5,
        },
    ),
    "modded-nanogpt, with the part of the training in brackets": (
        MODDED_NANOGPT,
        "step:3/9 [PHASE 33%] train_loss:4.5 train_time:229ms step_avg:76.33ms",
        {
            "iteration": 3,
            "iterations": 9,
            "train_seconds": 0.229,
            "running_step_seconds": 0.07633,
            "loss": 4.5,
        },
    ),
    "modded-nanogpt, with short names": (
        MODDED_NANOGPT,
        "step:3/9 loss:4.5 ce:4.25 t:229ms step_avg:76.3ms",
        {
            "iteration": 3,
            "iterations": 9,
            "train_seconds": 0.229,
            "running_step_seconds": 0.0763,
            "loss": 4.5,
        },
    ),
    "modded-nanogpt, with even shorter names": (
        MODDED_NANOGPT,
        "step:3/9 loss:4.5 t:229ms avg:76.3ms",
        {
            "iteration": 3,
            "iterations": 9,
            "train_seconds": 0.229,
            "running_step_seconds": 0.0763,
            "loss": 4.5,
        },
    ),
    "parameter-golf": (
        PARAMETER_GOLF,
        "500/9000 train_loss: 3.1250 train_time: 0.8m tok/s: 7123456",
        {"iteration": 500, "iterations": 9000, "loss": 3.125},
    ),
    "llm.c, its file of losses": (
        LLM_C_LOSSES,
        "s:12 trl:7.0123 lr:0.000066 norm:2.31",
        {"iteration": 12, "loss": 7.0123, "learning_rate": 6.6e-05, "grad_norm": 2.31},
    ),
    "llm.c, the file of losses of its program for PyTorch": (
        LLM_C_LOSSES,
        "s:12 trl:7.012300",
        {"iteration": 12, "loss": 7.0123},
    ),
    "llm.c, its program for PyTorch of May 2024": (
        LLM_C_PYTORCH,
        "iteration 2, loss: 4.6233, time: 77.381ms, tok/s: 105868.25, norm: 15.339",
        {
            "iteration": 2,
            "loss": 4.6233,
            "step_seconds": 0.077381,
            "tokens_per_second": 105868.25,
            "grad_norm": 15.339,
            "log_interval": 1,
        },
    ),
    "torchtitan with the part of the training that is done": (
        TORCHTITAN,
        (
            f"{TITAN}step: 10/700 =  1.4286%  loss:  6.2500  memory: 87.04GiB(93.48%)  "
            "tps: 52,142  mfu: 3.09%"
        ),
        {
            "iteration": 10,
            "loss": 6.25,
            "max_memory_reserved_gib": 87.04,
            "tokens_per_second_per_gpu": 52142.0,
            "reported_mfu": 0.0309,
        },
    ),
    "litgpt": (
        LITGPT,
        "Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)",
        {"iteration": 2, "loss": 1.66, "step_seconds": 0.54872, "log_interval": 1},
    ),
    "litgpt of 2023": (
        LITGPT_2023,
        "iter 2 step 1: loss 3.3320, iter time: 765.52ms (optimizer.step)",
        {"iteration": 2, "loss": 3.332, "step_seconds": 0.76552, "log_interval": 1},
    ),
    "litgpt of 2023, with bars": (
        LITGPT_2023,
        "iter 4810 | step 601: loss 0.2745, iter time: 131.68 ms",
        {"iteration": 4810, "loss": 0.2745, "step_seconds": 0.13168, "log_interval": 1},
    ),
    "lit-llama": (
        LITGPT_2023,
        "iter 2: loss 3.3320, time: 765.52ms, speed: 2675 toks/s/device",
        {
            "iteration": 2,
            "loss": 3.332,
            "step_seconds": 0.76552,
            "tokens_per_second_per_gpu": 2675.0,
            "log_interval": 1,
        },
    ),
    "lit-llama, while it accumulates gradients": (
        LITGPT_2023,
        "iter 2: loss 3.3320, time: 765.52ms, speed: - toks/s/device",
        {"iteration": 2, "loss": 3.332, "step_seconds": 0.76552, "log_interval": 1},
    ),
    "llm.c, its program for PyTorch": (
        LLM_C,
        (
            "step   12/9536 | train loss 7.012300 | norm 2.3100 | lr 6.60e-05 | "
            "(301.20 ms | 174012 tok/s)"
        ),
        {
            "iteration": 12,
            "iterations": 9536,
            "loss": 7.0123,
            "grad_norm": 2.31,
            "learning_rate": 6.6e-05,
            "step_seconds": 0.3012,
            "tokens_per_second": 174012.0,
            "log_interval": 1,
        },
    ),
    "autoresearch": (
        NANOCHAT,
        (
            "step 00012 (1.2%) | loss: 5.147944 | lrm: 1.00 | dt: 312ms | tok/sec: 1,679,832 | "
            "mfu: 51.8% | epoch: 1 | remaining: 280s    "
        ),
        {
            "iteration": 12,
            "loss": 5.147944,
            "step_seconds": 0.312,
            "tokens_per_second": 1679832.0,
            "reported_mfu": 0.518,
            "log_interval": 1,
        },
    ),
    "build-nanogpt": (
        BUILD_NANOGPT,
        (
            "step    12 | loss: 7.012300 | lr 6.6000e-05 | norm: 2.3100 | dt: 301.20ms | "
            "tok/sec: 174012.21"
        ),
        {
            "iteration": 12,
            "loss": 7.0123,
            "grad_norm": 2.31,
            "learning_rate": 6.6e-05,
            "step_seconds": 0.3012,
            "tokens_per_second": 174012.21,
            "log_interval": 1,
        },
    ),
    "NeMo 1": (
        NEMO_1,
        (
            "Epoch 0: : 100%|██████████| 50/50 [23:22<00:00, reduced_train_loss=0.186, "
            "global_step=49.00, consumed_samples=51200.0, train_step_timing in s=24.00]"
        ),
        {"iteration": 49, "loss": 0.186, "step_seconds": 24.0, "log_interval": 1},
    ),
    "NeMo 1, no times": (
        NEMO_1,
        (
            "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, "
            "reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6]"
        ),
        {"iteration": 794, "loss": 3.09, "log_interval": 1},
    ),
    "NeMo 1, with more values before the step": (
        NEMO_1,
        (
            "Epoch 0:   5%|▍         | 3/62 [02:59<58:44,  0.02it/s, v_num=8-06, "
            "reduced_train_loss=6.930, lr=2.73e-5, parameter_norm=1.95e+3, global_step=1.000, "
            "consumed_samples=32.00, throughput=0.108]"
        ),
        {"iteration": 1, "loss": 6.93, "log_interval": 1},
    ),
    "torchtune, without the space at the end of the line": (
        TORCHTUNE,
        "Step 3 | loss:1.1732845306396484 lr:2e-05 tokens_per_second_per_gpu:655.9372371931469",
        {
            "iteration": 3,
            "loss": 1.1732845306396484,
            "learning_rate": 2e-05,
            "tokens_per_second_per_gpu": 655.9372371931469,
        },
    ),
    "torchtune, torn": (
        TORCHTUNE,
        "Step 3 | loss:1.1732845306396484 lr:2e-05 tokens_per_second_per_gpu:655.93",
        {"iteration": 3, "loss": 1.1732845306396484, "learning_rate": 2e-05},
    ),
    "torchtune, progress bar": (
        TORCHTUNE_BAR,
        "1|25|Loss: 1.2621808052062988:  26%|██▌       | 26/101 [06:45<17:27, 13.96s/it]",
        {"iteration": 25, "loss": 1.2621808052062988},
    ),
    "PaddleFleetX": (
        PADDLE_GPT,
        (
            "[    INFO] - [train] epoch: [0/1], batch: [20/500000], loss: 10.5, avg_batch_cost: "
            "0.50000 sec, speed: 2.00 step/s, ips_total: 16384 tokens/s, ips: 2048 tokens/s, "
            "learning rate: 4.16667e-08, found_inf: 0"
        ),
        {
            "iteration": 20,
            "loss": 10.5,
            "step_seconds": 0.5,
            "tokens_per_second": 16384.0,
            "learning_rate": 4.16667e-08,
        },
    ),
    "Paddle, ten steps an interval": (
        PADDLE,
        (
            "[    INFO] - loss: 12.06, learning_rate: 2e-06, global_step: 20, "
            "max_memory_allocated: 7.5, interval_runtime: 5.0, interval_samples_per_second: 16.0, "
            "interval_tokens_per_second_per_device: 889.0448, interval_steps_per_second: 2.0, "
            "progress_or_epoch: 0.0"
        ),
        {
            "iteration": 20,
            "loss": 12.06,
            "learning_rate": 2e-06,
            "max_memory_allocated_gib": 7.5,
            "step_seconds": 0.5,
            "log_interval": 10,
            "samples_per_second": 16.0,
            "tokens_per_second_per_gpu": 889.0448,
        },
    ),
    "MLPerf of 2023, behind a rank": (
        MLPERF,
        (
            ' 78: :::MLLOG {"key": "tracked_stats", "value": {"train_step_timing": 12.5, '
            '"reduced_train_loss": 2.75}, "metadata": {"step": 4194304}}'
        ),
        {"iteration": 4194304, "step_seconds": 12.5, "loss": 2.75, "unnumbered": True},
    ),
    "MLPerf of 2024": (
        MLPERF,
        (
            ':::MLLOG {"key": "tracked_stats", "value": {"train_step_timing in s": 12.5}, '
            '"metadata": {"lineno": 488, "step": 8388608}}'
        ),
        {"iteration": 8388608, "step_seconds": 12.5, "unnumbered": True},
    ),
    "Automodel": (
        AUTOMODEL,
        (
            '{"step": 3, "timestamp": "2026-04-01T16:06:16Z", "loss": 0.5, "lr": 1e-06, '
            '"mem": 10.5, "tps": 800.0, "tps_per_gpu": 100.0, "mfu": 7.5, '
            '"num_tokens_per_step": 2000}'
        ),
        {
            "iteration": 3,
            "tokens": 2000,
            "loss": 0.5,
            "learning_rate": 1e-06,
            "max_memory_allocated_gib": 10.5,
            "tokens_per_second": 800.0,
            "tokens_per_second_per_gpu": 100.0,
            "reported_mfu": 0.075,
        },
    ),
}


@pytest.mark.parametrize(("log_format", "line", "values"), LINES.values(), ids=LINES)
def test_a_line_is_read_as_the_step_that_it_reports(
    log_format: LogFormat, line: str, values: dict[str, float]
) -> None:
    """A report gives a step with the right units; fields that its line lacks are None."""
    (step,) = parse(log_format, line)
    assert isinstance(step, Step)
    fields = {name: getattr(step, name) for name in Step.__dataclass_fields__}
    reported = {name: value for name, value in fields.items() if value is not None}
    reported.pop("offset")
    reported.pop("timestamp", None)
    assert reported == pytest.approx(values, nan_ok=True, rel=1e-12)


@pytest.mark.parametrize(("log_format", "line", "values"), LINES.values(), ids=LINES)
def test_a_quoted_line_reports_nothing(
    log_format: LogFormat, line: str, values: dict[str, float]
) -> None:
    """A report in a line that a script quotes, e.g. after `#`, gives no step."""
    assert parse(log_format, f"# {line}") == []


NOTHING = {
    "a validation of torchtitan": (
        TORCHTITAN,
        f"{TITAN}validate step: 10  loss: 10.05  memory: 1.00GiB(1.00%)  tps: 2,228",
    ),
    "a torn line of torchtitan": (TORCHTITAN, f"{TITAN}{STEP_10}memory: 1.00GiB(1.00%)  tps: 2,2"),
    "a validation of llama2.c": (LLM_C, "step 250: train loss 4.7160, val loss 5.1368"),
    "a validation of verl": (VERL, "step:0 - val-core/char_count/reward/mean@3:0.0"),
    "a validation of verl's supervised fine-tuning": (VERL_SFT, "step:35 - val/loss:0.05"),
    "a validation of modded-nanogpt": (
        MODDED_NANOGPT,
        "step:125/3350 val_loss:4.66393 train_time:22.870s step_avg:182.95ms",
    ),
    "a validation of a program made from modded-nanogpt": (
        MODDED_NANOGPT,
        "step:125/3350 val_bpb:1.25 val_loss:4.6 train_time:2287ms step_avg:18.29ms",
    ),
    "the program of modded-nanogpt": (
        MODDED_NANOGPT,
        'print0(f"step:{step}/{train_steps} train_time:{time:.0f}ms step_avg:{time/step:.2f}ms")',
    ),
    "a torn line of parameter-golf": (
        PARAMETER_GOLF,
        "500/9000 train_loss: 3.1250 train_time: 0.8m to",
    ),
    "the warm-up of parameter-golf": (PARAMETER_GOLF, "warmup_step: 1/20"),
    "a torn line of llm.c's file of losses": (LLM_C_LOSSES, "s:12 trl:7.0123 lr:0.000066 norm:2.3"),
    "a validation in llm.c's file of losses": (LLM_C_LOSSES, "s:12 tel:7.0123"),
    "a torn line of llm.c's first program for PyTorch": (
        LLM_C_PYTORCH,
        "iteration 2, loss: 4.6233, time: 77.381ms, tok/s: 105868.2",
    ),
    "a validation of nanoGPT": (NANOGPT, "step 250: train loss 1.5440, val loss 1.7220"),
    "a torn line of nanoGPT": (NANOGPT, "iter 10: loss 3.2202, time 893.7"),
    "a torn line of llm.c": (
        LLM_C,
        (
            "step    1/74 | loss 10.9 (+nanz)| norm 1.0 (+nanz)| lr 0.00e+00 | 301.20 ms | "
            "53.2% bf16 MFU | 1740"
        ),
    ),
    "a torn line of llm.c's program for PyTorch": (
        LLM_C,
        "step   12/9536 | train loss 7.012300 | norm 2.3100 | lr 6.60e-05 | (301.20 ms | 174012 t",
    ),
    "a torn line of build-nanogpt": (
        BUILD_NANOGPT,
        "step    12 | loss: 7.0 | lr 6.6000e-05 | norm: 2.3100 | dt: 301.20ms | tok/sec: 174012.2",
    ),
    "a torn line of nanochat": (
        NANOCHAT,
        "step 2/42 (0.05%) | loss: 1.0 | dt: 312.44ms | tok/sec: 1,679",
    ),
    "another event of MLPerf": (
        MLPERF,
        ':::MLLOG {"key": "tracked_stats", "value": {"warmup_time": 206.9}, "metadata": {}}',
    ),
    "JSON of MLPerf that is torn": (
        MLPERF,
        ':::MLLOG {"key": "tracked_stats", "value": {"train_st',
    ),
    "a batch of Paddle's second epoch": (
        PADDLE_GPT,
        "[train] epoch: 1, batch: 7, loss: 10.5, avg_batch_cost: 0.5 sec, speed: 1.96 step/s",
    ),
    "an evaluation of Paddle": (
        PADDLE_GPT,
        "[eval] epoch: 0, batch: 0, loss: 0.170368048, avg_eval_cost: 0.5 sec, speed: 0.29 step/s",
    ),
    "a validation of fairseq": (
        FAIRSEQ,
        "epoch 001 | valid on 'valid' subset | loss 8.1 | wps 900 | wpb 42 | num_updates 600",
    ),
    "an epoch of fairseq as JSON": (
        FAIRSEQ_JSON,
        '{"epoch": 1, "train_loss": "3.1", "train_wps": "900", "train_num_updates": "600"}',
    ),
    "fairseq of 2018, without the update": (
        FAIRSEQ,
        "| epoch 010  2000 / 8223 loss=1.27 (1.50), wps=962, wpb=908, bsz=32, lr=0.001, clip=100%",
    ),
    "a torn line of fairseq": (FAIRSEQ, "loss=3.147, wps=72384.3, ups=1.21, num_updates=401"),
    "JSON of something else": (AUTOMODEL, '{"step": "a", "tps_per_gpu": 1.0}'),
}


@pytest.mark.parametrize(("log_format", "line"), NOTHING.values(), ids=NOTHING)
def test_other_lines_report_no_step(log_format: LogFormat, line: str) -> None:
    """Lines that resemble a report, e.g. torn reports, give no step."""
    assert parse(log_format, line) == []


def test_a_number_too_large_for_a_float_is_absent_and_not_infinite() -> None:
    """A number too large for a float is None; only a printed `inf` is infinite.

    The result is the same if many lines are read together.
    """
    line = "Step {} | 1.00s | Loss {} | Grad. Norm {} | Throughput 9 tokens/s | Peak Mem. 7.0 GiB\n"
    for lines in (1, 40):
        log = "".join(line.format(step, "1e999", "inf") for step in range(1, lines + 1))
        (run,) = read(io.BytesIO(log.encode()))
        assert [(step.loss, step.grad_norm) for step in run.steps] == [(None, math.inf)] * lines


def test_lines_without_a_number_are_counted_unless_another_program_numbers_them() -> None:
    """If reports have no iteration number, they are numbered in their order.

    If another program, here Megatron, prints the number on the next line, that number counts.
    """
    bridge = "Step Time : 2.41s GPU utilization: 1085.8 MODEL_TFLOP/s/GPU\n"
    megatron = (
        " iteration {:8d}/     100 | elapsed time per iteration (ms): 2408.5 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )
    (run,) = read(io.BytesIO((bridge * 3).encode()))
    assert [(step.iteration, step.step_seconds) for step in run.steps] == [
        (number, 2.41) for number in (1, 2, 3)
    ]
    text = "".join(bridge + megatron.format(number) for number in (51, 52, 53))
    (run,) = read(io.BytesIO(text.encode()))
    assert [(step.iteration, step.step_seconds) for step in run.steps] == [
        (number, 2.4085) for number in (51, 52, 53)
    ]


def test_a_number_that_the_end_of_a_torn_line_may_have_cut_is_absent() -> None:
    """If the end of a log may have cut a number, the number is None: digits may be missing.

    In the test, the logs of Paddle and of OLMo-core end directly after a number.
    """
    paddle = (
        "loss: 5.5, learning_rate: 2e-06, global_step: 3, interval_runtime: 1.5, "
        "interval_tokens_per_second_per_device: 31.622"
    )
    ((run,), (olmo,)) = (
        read(io.BytesIO(text.encode()))
        for text in (
            paddle,
            "INFO [step=3/9,epoch=1]\n    train/CE loss=2.345\n    throughput/device/TPS=9,786",
        )
    )
    assert [(step.step_seconds, step.tokens_per_second_per_gpu) for step in run.steps] == [
        (None, None)
    ]
    assert [(step.loss, step.tokens_per_second_per_gpu) for step in olmo.steps] == [(2.345, None)]


def test_a_rounded_step_of_nemo_1_is_no_step() -> None:
    """From 1000 on, NeMo 1 may print a rounded step; a loss that is not a number is `nan.0`."""
    bar = (
        "Epoch 0: : 3%|▎| 9/30 [1:42:42<55:37:46, v_num=0, reduced_train_loss=nan.0, "
        "global_step={}, consumed_samples=6.3e+5, train_step_timing in s=0.615, val_loss=7.040]\n"
    )
    (run,) = read(io.BytesIO((bar.format("9e+3") + bar.format("901.0")).encode()))
    assert [(step.iteration, step.step_seconds) for step in run.steps] == [(901, 0.615)]
    assert run.outcome.kind is OutcomeKind.NAN_LOSS


def test_an_interval_of_unknown_length_gives_no_step_time() -> None:
    """Paddle's time may be that of several steps; their number is not printed.

    It is the time multiplied by the steps per second. If this product is not near an integer, the
    line is damaged, and if the rounding of a slow rate leaves several integers, none is chosen.
    """
    line = "loss: 1.95, learning_rate: 1e-05, global_step: {}, interval_runtime: {}, {}epoch: 1\n"
    for runtime, rate, steps in (
        ("18.7179", "interval_steps_per_second: 1.0685, ", 20),
        ("18.7179", "", None),
        ("2.0339", "interval_steps_per_second: 4.917, ", 10),
        ("808.1082", "interval_steps_per_second: 0.012, ", 10),
        ("2808.1082", "interval_steps_per_second: 0.004, ", None),
        ("24.6189", "interval_steps_per_second: 0.0928240321, ", None),
        ("14.5973", "interval_steps_per_second: 06851, ", None),
        ("141.7580", "interval_steps_per_second: 0.6, ", None),
    ):
        for lines in (1, 40):
            log = "".join(line.format(20 * n, runtime, rate) for n in range(1, lines + 1))
            (run,) = read(io.BytesIO(log.encode()))
            seconds = None if steps is None else float(runtime) / steps
            assert [step.step_seconds for step in run.steps] == [seconds] * lines
            assert {step.log_interval for step in run.steps} == {steps}


@pytest.mark.parametrize(
    ("end", "loss"),
    [
        ("reduced_train_loss: 7.113", 7.113),
        ("reduced_train_loss: 11.02", 11.02),
        ("reduced_train_loss: 7.1", None),
        ("reduced_train_loss: 7.1 | consumed_samples: 64", 7.1),
    ],
)
def test_nemo_2_may_print_no_times(end: str, loss: float | None) -> None:
    """A loss at the end of a line is read only if it has all four digits: the line may be torn.

    The step is counted in any case.
    """
    line = (
        "Training epoch 0, iteration 8/9 | lr: 0.0006 | global_batch_size: 32 | global_step: 8 | "
    )
    (run,) = read(io.BytesIO(f"{line}{end}\n".encode()))
    assert [(step.iteration, step.loss) for step in run.steps] == [(8, loss)]


def test_torchtitan_prints_a_memory_of_0_for_a_device_that_it_cannot_ask() -> None:
    """So a peak of 0.00 GiB is not known."""
    line = (
        "step: {}  loss: 10.0  grad_norm: 6.65  memory:  0.00GiB(0.00%)  tps: 2,228  "
        "tflops: 83.74  mfu: 8.47%\n"
    )
    for lines in (1, 40):
        (run,) = read(io.BytesIO("".join(map(line.format, range(1, lines + 1))).encode()))
        assert [step.max_memory_reserved_gib for step in run.steps] == [None] * lines


def test_the_time_of_a_step_is_the_difference_of_two_times_since_the_start() -> None:
    """If a program logs only the time since the start, differences give the step times.

    So the first report has no step time.
    """
    text = "".join(f"step:{n}/40 train_time:{21 * n * n}ms step_avg:1.00ms\n" for n in (10, 20, 40))
    (run,) = read(io.BytesIO(text.encode()))
    run_summary = summarise(run, Warmup.parse("none"))
    assert [report.step_seconds for report in run_summary.reported] == [
        None,
        pytest.approx(0.63),
        pytest.approx(1.26),
    ]


def figures(name: str) -> list[Step]:
    """Return the steps of a real log."""
    return [step for run in read(LOGS / name) for step in run.steps]


SECONDS = {
    "nemo2/resiliency-cell14.log": (20, 10.31, 7.70835, 7.5735),
    "nemo2/resiliency-cell46.log": (3, 10.43, 8.543, 7.6),
    "megatron-bridge/vpp-graphs.log": (20, 127.31, 9.3145, 2.39),
    "maxtext/understand_logs_and_metrics.log": (10, 44.923, 9.0311, 5.668),
    "nanochat/ascend-npu-d12.log": (6, 0.55889, 0.565772, 0.560625),
    "litgpt/lora-phi-2.log": (10, 0.82031, 0.51458, 0.53143),
    "verl/grpo-smollm-135m.log": (1, 48.702527, 48.702527, 48.702527),
    "paddle/qwen2.5-0.5b.log": (2, 1.1518, 0.7037, 0.7037),
    "mlperf/v3.0-NVIDIA-gpt3-result_2.txt": (288, 12.155681, 12.082978, 12.074072),
}
RATES = {
    "torchtitan/completed-rank3.log": ("tokens_per_second_per_gpu", 49, 191.918, 9.01),
    "torchtitan/out-of-memory-rank7.log": ("tokens_per_second_per_gpu", 1, 275.0, 26.15),
    "automodel/llama3_2_1b_squad_h100.jsonl": ("tokens_per_second_per_gpu", 100, 9888.704, 14.8226),
    "automodel/qwen3_moe_30b_te_deepep_h100.jsonl": ("tokens_per_second", 100, 23100.668, 48.58),
    "maxtext/understand_logs_and_metrics.log": ("tokens_per_second_per_gpu", 10, 22522.57, None),
    "nanochat/ascend-npu-d12.log": ("tokens_per_second", 6, 57951.167, None),
    "megatron-bridge/vpp-graphs.log": ("reported_tflops_per_gpu", 20, 899.065, None),
    "paddle/qwen2.5-0.5b.log": ("tokens_per_second_per_gpu", 2, 2447.994, 12.3074),
    "verl/grpo-smollm-135m.log": ("tokens_per_second_per_gpu", 1, 3283.32, 18.9219),
    "mlperf/v5.1-AMD-llama31_8b-result_9.txt": ("samples_per_second", 14, 24.956964, None),
}
OUTCOMES = {
    "torchtitan/completed-rank3.log": OutcomeKind.COMPLETED,
    "torchtitan/out-of-memory-rank7.log": OutcomeKind.GPU_OUT_OF_MEMORY,
    "modded-nanogpt/track_1_short-0069607b.txt": OutcomeKind.COMPLETED,
    "modded-nanogpt/track_1_short-1d7c6c03.txt": OutcomeKind.COMPLETED,
    "modded-nanogpt/track_3_optimization-1bd8db7a.txt": OutcomeKind.COMPLETED,
    "nemo2/resiliency-cell14.log": OutcomeKind.COMPLETED,
    "nemo2/resiliency-cell46.log": OutcomeKind.PREEMPTED,
    "litgpt/lora-phi-2.log": OutcomeKind.COMPLETED,
    "mlperf/v5.1-AMD-llama31_8b-result_9.txt": OutcomeKind.COMPLETED,
    "mlperf/v5.1-University-of-Florida-llama31_8b-result_9.txt": OutcomeKind.COMPLETED,
    "mlperf/v4.0-Google-gpt3-result_1.txt": OutcomeKind.COMPLETED,
    "mlperf/v3.0-NVIDIA-gpt3-result_2.txt": OutcomeKind.COMPLETED,
}
real_logs = pytest.mark.skipif(not LOGS.is_dir(), reason="the real logs are not here")


@real_logs
@pytest.mark.parametrize(("name", "expected"), SECONDS.items(), ids=SECONDS)
def test_real_logs_have_the_step_times_that_were_computed_apart(
    name: str, expected: tuple[int, float, float, float]
) -> None:
    """Step times of real logs equal those of a separate computation.

    The test compares the number of steps, and the first, the mean and the median time.
    """
    seconds = [step.step_seconds for step in figures(name) if step.step_seconds is not None]
    count, first, mean, middle = expected
    assert len(seconds) == count
    assert (seconds[0], fmean(seconds), median(seconds)) == pytest.approx(
        (first, mean, middle), abs=6e-7
    )


@real_logs
@pytest.mark.parametrize(("name", "expected"), RATES.items(), ids=RATES)
def test_real_logs_have_the_rates_that_were_computed_apart(
    name: str, expected: tuple[str, int, float, float | None]
) -> None:
    """Rates of real logs equal those of a separate computation.

    The test compares the number of rates, their mean, and the peak of memory.
    """
    column, count, mean, peak = expected
    steps = figures(name)
    rates = [value for step in steps if (value := getattr(step, column)) is not None]
    assert len(rates) == count
    assert fmean(rates) == pytest.approx(mean, abs=6e-3)
    if peak is not None:
        run_summary = summarise(read(LOGS / name)[0], Warmup.parse("none")).peak_memory_gib
        assert run_summary == pytest.approx(peak, abs=6e-5)


@real_logs
def test_a_mean_rate_is_all_tokens_over_all_seconds() -> None:
    """If steps have different numbers of tokens, the mean of the rates is weighted by time.

    The test computes the tokens and the seconds of Automodel's steps apart from teralog.
    """
    path = LOGS / "automodel" / "llama3_2_1b_squad_h100.jsonl"
    reports = [json.loads(line) for line in path.read_text().splitlines()]
    tokens = [report["num_tokens_per_step"] for report in reports]
    seconds = [count / report["tps"] for count, report in zip(tokens, reports, strict=True)]
    (run,) = read(path)
    numbers = summarise(run, Warmup.parse("none"))
    assert numbers.tokens_per_second == pytest.approx(sum(tokens) / sum(seconds))
    assert numbers.step_seconds.mean == pytest.approx(fmean(seconds))


@real_logs
@pytest.mark.parametrize(("name", "expected"), OUTCOMES.items(), ids=OUTCOMES)
def test_real_logs_have_the_outcomes_found_by_hand(name: str, expected: OutcomeKind) -> None:
    """The outcome of each real log is the outcome that a person found by reading the log.

    It is the cause of a failure, not a message of another rank.
    """
    outcome = read(LOGS / name)[-1].outcome
    assert outcome is not None
    assert outcome.kind is expected


@real_logs
@pytest.mark.parametrize(
    ("name", "steps", "seconds"),
    [
        ("modded-nanogpt/track_1_short-0069607b.txt", 1480, (236.772, 0.16107)),
        ("modded-nanogpt/track_1_short-1d7c6c03.txt", 1390, (80.605, 0.05799)),
    ],
)
def test_every_step_of_modded_nanogpt_is_there(
    name: str, steps: int, seconds: tuple[float, float]
) -> None:
    """Every step of modded-nanogpt is read, with its time since the start and its mean time."""
    values = figures(name)
    assert (len(values), values[-1].iteration) == (steps, steps)
    assert (values[-1].train_seconds, values[-1].running_step_seconds) == seconds


def test_json_may_hold_any_value() -> None:
    """No value in JSON ends the parsing with an error."""
    parse(MLPERF, ":::MLLOG " + "[" * 50_000)
    for value in ("x", None, [], {}, True, 10**400, "nan"):
        line = json.dumps({"step": 1, "tps_per_gpu": value, "loss": value, "mfu": value})
        parse(AUTOMODEL, line)
        event = {
            "key": "tracked_stats",
            "value": {"train_step_time": value},
            "metadata": {"step": value},
        }
        parse(MLPERF, f":::MLLOG {json.dumps(event)}")


def test_a_count_that_is_not_whole_is_absent() -> None:
    """A count that is not a whole number is None, because its line must be torn."""
    line = (
        "Training epoch 0, iteration 4/99 | global_step: 4 | train_step_timing in s: 1.5 | "
        "consumed_samples: 315678e-02"
    )
    (run,) = read(io.BytesIO(f"{line}\n".encode()))
    (step,) = run.steps
    assert (step.step_seconds, step.consumed_samples) == (1.5, None)


GLUED = "iter {}: loss 3.{}, time 8{}.76ms, mfu 16.68%"


@pytest.mark.parametrize("before", [0, 3])
def test_reports_on_one_line_are_all_read(before: int) -> None:
    """Reports are all read if the line breaks between them are missing.

    This is also so after lines with one report each, which are read together.
    """
    lines = "".join(GLUED.format(number, 100 + number, number) + "\n" for number in range(before))
    glued = "".join(GLUED.format(number, 200 + number, number) for number in (5, 6, 7))
    (run,) = read(io.BytesIO(f"{lines}{glued}\n{GLUED.format(8, 208, 8)}\n".encode()))
    assert [step.iteration for step in run.steps] == [*range(before), 5, 6, 7, 8]
    assert run.steps[-2].loss == 3.207


def test_a_torn_report_takes_no_values_of_the_next_one_on_its_line() -> None:
    """A torn report gives no step, and the report after it on the same line is read."""
    steps = parse(NANOGPT, f"iter 5: loss 3.3000, {GLUED.format(6, 200, 6)}")
    assert [(step.iteration, step.loss) for step in steps if isinstance(step, Step)] == [(6, 3.2)]
