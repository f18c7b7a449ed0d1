"""Functions that print random reports of programs with declared formats.

A declared format is written as a table of fields. The module `printed` explains what these
functions return.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from printed import Printed, count, loss, number, prints

from parsers.records import RunTotals, Step, Usage, UsageSource

Template = Callable[[dict[str, str]], str]


def _numbers(random: Random, forms: dict[str, str]) -> dict[str, str]:
    return {name: number(random, form) for name, form in forms.items()}


def _printed(text: str, **values: Any) -> Printed:
    return Printed(text, (Step(**values, offset=0),))


@prints("torchtitan")
def torchtitan(random: Random) -> Printed:
    """Print a report of torchtitan of 2025, with thousands commas."""
    n, rate, value = count(random), count(random, 10**6), loss(random, ".5f")
    it = _numbers(random, {"norm": ".4f", "memory": ".2f", "tflops": ".2f", "mfu": ".2f"})
    return _printed(
        f"[titan] 2025-12-13 06:57:02,246 - root - INFO - step: {n:2}  loss: {value:>8}  "
        f"grad_norm: {it['norm']:>7}  memory: {it['memory']:>5}GiB(83.61%)  tps: {rate:,}  tflops: "
        f"{it['tflops']}  mfu: {it['mfu']}%",
        iteration=n,
        loss=float(value),
        grad_norm=float(it["norm"]),
        max_memory_reserved_gib=float(it["memory"]) or None,
        tokens_per_second_per_gpu=float(rate),
        reported_tflops_per_gpu=float(it["tflops"]),
        reported_mfu=float(it["mfu"]) / 100,
    )


@prints("torchtitan of early 2024")
def torchtitan_2024(random: Random) -> Printed:
    """Print a report of torchtitan of early 2024, and the next line."""
    n, rate, value = count(random), count(random, 10**6), loss(random, ".4f")
    memory = number(random, ".2f")
    return _printed(
        f"[rank0]:2024-03-20 14:58:21,642 - root - INFO - step: {n:2}  loss: {value:>7}  memory: "
        f"{memory:>5}GiB(36.20%)  wps: {rate:,}\n[rank0]:2024-03-20 14:58:22,642 - root - INFO",
        iteration=n,
        loss=float(value),
        max_memory_reserved_gib=float(memory) or None,
        tokens_per_second_per_gpu=float(rate),
    )


@prints("NeMo 2")
def nemo(random: Random) -> Printed:
    """Print a report of NeMo, with memory in bytes."""
    n, batch, size, samples = (count(random) for _ in range(4))
    value = loss(random, ".4g")
    it = _numbers(random, {"lr": ".4g", "seconds": ".4g", "tflops": ".3e"})
    return _printed(
        f"Training epoch 0, iteration {n}/99 | lr: {it['lr']} | global_batch_size: {batch} | "
        f"global_step: {n} | max_memory_allocated: {size} | reduced_train_loss: {value} | "
        f"train_step_timing in s: {it['seconds']} | TFLOPS_per_GPU: {it['tflops']} | "
        f"consumed_samples: {samples}",
        iteration=n,
        log_interval=1,
        learning_rate=float(it["lr"]),
        global_batch_size=batch,
        max_memory_allocated_gib=size / 2**30,
        loss=float(value),
        step_seconds=float(it["seconds"]),
        reported_tflops_per_gpu=float(it["tflops"]),
        consumed_samples=samples,
    )


@prints("MaxText")
def maxtext(random: Random) -> Printed:
    """Print a report of MaxText of 2026."""
    n, value = count(random), loss(random, ".3f")
    it = _numbers(random, {"seconds": ".3f", "tflops": ".3f", "tokens": ".3f"})
    return _printed(
        f"completed step: {n}, seconds: {it['seconds']}, TFLOP/s/device: {it['tflops']}, "
        f"Tokens/s/device: {it['tokens']}, total_weights: 196608, loss: {value}",
        iteration=n,
        log_interval=1,
        step_seconds=float(it["seconds"]),
        reported_tflops_per_gpu=float(it["tflops"]),
        tokens_per_second_per_gpu=float(it["tokens"]),
        loss=float(value),
    )


@prints("verl")
def verl(random: Random) -> Printed:
    """Print a line of verl with a few of the dozens of numbers that verl reports."""
    n, value = count(random), loss(random, ".6g")
    it = _numbers(random, {"memory": ".9g", "seconds": ".9g", "tokens": ".9g"})
    return _printed(
        f"step:{n} - actor/pg_loss:{value} - perf/mfu/actor:0.0 - perf/max_memory_allocated_gb:"
        f"{it['memory']} - timing_s/step:{it['seconds']} - perf/throughput:{it['tokens']} - end:1",
        iteration=n,
        log_interval=1,
        loss=float(value),
        max_memory_allocated_gib=float(it["memory"]),
        step_seconds=float(it["seconds"]),
        tokens_per_second_per_gpu=float(it["tokens"]),
    )


@prints("nanoGPT")
def nanogpt(random: Random) -> Printed:
    """Print a report of nanoGPT, with its MFU."""
    n, value, milliseconds = count(random), loss(random, ".4f"), number(random, ".2f")
    return _printed(
        f"iter {n}: loss {value}, time {milliseconds}ms, mfu 15.34%",
        iteration=n,
        log_interval=1,
        loss=float(value),
        step_seconds=float(milliseconds) / 1000,
        reported_mfu=15.34 / 100,
    )


@prints("llm.c")
def llm_c(random: Random) -> Printed:
    """Print a report of llm.c, with z-scores such as (+0.52z) after loss and gradient norm."""
    n, of, rate = count(random), count(random), count(random, 10**8)
    value, milliseconds = loss(random, ".6f"), number(random, ".2f")
    return _printed(
        f"step {n:4}/{of} | loss {value} (+0.52z)| norm 2.3100 (-0.11z)| lr 6.60e-05 | "
        f"{milliseconds} ms | 53.2% bf16 MFU | {rate} tok/s",
        iteration=n,
        iterations=of,
        log_interval=1,
        loss=float(value),
        grad_norm=2.31,
        learning_rate=6.6e-05,
        step_seconds=float(milliseconds) / 1000,
        reported_mfu=53.2 / 100,
        tokens_per_second=float(rate),
    )


@prints("llm.c")
def llm_c_of_pytorch(random: Random) -> Printed:
    """Print a report of llm.c's program for PyTorch."""
    n, of, rate = count(random), count(random), count(random, 10**8)
    value, milliseconds = loss(random, ".6f"), number(random, ".2f")
    return _printed(
        f"step {n:4}/{of} | train loss {value} | norm 2.3100 | lr 6.60e-05 | "
        f"({milliseconds} ms | {rate} tok/s)",
        iteration=n,
        iterations=of,
        log_interval=1,
        loss=float(value),
        grad_norm=2.31,
        learning_rate=6.6e-05,
        step_seconds=float(milliseconds) / 1000,
        tokens_per_second=float(rate),
    )


