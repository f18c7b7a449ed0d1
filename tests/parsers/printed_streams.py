"""Functions that print random JSON reports, and reports of several lines.

The module `printed` explains what these functions return.
"""

import json
from dataclasses import replace
from random import Random
from typing import Any

from printed import Printed, count, loss, number, prints

from parsers.records import Record, RunTotals, Setting, Step


def _rate(random: Random) -> float:
    return float(number(random, ".6g"))


def _object(values: dict[str, Any], *records: Record) -> Printed:
    return Printed(json.dumps(values), records, alone=True)


@prints("Automodel metrics")
def automodel(random: Random) -> Printed:
    """Print a step of AutoModel as JSON."""
    n, rate, all_ranks, memory = count(random), _rate(random), _rate(random), _rate(random)
    tokens = 1 + count(random)
    return _object(
        {
            "step": n,
            "epoch": 0,
            "mem": memory,
            "tps": all_ranks,
            "tps_per_gpu": rate,
            "num_tokens_per_step": tokens,
        },
        Step(
            iteration=n,
            tokens=tokens,
            max_memory_allocated_gib=memory,
            tokens_per_second=all_ranks,
            tokens_per_second_per_gpu=rate,
            offset=0,
        ),
    )


@prints("torchtitan metrics")
def titan_metrics(random: Random) -> Printed:
    """Print a JSON line with the keys that torchtitan's metric loggers use."""
    n, value, tokens = count(random), float(loss(random, ".6g")), _rate(random)
    tflops, memory, seconds = _rate(random), _rate(random), _rate(random)
    return _object(
        {
            "step": n,
            "loss_metrics/global_avg_loss": value,
            "throughput(tps)": tokens,
            "time_metrics/end_to_end(s)": seconds,
            "tflops": tflops,
            "memory/max_active(GiB)": 1.5,
            "memory/max_reserved(GiB)": memory,
        },
        Step(
            iteration=n,
            loss=value,
            tokens_per_second_per_gpu=tokens,
            nominal_step_seconds=seconds,
            reported_tflops_per_gpu=tflops,
            max_memory_reserved_gib=memory,
            offset=0,
        ),
    )


@prints("torchtitan structured log")
def titan_event(random: Random) -> Printed:
    """Print torchtitan's event at the end of a step, with a dozen fields."""
    n, milliseconds = count(random), _rate(random)
    return _object(
        {"delta_ms": 0.5, "rank": 3, "step": n, "log_type_name": "step_end", "value": milliseconds},
        Step(iteration=n, step_seconds=milliseconds / 1000, log_interval=1, offset=0),
    )


@prints("LLaMA-Factory's log")
def llama_factory(random: Random) -> Printed:
    """Print a report of LLaMA-Factory, with the number of tokens since the start."""
    n, of, value, rate = count(random), count(random), float(loss(random, ".4f")), _rate(random)
    tokens = count(random)
    return _object(
        {
            "current_steps": n,
            "total_steps": of,
            "loss": value,
            "lr": rate,
            "epoch": 0.5,
            "percentage": 5.0,
            "elapsed_time": "1 day, 0:00:10",
            "throughput": 0.5,
            "total_tokens": tokens,
        },
        Step(
            iteration=n,
            iterations=of,
            loss=value,
            learning_rate=rate,
            consumed_tokens=tokens,
            # Both of its clocks must agree.
            train_seconds=tokens / 0.5 if abs(tokens / 0.5 - 86410) <= 1.5 else None,
            offset=0,
        ),
    )


@prints("ms-swift's log")
def swift(random: Random) -> Printed:
    """Print a report in ms-swift's form since 2025, with its speed in seconds per iteration."""
    n, of, value, memory = count(random), count(random), float(loss(random, ".8g")), _rate(random)
    return _object(
        {
            "loss": value,
            "learning_rate": 1e-05,
            "epoch": 0.5,
            "global_step/max_steps": f"{n}/{of}",
            "elapsed_time": "1h 2m 3s",
            "memory(GiB)": memory,
            "train_speed(s/it)": 0.0,
        },
        Step(
            iteration=n,
            iterations=of,
            loss=value,
            learning_rate=1e-05,
            max_memory_reserved_gib=memory,
            offset=0,
        ),
    )