@prints("llm.c")
def llm_c_of_april_2024(random: Random) -> Printed:
    """Print a report of llm.c of April 2024, with the mean loss over all GPUs in parentheses."""
    n, of, rate = count(random), count(random), count(random, 10**8)
    value, milliseconds = loss(random, ".6f"), number(random, ".6f")
    return _printed(
        f"step {n:4}/{of}: train loss {value} (acc 7.000000) ({milliseconds} ms, {rate} tok/s)",
        iteration=n,
        iterations=of,
        log_interval=1,
        loss=float(value),
        step_seconds=float(milliseconds) / 1000,
        tokens_per_second=float(rate),
    )


@prints("build-nanogpt")
def build_nanogpt(random: Random) -> Printed:
    """Print a report of build-nanogpt."""
    n, value = count(random), loss(random, ".6f")
    milliseconds, rate = number(random, ".2f"), number(random, ".2f")
    return _printed(
        f"step {n:5} | loss: {value} | lr 6.6000e-05 | norm: 2.3100 | dt: {milliseconds}ms | "
        f"tok/sec: {rate}",
        iteration=n,
        log_interval=1,
        loss=float(value),
        grad_norm=2.31,
        learning_rate=6.6e-05,
        step_seconds=float(milliseconds) / 1000,
        tokens_per_second=float(rate),
    )


@prints("llama2.c")
def llama2_c(random: Random) -> Printed:
    """Print a report of llama2.c, with its MFU."""
    n, value, milliseconds = count(random), loss(random, ".4f"), number(random, ".2f")
    return _printed(
        f"{n} | loss {value} | lr 6.600000e-05 | {milliseconds}ms | mfu 15.34%",
        iteration=n,
        log_interval=1,
        loss=float(value),
        learning_rate=6.6e-05,
        step_seconds=float(milliseconds) / 1000,
        reported_mfu=15.34 / 100,
    )


@prints("torchtune")
def torchtune(random: Random) -> Printed:
    """Print a report of torchtune, with a space after its last number."""
    n, value, rate = count(random), loss(random, ".16g"), number(random, ".9g")
    return _printed(
        f"Step {n} | loss:{value} lr:2e-05 tokens_per_second_per_gpu:{rate} ",
        iteration=n,
        loss=float(value),
        learning_rate=2e-05,
        tokens_per_second_per_gpu=float(rate),
    )


@prints("InternEvo")
def internevo(random: Random) -> Printed:
    """Print a report of InternEvo, separated by commas or by spaces."""
    n, value, tokens = count(random), loss(random, ".9g"), count(random)
    it = _numbers(random, {"tflops": ".9g", "rate": ".2f", "norm": ".9g"})
    text = (
        f"2024-03-27 17:03:42,047 INFO train.py:323 in record -- tflops={it['tflops']},step={n},"
        f"loss={value},tgs (tokens/gpu/second)={it['rate']},tgs/tgs_all=2958.36,lr=1e-05,"
        f"loss_scale=65536.0,grad_norm={it['norm']},num_consumed_tokens={tokens},fwd_bwd_time=4.1"
    )
    begin, fields = text.split(" -- ")
    if random.random() < 0.5:
        fields = fields.replace(",", " ")
    return _printed(
        f"{begin} -- {fields}",
        iteration=n,
        reported_tflops_per_gpu=float(it["tflops"]),
        loss=float(value),
        tokens_per_second_per_gpu=float(it["rate"]),
        learning_rate=1e-05,
        loss_scale=65536.0,
        grad_norm=float(it["norm"]),
        consumed_tokens=tokens,
    )


@prints("fairseq")
def fairseq(random: Random) -> Printed:
    """Print a report of fairseq as text, or in a progress bar."""
    n, value = count(random), loss(random, ".3f")
    it = _numbers(random, {"rate": ".1f", "lr": ".6g", "norm": ".3f"})
    in_bar = random.random() < 0.5
    place = "  2%|▏ | 12/282 [00:09<03:21,  1.34it/s, " if in_bar else "     12 / 282 "
    return _printed(
        f"2023-06-13 17:31:08 | INFO | train_inner | epoch 143:{place}loss={value}, nll_loss=1.2, "
        f"ppl=8.86, wps={it['rate']}, ups=1.21, wpb=59997.9, bsz=2186.3, num_updates={n}, "
        f"lr={it['lr']}, gnorm={it['norm']}, clip=0, loss_scale=128, train_wall=48, wall=97"
        f"{']' * in_bar}",
        iteration=n,
        loss=float(value),
        tokens_per_second=float(it["rate"]),
        learning_rate=float(it["lr"]),
        grad_norm=float(it["norm"]),
        loss_scale=128.0,
    )


@prints("fairseq, JSON")
def fairseq_json(random: Random) -> Printed:
    """Print a report of metaseq, with memory, or the first one of fairseq, without a rate."""
    n, value = count(random), loss(random, ".3f")
    it = _numbers(random, {"rate": ".1f", "lr": ".6g", "norm": ".3f", "gib": ".1f"})
    first = random.random() < 0.2
    memory = "" if first else f'"cuda_gb_allocated": "{it["gib"]}", "cuda_gb_reserved": "41.1", '
    return _printed(
        '2022-11-11 14:05:27 | INFO | train_inner | {"epoch": 1, "actv_norm": "0.035", '
        f'"loss": "{value}", "ppl": "60214.8", "wps": "{0 if first else it["rate"]}", "ups": '
        f'"0.71", "wpb": "1.04858e+06", "bsz": "512", "num_updates": "{n}", "lr": "{it["lr"]}", '
        f'"gnorm": "{it["norm"]}", "clip": "100", {memory}"wall": "73"}}',
        iteration=n,
        loss=float(value),
        tokens_per_second=None if first else float(it["rate"]),
        learning_rate=float(it["lr"]),
        grad_norm=float(it["norm"]),
        max_memory_allocated_gib=None if first else float(it["gib"]),
        max_memory_reserved_gib=None if first else 41.1,
    )


@prints("Paddle GPT")
def paddle_gpt(random: Random) -> Printed:
    """Print a report of PaddleNLP's scripts for GPT, or of PaddleFleetX."""
    n, rate, value = count(random), count(random), loss(random, ".9f")
    it = _numbers(random, {"seconds": ".5f", "lr": ".5e"})
    by_batch = random.random() < 0.1
    step = (
        f"[train] epoch: 0, batch: {n}, " if by_batch else f"global step {n}, epoch: 1, batch: 9, "
    )
    return _printed(
        f"[2022-07-27 12:40:00,967] [    INFO] - {step}loss: {value}, avg_reader_cost: 0.00014 sec,"
        f" avg_batch_cost: {it['seconds']} sec, speed: 7.51 step/s, ips_total: {rate} tokens/s, "
        f"ips: 7691 tokens/s, learning rate: {it['lr']}",
        iteration=n,
        loss=float(value),
        step_seconds=float(it["seconds"]),
        tokens_per_second=float(rate),
        learning_rate=float(it["lr"]),
    )


@prints("XTuner")
def xtuner(random: Random) -> Printed:
    """Print a report of XTuner of 2025, with a space after its last number."""
    n, of, value = count(random), count(random), loss(random, ".3f")
    it = _numbers(random, {"time": ".4f", "max": ".2f", "res": ".2f", "norm": ".3f", "tgs": ".1f"})
    return _printed(
        f"[XTuner][RANK 0][2025-09-08 03:04:13][INFO] Step {n}/{of} data_time: 0.0091 lr: 0.000060 "
        f"time: {it['time']} text_tokens: 4054.0 total_loss: 12.075, reduced_llm_loss: {value} "
        f"max_memory: {it['max']} GB reserved_memory: {it['res']} GB grad_norm: {it['norm']} "
        f"tgs: {it['tgs']} e2e_tgs: 6630.0 ",
        iteration=n,
        iterations=of,
        log_interval=1,
        learning_rate=6e-05,
        step_seconds=float(it["time"]),
        loss=float(value),
        max_memory_allocated_gib=float(it["max"]),
        max_memory_reserved_gib=float(it["res"]),
        grad_norm=float(it["norm"]),
        tokens_per_second_per_gpu=float(it["tgs"]),
    )