@prints("verl metrics")
def verl_metrics(random: Random) -> Printed:
    """Print a line of verl's file logger."""
    n, seconds, tokens = count(random), _rate(random), _rate(random)
    return _object(
        {"step": n, "data": {"timing_s/step": seconds, "perf/throughput": tokens}},
        Step(
            iteration=n,
            step_seconds=seconds,
            tokens_per_second_per_gpu=tokens,
            log_interval=1,
            offset=0,
        ),
    )


@prints("NeMo's dllogger")
def nemo_dllogger(random: Random) -> Printed:
    """Print a line that NeMo writes with NVIDIA's dllogger: JSON after a mark."""
    n, seconds = count(random), _rate(random)
    printed = _object(
        {
            "elapsedtime": "1750.205571",
            "type": "LOG",
            "step": n,
            "data": {"reduced_train_loss": 10.5, "train_step_timing in s": seconds, "epoch": 0},
        },
        Step(iteration=n, step_seconds=seconds, loss=10.5, log_interval=1, offset=0),
    )
    return replace(printed, text=f"DLLL {printed.text}")


@prints("Hugging Face Trainer, history of W&B")
def wandb_history(random: Random) -> Printed:
    """Print a report of Hugging Face's Trainer, as it is in a history exported from W&B."""
    n, value, norm, rate = count(random), float(loss(random, ".6g")), _rate(random), _rate(random)
    seconds = count(random, 10**6) + 0.25
    return _object(
        {
            "train/loss": value,
            "train/grad_norm": norm,
            "train/learning_rate": rate,
            "train/epoch": 0.5,
            "train/global_step": n,
            "_timestamp": 1720000000.5,
            "_runtime": seconds,
            "_step": 7,
        },
        Step(
            iteration=n,
            loss=value,
            grad_norm=norm,
            learning_rate=rate,
            train_seconds=seconds,
            offset=0,
        ),
    )


@prints("levanter, history of W&B")
def levanter(random: Random) -> Printed:
    """Print a row of a history that levanter has written to W&B."""
    n, value, seconds, rate = (
        count(random),
        float(loss(random, ".6g")),
        _rate(random),
        _rate(random),
    )
    return _object(
        {
            "train/loss": value,
            "throughput/duration": seconds,
            "throughput/tokens_per_second": rate,
            "throughput/mfu": 50.0,
            "_step": n,
        },
        Step(
            iteration=n,
            loss=value,
            step_seconds=seconds,
            tokens_per_second=rate,
            reported_mfu=0.5,
            log_interval=1,
            offset=0,
        ),
    )


@prints("torchtune metrics")
def torchtune_metrics(random: Random) -> Printed:
    """Print a line of the JSON lines that torchtune's disk logger writes."""
    n, value, rate = count(random), float(loss(random, ".6g")), _rate(random)
    return _object(
        {"step": n, "loss": value, "lr": 2e-05, "tokens_per_second_per_gpu": rate},
        Step(
            iteration=n,
            loss=value,
            learning_rate=2e-05,
            tokens_per_second_per_gpu=rate,
            offset=0,
        ),
    )