@prints("MMEngine")
def mmengine(random: Random) -> Printed:
    """Print a report of MMEngine, with the loss or the gradient's norm at the end."""
    n, of, memory = count(random), count(random), count(random)
    it = _numbers(random, {"lr": ".4e", "time": ".4f", "norm": ".4f"})
    value = loss(random, ".4f")
    has_norm = random.random() < 0.5
    norm = f"  grad_norm: {it['norm']}" if has_norm else ""
    return _printed(
        f"2024/05/07 12:40:23 - mmengine - INFO - Iter(train) [{n:>4}/{of}]  lr: {it['lr']}  "
        f"eta: 0:29:39  time: {it['time']}  data_time: 22.0483  memory: {memory}  loss: {value}"
        + norm,
        iteration=n,
        iterations=of,
        learning_rate=float(it["lr"]),
        step_seconds=float(it["time"]),
        max_memory_allocated_gib=memory / 1024,
        loss=float(value),
        grad_norm=float(it["norm"]) if has_norm else None,
    )


@prints("LiBai")
def libai(random: Random) -> Printed:
    """Print a report of LiBai, with a step time that is a mean since the start."""
    n, of, samples = count(random), count(random), count(random)
    value, rate = loss(random, ".4g"), number(random, ".2f")
    return _printed(
        f"[05/10 12:00:00 lb.utils.events]:  eta: 0:03:30  iteration: {n}/{of}  consumed_samples: "
        f"{samples}  total_loss: {value}  time: 0.2341 s/iter    data_time: 0.0012 s/iter  "
        f"total_throughput: {rate} samples/s  lr: 1.50e-04    ",
        iteration=n,
        iterations=of,
        consumed_samples=samples,
        loss=float(value),
        running_samples_per_second=float(rate),
        learning_rate=1.5e-4,
    )


@prints("MLX")
def mlx(random: Random) -> Printed:
    """Print a report of MLX, which has iterations per second instead of a step time."""
    n, tokens, value = count(random), count(random), loss(random, ".3f")
    it = _numbers(random, {"lr": ".3e", "steps": ".3f", "rate": ".3f"})
    return _printed(
        f"Iter {n}: Train loss {value}, Learning Rate {it['lr']}, It/sec {it['steps']}, Tokens/sec "
        f"{it['rate']}, Trained Tokens {tokens}, Peak mem 4.974 GB",
        iteration=n,
        loss=float(value),
        learning_rate=float(it["lr"]),
        tokens_per_second=float(it["rate"]),
        consumed_tokens=tokens,
    )


@prints("mistral-finetune")
def mistral(random: Random) -> Printed:
    """Print a report of mistral-finetune, with the tokens of one rank."""
    n, value = count(random), loss(random, ".3f")
    it = _numbers(random, {"lr": ".1e", "peak": ".1f", "now": ".1f", "rate": ".1f"})
    return _printed(
        f"2026-01-02 03:04:05 (UTC) - 0:02:11 - train - INFO - step: {n:06} - done (%): 1.0 - "
        f"loss: {value} - lr: {it['lr']} - peak_alloc_mem (GB): {it['peak']} - "
        f"alloc_mem (GB): {it['now']} - words_per_second: {it['rate']} - "
        "avg_words_per_second: 585.7 - ETA: >2026-01-02 04:05:06",
        iteration=n,
        loss=float(value),
        learning_rate=float(it["lr"]),
        max_memory_allocated_gib=float(it["peak"]),
        memory_allocated_gib=float(it["now"]),
        tokens_per_second_per_gpu=float(it["rate"]),
    )


@prints("Transformer-XL")
def transformer_xl(random: Random) -> Printed:
    """Print a report of NVIDIA's Transformer-XL, whose numbers are aligned."""
    n, value = count(random), loss(random, "5.2f")
    it = _numbers(random, {"lr": ".3e", "milliseconds": "5.1f"})
    rate = count(random, 10**7)
    return _printed(
        f"| epoch   1 step {n:>8d} | batches     10 / 16240 | lr {it['lr']} | "
        f"ms/batch {it['milliseconds']} | tok/s {rate:7d} | loss {value} | ppl    272.12",
        iteration=n,
        learning_rate=float(it["lr"]),
        step_seconds=float(it["milliseconds"]) / 1000,
        tokens_per_second=float(rate),
        loss=float(value),
    )


@prints("nanochat")
def nanochat(random: Random) -> Printed:
    """Print a report of nanochat, with the MFU as its last number."""
    n, of, rate = count(random), count(random), count(random, 10**8)
    value, milliseconds = loss(random, ".6f"), number(random, ".2f")
    return _printed(
        f"step {n:05}/{of} (0.05%) | loss: {value} | lrm: 0.05 | dt: {milliseconds}ms | tok/sec: "
        f"{rate:,} | bf16_mfu: 51.83",
        iteration=n,
        iterations=of,
        log_interval=1,
        loss=float(value),
        step_seconds=float(milliseconds) / 1000,
        tokens_per_second=float(rate),
        reported_mfu=51.83 / 100,
    )


@prints("modded-nanogpt")
def modded_nanogpt(random: Random) -> Printed:
    """Print a report of modded-nanogpt, in milliseconds."""
    n, of, milliseconds = count(random), count(random), count(random)
    return _printed(
        f"step:{n}/{of} train_time:{milliseconds}ms step_avg:57.99ms",
        iteration=n,
        iterations=of,
        train_seconds=milliseconds / 1000,
        running_step_seconds=0.05799,
    )


@prints("modded-nanogpt")
def modded_nanogpt_with_short_names(random: Random) -> Printed:
    """Print a report of a program made from modded-nanogpt, whose names are shorter."""
    n, of, milliseconds = count(random), count(random), count(random)
    value = loss(random, ".4f")
    return _printed(
        f"step:{n}/{of} loss:{value} t:{milliseconds}ms avg:57.9ms",
        iteration=n,
        iterations=of,
        loss=float(value),
        train_seconds=milliseconds / 1000,
        running_step_seconds=0.0579,
    )


@prints("parameter-golf")
def parameter_golf(random: Random) -> Printed:
    """Print a report of parameter-golf since April 2026."""
    n, of, rate = count(random), count(random), count(random, 10**8)
    value, minutes = loss(random, ".4f"), number(random, ".1f")
    return _printed(
        f"{n}/{of} train_loss: {value} train_time: {minutes}m tok/s: {rate}",
        iteration=n,
        iterations=of,
        loss=float(value),
    )


@prints("llm.c, file of losses")
def llm_c_losses(random: Random) -> Printed:
    """Print a line of the file that llm.c's program for CUDA writes."""
    n, value, norm = count(random), loss(random, ".4f"), number(random, ".2f")
    return _printed(
        f"s:{n} trl:{value} lr:0.000066 norm:{norm}",
        iteration=n,
        loss=float(value),
        learning_rate=6.6e-05,
        grad_norm=float(norm),
    )


@prints("llm.c, PyTorch")
def llm_c_pytorch(random: Random) -> Printed:
    """Print a report of llm.c's program for PyTorch of May 2024."""
    n, value = count(random), loss(random, ".4f")
    it = _numbers(random, {"ms": ".3f", "rate": ".2f", "norm": ".3f"})
    return _printed(
        f"iteration {n}, loss: {value}, time: {it['ms']}ms, tok/s: {it['rate']}, "
        f"norm: {it['norm']}",
        iteration=n,
        log_interval=1,
        loss=float(value),
        step_seconds=float(it["ms"]) / 1000,
        tokens_per_second=float(it["rate"]),
        grad_norm=float(it["norm"]),
    )


@prints("torchtitan")
def torchtitan_percent(random: Random) -> Printed:
    """Print a report of a program made from torchtitan, with the percentage of the training."""
    n, of, rate, value = count(random), count(random), count(random, 10**6), loss(random, ".4f")
    it = _numbers(random, {"memory": ".2f", "mfu": ".2f"})
    return _printed(
        f"[rank0]:2025-04-01 00:25:47,084 - root - INFO - step: {n:2}/{of} = 99.3789%  "
        f"loss: {value:>7}  memory: {it['memory']:>5}GiB(93.48%)  tps: {rate:,}  "
        f"mfu: {it['mfu']}%",
        iteration=n,
        loss=float(value),
        max_memory_reserved_gib=float(it["memory"]) or None,
        tokens_per_second_per_gpu=float(rate),
        reported_mfu=float(it["mfu"]) / 100,
    )


@prints("litgpt, by micro-batch")
def litgpt(random: Random) -> Printed:
    """Print a report of litgpt about an iteration with an optimizer step."""
    n, value, milliseconds = count(random), loss(random, ".3f"), number(random, ".2f")
    return _printed(
        f"Epoch 1 | iter {n} step 1 | loss train: {value}, val: n/a | iter time: {milliseconds} ms"
        " (step)",
        iteration=n,
        log_interval=1,
        loss=float(value),
        step_seconds=float(milliseconds) / 1000,
    )


@prints("Paddle trainer")
def paddle(random: Random) -> Printed:
    """Print a report of Paddle that covers one step."""
    n, value = count(random), loss(random, ".6f")
    it = _numbers(random, {"lr": ".4g", "peak": ".9g", "tokens": ".4f"})
    # Of a longer step, the rounding of the rate hides how many steps the interval has.
    seconds = f"{10 ** random.uniform(-2, 2.5):.4f}"
    return _printed(
        f"[    INFO] - loss: {value}, learning_rate: {it['lr']}, global_step: {n}, "
        f"max_memory_allocated: {it['peak']}, interval_runtime: {seconds}, "
        f"interval_tokens_per_second_per_device: {it['tokens']}, "
        f"interval_steps_per_second: {1 / float(seconds):.5f}, progress_or_epoch: 0.0",
        iteration=n,
        log_interval=1,
        loss=float(value),
        learning_rate=float(it["lr"]),
        max_memory_allocated_gib=float(it["peak"]),
        step_seconds=float(seconds),
        tokens_per_second_per_gpu=float(it["tokens"]),
    )


@prints("MLPerf")
def mlperf(random: Random) -> Printed:
    """Print an MLPerf record that covers several steps."""
    n, seconds, value = count(random), number(random, ".9g"), number(random, ".9g")
    return _printed(
        ':::MLLOG {"namespace": "", "time_ms": 1759673331639, "key": "tracked_stats", "value": '
        f'{{"train_step_time": {seconds}, "reduced_train_loss": {value}}}, "metadata": '
        f'{{"lineno": 480, "step": {n}, "samples_count": {n + 7}}}}}',
        iteration=n,
        consumed_samples=n + 7,
        step_seconds=float(seconds),
        loss=float(value),
    )