@prints("MaxText metrics")
def maxtext_metrics(random: Random) -> Printed:
    """Print a line of MaxText's file of metrics, in which all numbers are floats."""
    n, value, seconds = count(random), float(loss(random, ".6g")), _rate(random)
    tflops, tokens = _rate(random), _rate(random)
    return _object(
        {
            "learning/loss": value,
            "learning/moe_lb_loss": 0.0,
            "perf/step_time_seconds": seconds,
            "perf/per_device_tflops": 764.67,
            "perf/per_device_tflops_per_sec": tflops,
            "perf/per_device_tokens": 49152.0,
            "perf/per_device_tokens_per_sec": tokens,
            "step": float(n),
            "run_name": "a",
        },
        Step(
            iteration=n,
            step_seconds=seconds,
            log_interval=1,
            loss=value,
            reported_tflops_per_gpu=tflops,
            tokens_per_second_per_gpu=tokens,
            offset=0,
        ),
    )


@prints("Hugging Face Trainer, reports")
def hf_of_swift(random: Random) -> Printed:
    """Print a report of Hugging Face's Trainer to which ms-swift has added the step number."""
    n, value, memory = random.randint(1, 99), loss(random, ".4g"), number(random, ".2f")
    return Printed(
        f"{{'loss': '{value}', 'epoch': '0.31', 'global_step/max_steps': '{n}/100', "
        f"'percentage': '5.00%', 'elapsed_time': '10s', 'memory(GiB)': '{memory}', "
        "'train_speed(s/it)': '0'}\nnothing",
        (
            Step(
                iteration=n,
                iterations=100,
                loss=float(value),
                max_memory_reserved_gib=float(memory),
                offset=0,
            ),
        ),
    )


@prints("Hugging Face Trainer, state")
def trainer_state(random: Random) -> Printed:
    """Print a trainer_state.json of Hugging Face's Trainer, with a report and the final result."""
    n, value, norm, rate = count(random), _rate(random), _rate(random), _rate(random)
    seconds, samples, steps = _rate(random), _rate(random), _rate(random)
    reports: list[dict[str, Any]] = [
        {"epoch": 0.5, "grad_norm": norm, "learning_rate": rate, "loss": value, "step": n},
        {"epoch": 0.5, "eval_loss": 1.5, "eval_runtime": 2.5, "step": n},
        {
            "epoch": 3.0,
            "step": n,
            "train_loss": value,
            "train_runtime": seconds,
            "train_samples_per_second": samples,
            "train_steps_per_second": steps,
        },
    ]
    text = json.dumps({"global_step": n, "log_history": reports, "trial_name": None}, indent=2)
    records = (
        Step(iteration=n, loss=value, learning_rate=rate, grad_norm=norm, offset=0),
        RunTotals(
            train_seconds=seconds,
            samples_per_second=samples,
            steps_per_second=steps,
            last_iteration=n,
            mean_loss=value,
            offset=0,
        ),
    )
    return Printed(text, records, alone=True)


@prints("Hugging Face Trainer, result in train_results.json")
def train_results(random: Random) -> Printed:
    """Print the file in which the example scripts of Hugging Face keep the result of a training."""
    seconds, samples, steps, value = (_rate(random) for _ in range(4))
    values = {
        "epoch": 3.0,
        "total_flos": 1e16,
        "train_loss": value,
        "train_runtime": seconds,
        "train_samples": 1000,
        "train_samples_per_second": samples,
        "train_steps_per_second": steps,
    }
    total = RunTotals(
        train_seconds=seconds,
        samples_per_second=samples,
        steps_per_second=steps,
        mean_loss=value,
        offset=0,
    )
    return Printed(json.dumps(values, indent=4), (total,), alone=True)


@prints("Hugging Face Trainer, settings in trainer_state.json")
def max_steps(random: Random) -> Printed:
    """Print the line with the number of steps that Hugging Face's Trainer plans."""
    n = count(random)
    setting = Setting(name="train_iters", value=str(n), source="arguments", offset=0)
    return Printed(f'  "max_steps": {n},', (setting,), alone=True)


def of_olmo(value: float) -> str:
    """Return a number as OLMo-core prints it."""
    if value == 0:
        return "0.0"
    if value < 0.0001:
        return f"{value:.2E}"
    if value >= 1000:
        return f"{int(value):,d}"
    return f"{value:.{1 if value > 100 else 2 if value > 10 else 3 if value > 1 else 4}f}"