@prints("Megatron 2019")
def megatron_2019(random: Random) -> Printed:
    """Print a report of Megatron-LM of 2019, or of a program with another name for the loss."""
    n, value = count(random), loss(random, ".6E").upper()
    it = _numbers(random, {"time": ".1f", "lr": ".3E", "scale": ".1f"})
    mixed = random.random() < 0.5
    scale = f" loss scale {it['scale']} |" if mixed else ""
    losses = random.choice(("lm loss {0} |", "loss {0} |", "total loss {0} | loss {0} |"))
    return _printed(
        f" iteration {n:>8}/  320000 | elapsed time per iteration (ms): {it['time']} | learning "
        f"rate {it['lr']} | {losses.format(value)}{scale}",
        iteration=n,
        iterations=320000,
        step_seconds=float(it["time"]) / 1000,
        learning_rate=float(it["lr"]),
        loss=float(value),
        loss_scale=float(it["scale"]) if mixed else None,
    )


@prints("picotron")
def picotron(random: Random) -> Printed:
    """Print a report of picotron, with large numbers rounded and abbreviated, such as 1.5K."""
    n, value = count(random), loss(random, ".4f")
    it = _numbers(random, {"all": ".2f", "gpu": ".2f", "mfu": ".2f"})
    return _printed(
        f"[rank 2] Step: {n:<5} | Loss: {value:>6} | Global batch size:   2.05K | Tokens/s: "
        f"{it['all']:>7}K | Tokens/s/GPU: {it['gpu']:>7} | Tokens:   2.05K | MFU: {it['mfu']:>5}% "
        "| Memory usage:   1.75GB",
        iteration=n,
        loss=float(value),
        tokens_per_second=float(it["all"]) * 1e3,
        tokens_per_second_per_gpu=float(it["gpu"]),
        reported_mfu=None if it["mfu"] == "0.00" else float(it["mfu"]) / 100,
    )


@prints("prime-rl")
def prime_rl(random: Random) -> Printed:
    """Print a report of prime-rl, in the form of 2025 or of 2026."""
    n, value, rate = count(random), loss(random, ".4f"), count(random, 10**6)
    forms = {"seconds": ".2f", "norm": ".4f", "lr": ".2e", "mfu": ".1f", "memory": ".1f"}
    it = _numbers(random, forms)
    if random.random() < 0.5:
        text = (
            f"12:00:00 SUCCESS Step {n} | Time: {it['seconds']}s | Loss: {value} | Entropy: 0.1234 "
            f"| Grad. Norm: {it['norm']} | LR: {it['lr']} | Throughput: {rate} tokens/s | MFU: "
            f"{it['mfu']}% | Peak Mem.: {it['memory']}/79.1 GiB (37.3%)"
        )
    else:
        whole = random.randrange(60, 3600)
        long, seconds = f"{whole // 60}m {whole % 60}s", it["seconds"]
        time, it["seconds"] = random.choice([(f"{seconds}s", seconds), (long, str(whole))])
        text = (
            f"Step {n} | {time:>7} | Loss {value} | Grad. Norm {it['norm']} | LR "
            f"{it['lr']} | Throughput {rate} tokens/s | MFU {it['mfu']}% | Peak Mem. "
            f"{it['memory']} GiB"
        )
    return _printed(
        text,
        iteration=n,
        log_interval=1,
        step_seconds=float(it["seconds"]),
        loss=float(value),
        grad_norm=float(it["norm"]),
        learning_rate=float(it["lr"]),
        tokens_per_second=float(rate) if rate else None,
        reported_mfu=None if it["mfu"] == "0.0" else float(it["mfu"]) / 100,
        max_memory_reserved_gib=float(it["memory"]),
    )


@prints("prime")
def prime(random: Random) -> Printed:
    """Print a report of prime, with or without the learning rate and the number of peers."""
    n, value = count(random), loss(random, ".4f")
    it = _numbers(random, {"lr": ".2e", "all": ".2f", "mfu": ".2f"})
    rate = random.random() < 0.5
    lr = f", inner_lr: {it['lr']}" if rate else ""
    peers = random.choice(["", ", diloco_peers: 8"])
    return _printed(
        f"03:22:14 [INFO] [TRAIN] [Rank 0] step: {n}, loss: {value}{lr}, tokens_per_second: "
        f"{it['all']}, mfu: {it['mfu']}{peers}",
        iteration=n,
        loss=float(value),
        learning_rate=float(it["lr"]) if rate else None,
        tokens_per_second=float(it["all"]),
        reported_mfu=float(it["mfu"]) / 100,
    )