def from_olmo(text: str) -> float:
    """Return the number in a text that OLMo-core printed."""
    return float(text.replace(",", ""))


@prints("OLMo-core")
def olmo(random: Random) -> Printed:
    """Print the header of an OLMo-core report, and a line for each metric."""
    n, of = count(random), count(random)
    tokens, mfu, memory, value = (of_olmo(_rate(random) or 1.0) for _ in range(4))
    trillions = random.randint(100, 900)
    return Printed(
        f"2026-06-22 19:07:43.123 host:0 olmo_core.train:93 INFO [step={n}/{of},epoch=1,eta=1h2m]\n"
        f"    gpu_memory/GPU active mem (GiB)={memory}\n"
        f"    throughput/total tokens=1.234B\n"
        f"    throughput/device/TPS={tokens}\n"
        f"    throughput/device/TPS (actual avg)=12,345\n"
        f"    throughput/device/flopsPS={trillions}.0T\n"
        f"    throughput/device/MFU={mfu}\n"
        f"    train/CE loss={value}\n"
        f"    train/PPL=10.43",
        (
            Step(
                iteration=n,
                iterations=of,
                max_memory_allocated_gib=from_olmo(memory),
                tokens_per_second_per_gpu=from_olmo(tokens),
                reported_tflops_per_gpu=float(trillions),
                reported_mfu=from_olmo(mfu) / 100,
                loss=from_olmo(value),
                offset=0,
            ),
        ),
    )


@prints("Composer")
def composer(random: Random) -> Printed:
    """Print the header of a Composer report, and a line for each metric."""
    n, of, tokens = count(random), count(random), count(random)
    value, rate, memory = (f"{_rate(random):.4f}" for _ in range(3))
    return Printed(
        f"[batch={n}/{of}]:\n"
        f"\t Train time/token: {tokens}\n"
        f"\t Train memory/peak_reserved_mem: {memory}\n"
        f"\t Train loss/train/total: {value}\n"
        f"\t Train throughput/device/tokens_per_sec: {rate}\n"
        f"\t Train lr-DecoupledAdamW/group0: 0.0001",
        (
            Step(
                iteration=n,
                iterations=of,
                consumed_tokens=tokens,
                max_memory_reserved_gib=float(memory) / (2**30 / 1e9),
                loss=float(value),
                tokens_per_second_per_gpu=float(rate),
                offset=0,
            ),
        ),
    )


@prints("fms-fsdp")
def fms_fsdp(random: Random) -> Printed:
    """Print a report of fms-fsdp, a line for each value, with memory in bytes."""
    n, tokens, memory, rate = (count(random) for _ in range(4))
    value, seconds = loss(random, ".16g"), _rate(random)
    return Printed(
        f"step: {n}\n"
        f"loss: {value}\n"
        f"tokens seen: {tokens}\n"
        f"reserved memory: {memory}\n"
        f"current step time: {seconds}\n"
        f"overall step time: 1.5\n"
        f"current token per gpu per sec: {rate}\n"
        f"overall token per day: 75143242143",
        (
            Step(
                iteration=n,
                loss=float(value),
                consumed_tokens=tokens,
                max_memory_reserved_gib=memory / 2**30,
                step_seconds=seconds,
                tokens_per_second_per_gpu=float(rate),
                offset=0,
            ),
        ),
    )


@prints("peaks for the MFU")
def peak(random: Random) -> Printed:
    """Print torchtitan's line with the peak TFLOPs of the GPU."""
    tenths = random.randint(1000, 9999)
    value = f"{tenths / 10:.10g}"
    setting = Setting(name="mfu_peak_tflops", value=value, source="report", offset=0)
    flops = f"{tenths * 1e11:.3e}"
    return Printed(f"[titan] INFO - Peak FLOPS used for computing MFU: {flops}", (setting,))