@prints("slime")
def slime(random: Random) -> Printed:
    """Print the times of a step of slime, with or without those of a reference model."""
    n = count(random)
    it = _numbers(random, {"step": ".15g", "train": ".15g"})
    reference = random.choice(["", "'perf/ref_log_probs_time': 62.21775937080383, "])
    return _printed(
        "(MegatronTrainRayActor pid=1) [2026-10-02 11:12:05] train_metric_utils.py:390 - perf "
        f"{n}: {{'perf/train_wait_time': 12.5, {reference}'perf/actor_train_time': {it['train']}, "
        f"'perf/actor_train_tok_per_s': 21.34, 'perf/step_time': {it['step']}, "
        "'perf/wait_time_ratio': 0.91}",
        iteration=n,
        log_interval=1,
        step_seconds=float(it["step"]),
    )


@prints("verl, supervised fine-tuning")
def verl_sft(random: Random) -> Printed:
    """Print a report of verl's trainer for supervised fine-tuning."""
    n, value = count(random), loss(random, ".16g")
    it = _numbers(random, {"norm": ".15g", "lr": ".15g", "seconds": ".15g"})
    return _printed(
        f"step:{n} - train/loss:{value} - train/grad_norm:{it['norm']} - train/lr:{it['lr']} - "
        f"train/time(s):{it['seconds']} - train/global_tokens:4096",
        iteration=n,
        log_interval=1,
        loss=float(value),
        grad_norm=float(it["norm"]),
        learning_rate=float(it["lr"]),
        step_seconds=float(it["seconds"]),
    )


@prints("OpenRLHF")
def openrlhf_without_times(random: Random) -> Printed:
    """Print a report of an older release of OpenRLHF, without times."""
    n, value, rate = count(random), loss(random, ".15g"), number(random, ".15g")
    return _printed(
        f"Global step {n}: {{'policy_loss': {value}, 'actor_lr': {rate}, 'reward': 0.4499}}",
        iteration=n,
        log_interval=1,
        loss=float(value),
        learning_rate=float(rate),
    )


@prints("OpenRLHF")
def openrlhf(random: Random) -> Printed:
    """Print a report of OpenRLHF, with or without a sparkles symbol before its text."""
    n, value = count(random), loss(random, ".15g")
    it = _numbers(random, {"norm": ".15g", "lr": ".15g", "step": ".15g"})
    mark = random.choice(["", "\N{SPARKLES} "])
    return _printed(
        f"2026-08-13 19:25:45 INFO {mark}Global step {n}: {{'reward': 0.4499, 'policy_loss': "
        f"{value}, 'actor_grad_norm': {it['norm']}, 'actor_lr': {it['lr']}, 'timing/generation': "
        f"2.97, 'timing/step_total': {it['step']}}}",
        iteration=n,
        log_interval=1,
        step_seconds=float(it["step"]),
        loss=float(value),
        grad_norm=float(it["norm"]),
        learning_rate=float(it["lr"]),
    )


@prints("Automodel")
def automodel_console(random: Random) -> Printed:
    """Print a report of NeMo AutoModel in its console form; its other form is JSON."""
    n, value = count(random), loss(random, ".4f")
    it = _numbers(random, {"norm": ".4f", "lr": ".2e", "mem": ".2f", "all": ".2f", "gpu": ".2f"})
    return _printed(
        f"2026-04-01 16:06:16 | INFO | root | step {n} | epoch 0 | loss {value} | grad_norm "
        f"{it['norm']} | lr {it['lr']} | mem {it['mem']} GiB | tps {it['all']}({it['gpu']}/gpu) | "
        "num_label_tokens 4096",
        iteration=n,
        loss=float(value),
        grad_norm=float(it["norm"]),
        learning_rate=float(it["lr"]),
        max_memory_allocated_gib=float(it["mem"]),
        tokens_per_second=float(it["all"]),
        tokens_per_second_per_gpu=float(it["gpu"]),
    )


@prints("nanochat and modded-nanogpt, peak memory")
def nanochat_peak(random: Random) -> Printed:
    """Print the line with the peak memory of nanochat, or of autoresearch."""
    mebibytes, short = number(random, ".2f"), number(random, ".1f")
    text = f"Peak memory usage: {mebibytes}MiB"
    if random.random() < 0.5:
        mebibytes, text = short, f"peak_vram_mb:     {short}"
    return Printed(
        text,
        (
            Usage(
                source=UsageSource.TORCH,
                max_memory_allocated_gib=float(mebibytes) / 1024,
                offset=0,
            ),
        ),
    )


@prints("modded-nanogpt, result")
def modded_nanogpt_result(random: Random) -> Printed:
    """Print modded-nanogpt's validation at the last step, in seconds or in milliseconds."""
    steps = random.randint(1, 99_999)
    time = random.choice((f"{steps / 8:.3f}s", f"{steps * 125}ms"))
    return Printed(
        f"step:{steps}/{steps} val_loss:3.27839 train_time:{time} step_avg:125.00ms",
        (
            RunTotals(
                iterations=steps,
                last_iteration=steps,
                train_seconds=steps / 8,
                step_seconds=0.125,
                offset=0,
            ),
        ),
    )


@prints("modded-nanogpt, result")
def modded_nanogpt_result_so_far(random: Random) -> Printed:
    """Print a validation of modded-nanogpt's track 3 before the last step, with more fields."""
    steps = random.randint(1, 99_999)
    seconds = f"{steps * 0.5:.3f}"
    return Printed(
        f"step:{steps}/100000 val_loss:3.27839 train_time:{seconds}s step_avg:100.00ms ema_beta:0",
        (
            RunTotals(
                last_iteration=steps, train_seconds=float(seconds), step_seconds=0.1, offset=0
            ),
        ),
    )


@prints("modded-nanogpt, result")
def modded_nanogpt_result_without_mean(random: Random) -> Printed:
    """Print the last validation of a program made from modded-nanogpt, without a mean."""
    steps, milliseconds = random.randint(1, 99_999), count(random)
    return Printed(
        f"step:{steps}/{steps} val_loss:3.27839 val_bpb:1.25 train_time:{milliseconds}ms",
        (RunTotals(last_iteration=steps, train_seconds=milliseconds / 1000, offset=0),),
    )


@prints("modded-nanogpt, result")
def parameter_golf_result(random: Random) -> Printed:
    """Print the line of parameter-golf about a training that reached its limit of time."""
    steps, milliseconds = random.randint(1, 99_999), count(random)
    return Printed(
        f"stopping_early: wallclock_cap train_time: {milliseconds}ms step: {steps}/100000",
        (
            RunTotals(
                iterations=steps,
                last_iteration=steps,
                train_seconds=milliseconds / 1000,
                offset=0,
            ),
        ),
    )


@prints("nanochat and modded-nanogpt, peak memory")
def nanogpt_peak(random: Random) -> Printed:
    """Print modded-nanogpt's line with the peak memory in MiB."""
    allocated, reserved = count(random), count(random)
    return Printed(
        f"peak memory allocated: {allocated} MiB reserved: {reserved} MiB",
        (
            Usage(
                source=UsageSource.TORCH,
                max_memory_allocated_gib=allocated / 1024,
                max_memory_reserved_gib=reserved / 1024,
                offset=0,
            ),
        ),
    )


@prints("litgpt, peak memory")
def litgpt_peak(random: Random) -> Printed:
    """Print litgpt's last lines: the time of the training, and the peak memory in 10**9 bytes."""
    seconds, gigabytes = number(random, ".2f"), number(random, ".2f")
    return Printed(
        f"Training time: {seconds}s\nMemory used: {gigabytes} GB",
        (
            Usage(
                source=UsageSource.TORCH,
                max_memory_allocated_gib=float(gigabytes) * 1e9 / 2**30,
                offset=0,
            ),
        ),
    )


@prints("litgpt, peak memory")
def litgpt_peak_in_table(random: Random) -> Printed:
    """Print the row of litgpt's last table with the peak memory, as of a pretraining or not."""
    gigabytes, width = number(random, ".2f"), random.choice([14, 26])
    return Printed(
        f"| - {'Memory Used':{width}}: {gigabytes} GB",
        (
            Usage(
                source=UsageSource.TORCH,
                max_memory_allocated_gib=float(gigabytes) * 1e9 / 2**30,
                offset=0,
            ),
        ),
    )


@prints("litgpt of 2023, by micro-batch")
def litgpt_of_2023(random: Random) -> Printed:
    """Print a report of litgpt of 2023, in one of its two forms."""
    n, value, milliseconds = count(random), loss(random, ".4f"), number(random, ".2f")
    text = random.choice(
        (
            f"iter {n} step 1: loss {value}, iter time: {milliseconds}ms (optimizer.step)",
            f"iter {n} | step 1: loss {value}, iter time: {milliseconds} ms",
        )
    )
    seconds = float(milliseconds) / 1000
    return _printed(text, iteration=n, log_interval=1, loss=float(value), step_seconds=seconds)


@prints("litgpt of 2023, by micro-batch")
def lit_llama(random: Random) -> Printed:
    """Print a report of lit-llama, with or without its speed."""
    n, value, milliseconds = count(random), loss(random, ".4f"), number(random, ".2f")
    rate = random.choice([None, count(random, 10**5)])
    return _printed(
        f"iter {n}: loss {value}, time: {milliseconds}ms, speed: {rate or '-'} toks/s/device",
        iteration=n,
        log_interval=1,
        loss=float(value),
        step_seconds=float(milliseconds) / 1000,
        tokens_per_second_per_gpu=None if rate is None else float(rate),
    )


@prints("NeMo 1")
def nemo_1(random: Random) -> Printed:
    """Print a progress bar of NeMo 1; large numbers have three digits."""
    n, value, seconds = count(random, 999), loss(random, ".3g"), number(random, ".3g")
    return _printed(
        f"Epoch 0: :  47%|████▋     | 7/15 [06:19<07:13, reduced_train_loss={value}, "
        f"global_step={n}.0, consumed_samples=1.2e+5, train_step_timing in s={seconds}]",
        iteration=n,
        log_interval=1,
        loss=float(value),
        step_seconds=float(seconds),
    )


@prints("torchtune, progress bar")
def torchtune_bar(random: Random) -> Printed:
    """Print a progress bar of torchtune."""
    n, value = count(random), loss(random, ".16g")
    return _printed(
        f"1|{n}|Loss: {value}:  26%|██▌       | 26/101 [06:45<17:27, 13.96s/it]",
        iteration=n,
        loss=float(value),
    )
