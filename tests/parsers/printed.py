"""Functions that print a random report of each program, with the records that parsers must give.

Here, "to print" means: to return a `Printed`, i.e. the lines of the report and these records.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from parsers.records import (
    LossReport,
    Record,
    RunTotals,
    SkippedStep,
    Step,
    Timers,
    Usage,
    UsageSource,
)


@dataclass(frozen=True)
class Printed:
    """The lines of a report, with the records that a parser must give for them.

    text: the lines.
    records: the expected records.
    header: if the report is a row of a table, the header of the table.
    alone: whether the report must be at the beginning of its line, after at most a rank label.
    """

    text: str
    records: tuple[Record, ...]
    header: str = ""
    alone: bool = False

    @property
    def log(self) -> str:
        """Return all lines of the report as one text."""
        return (f"{self.header}\n" if self.header else "") + self.text


Printer = Callable[[Random], Printed]
PRINTERS: dict[str, list[Printer]] = {}


def prints(name: str) -> Callable[[Printer], Printer]:
    """Return a decorator that registers a function as a printer of reports in the format `name`."""

    def add(printer: Printer) -> Printer:
        PRINTERS.setdefault(name, []).append(printer)
        return printer

    return add


def count(random: Random, most: int = 10**9) -> int:
    """Return a positive integer, at most `most`; its number of digits is random."""
    return min(most, 1 + int(10 ** random.uniform(0, math.log10(most))))


def number(random: Random, form: str) -> str:
    """Return a random number as text in a format such as ".2f"; sometimes the number is 0."""
    most = 9 if form.endswith("g") else 5
    value = 0.0 if random.random() < 0.05 else 10 ** random.uniform(-9 if most == 9 else -3, most)
    return f"{value:{form}}"


def loss(random: Random, form: str) -> str:
    """Return a random loss as text in a format such as ".2f"; a few are nan or inf.

    A diverged training prints nan or inf.
    """
    return random.choice(["nan", "inf"]) if random.random() < 0.1 else number(random, form)


@prints("teralog GPT workload")
def own_step(random: Random) -> Printed:
    """Print an iteration of teralog's own GPT workload."""
    n, of = count(random), count(random)
    seconds, rate, used, peak = (number(random, ".6g") for _ in range(4))
    value = loss(random, ".6f")
    return Printed(
        f"[teralog] iteration {n}/{of} | step_seconds {seconds} | samples_per_second {rate}"
        f" | loss {value} | memory_allocated_gib {used} | max_memory_allocated_gib {peak}",
        (
            Step(
                iteration=n,
                iterations=of,
                step_seconds=float(seconds),
                log_interval=1,
                samples_per_second=float(rate),
                loss=float(value),
                memory_allocated_gib=float(used),
                max_memory_allocated_gib=float(peak),
                offset=0,
            ),
        ),
    )


@prints("teralog GPT workload")
def own_loss(random: Random) -> Printed:
    """Print an iteration of teralog's own GPT workload without its time.

    The workload prints this form if DeepSpeed reports the times.
    """
    n, of, value = count(random), count(random), loss(random, ".6f")
    return Printed(
        f"[teralog] iteration {n}/{of} | loss {value} | mean over ranks",
        (Step(iteration=n, iterations=of, loss=float(value), offset=0),),
    )


@prints("teralog GPT workload")
def own_start(random: Random) -> Printed:
    """Print the first line of teralog's own GPT workload."""
    world, parameters = count(random, 4096), count(random)
    return Printed(
        f"[teralog] start | strategy zero{world % 4} | world_size {world} | backend nccl"
        f" | device cpu | precision bf16 | parameters {parameters} | torch 2.13.0",
        (
            RunTotals(
                strategy=f"zero{world % 4}",
                world_size=world,
                backend="nccl",
                device="cpu",
                precision="bf16",
                parameters=parameters,
                versions=(("torch", "2.13.0"),),
                offset=0,
            ),
        ),
    )


@prints("Megatron")
def megatron_core(random: Random) -> Printed:
    """Print a report in the form that Megatron core prints since version 0.16."""
    n, of, samples, batch = (count(random) for _ in range(4))
    time, flops, norm = (number(random, form) for form in (".1f", ".1f", ".3f"))
    rate, value = number(random, ".6E"), loss(random, ".6E")
    skipped, nans = random.randrange(99), random.randrange(99)
    return Printed(
        f" [2026-03-04 05:06:07.123456] iteration {n:8d}/{of:8d} |"
        f" consumed samples: {samples:12d} | elapsed time per iteration (ms): {time} |"
        f" throughput per GPU (TFLOP/s/GPU): {flops} | learning rate: {rate} |"
        f" global batch size: {batch:5d} | lm loss: {value} | loss scale: 1.0 |"
        f" grad norm: {norm} | number of skipped iterations: {skipped:3d} |"
        f" number of nan iterations: {nans:3d} |",
        (
            Step(
                iteration=n,
                iterations=of,
                step_seconds=float(time + "e-3"),
                consumed_samples=samples,
                global_batch_size=batch,
                loss=float(value),
                learning_rate=float(rate),
                loss_scale=1.0,
                grad_norm=float(norm),
                skipped_iterations=skipped,
                nan_iterations=nans,
                reported_tflops_per_gpu=float(flops),
                timestamp="2026-03-04T05:06:07.123456",
                offset=0,
            ),
        ),
    )


@prints("Megatron")
def bigscience(random: Random) -> Printed:
    """Print a report in the form that BigScience's fork prints since January 2022."""
    n, of, tokens = (count(random) for _ in range(3))
    time, samples, flops = number(random, ".2f"), number(random, ".3f"), number(random, ".2f")
    return Printed(
        f" iteration {n:8d}/{of:8d} | consumed tokens: {tokens:12d} |"
        f" elapsed time per iteration (s): {time} | learning rate: 5.969E-05 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
        f" samples per second: {samples} | TFLOPs: {flops} |",
        (
            Step(
                iteration=n,
                iterations=of,
                step_seconds=float(time),
                samples_per_second=float(samples),
                consumed_tokens=tokens,
                learning_rate=5.969e-5,
                skipped_iterations=0,
                nan_iterations=0,
                reported_tflops_per_gpu=float(flops),
                offset=0,
            ),
        ),
    )


@prints("Megatron")
def neox(random: Random) -> Printed:
    """Print a report of EleutherAI's gpt-neox, which begins with the samples per second."""
    n, of = count(random), count(random)
    rate, time, flops = number(random, ".3f"), number(random, ".1f"), number(random, ".1f")
    return Printed(
        f" samples/sec: {rate} | iteration {n:8d}/{of:8d} | elapsed time per iteration (ms):"
        f" {time} | approx flops per GPU: {flops}TFLOPS | lm_loss: 7.125000E+00 |"
        " number of skipped iterations:   1 | number of nan iterations:   2 |",
        (
            Step(
                iteration=n,
                iterations=of,
                step_seconds=float(time + "e-3"),
                samples_per_second=float(rate),
                loss=7.125,
                skipped_iterations=1,
                nan_iterations=2,
                reported_tflops_per_gpu=float(flops) * 1e12 / 1e12,
                offset=0,
            ),
        ),
    )


@prints("nanotron")
def nanotron(random: Random) -> Printed:
    """Print a report of Hugging Face's nanotron, which abbreviates numbers with suffixes."""
    n, of = count(random), count(random)
    time, rate, flops = (number(random, ".2f") for _ in range(3))
    return Printed(
        f"08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: {n} / {of} |"
        f" elapsed_time_per_iteration_ms: {time} | tokens_per_sec: {rate}K |"
        f" tokens_per_sec_per_gpu: {rate} | lm_loss: 5.25 |"
        f" model_tflops_per_gpu: {flops} | hd_total_memory_tb: 2.13T",
        (
            Step(
                iteration=n,
                iterations=of,
                step_seconds=float(time + "e-3"),
                log_interval=1,
                tokens_per_second=float(rate) * 1e3,
                tokens_per_second_per_gpu=float(rate),
                loss=5.25,
                reported_tflops_per_gpu=float(flops),
                timestamp="2024-08-31T14:37:31",
                offset=0,
            ),
        ),
    )


@prints("nanotron since 2025")
def nanotron_2025(random: Random) -> Printed:
    """Print a report of nanotron since 2025, whose batch is in tokens."""
    n, of = count(random), count(random)
    time, rate, flops = (number(random, ".2f") for _ in range(3))
    return Printed(
        f"04/14/2025 09:12:01 [INFO|DP=0|PP=0|TP=0]: iteration: {n} / {of} |"
        f" time_per_iteration_ms: {time} | tokens_per_sec: {rate}K | global_batch_size: 1.05M |"
        f" lm_loss: 5.25 | model_tflops_per_gpu: {flops} | eta: 1 day, 0:01:05",
        (
            Step(
                iteration=n,
                iterations=of,
                step_seconds=float(time + "e-3"),
                log_interval=1,
                tokens_per_second=float(rate) * 1e3,
                loss=5.25,
                reported_tflops_per_gpu=float(flops),
                timestamp="2025-04-14T09:12:01",
                offset=0,
            ),
        ),
    )


@prints("Megatron memory")
def memory(random: Random) -> Printed:
    """Print a Megatron rank's report of the memory of its allocator."""
    rank, n, blocks = random.randrange(4096), count(random), random.randrange(10**8)
    mib, reserved = blocks / 2048, 2.0 * random.randrange(10**5)
    return Printed(
        f"[Rank {rank}] (after {n} iterations) memory (MB) | allocated: {mib}"
        f" | max allocated: {mib} | reserved: {reserved} | max reserved: {reserved}",
        (
            Usage(
                source=UsageSource.TORCH,
                iteration=n,
                rank=rank,
                memory_allocated_gib=mib / 1024,
                max_memory_allocated_gib=mib / 1024,
                memory_reserved_gib=reserved / 1024,
                max_memory_reserved_gib=reserved / 1024,
                offset=0,
            ),
        ),
    )


@prints("Megatron-Bridge memory")
def bridge_memory(random: Random) -> Printed:
    """Print a rank's report of the memory of its allocator, as Megatron-Bridge does."""
    rank, n = random.randrange(4096), count(random)
    now, peak = random.randrange(10**5) / 1000, random.randrange(10**5) / 100
    return Printed(
        f"[Rank {rank}] (after {n} iterations) memory (GB) | mem-allocated-gigabytes: {now} | "
        f"mem-active-gigabytes: 9.5 | mem-reserved-gigabytes: {now} | mem-max-allocated-gigabytes: "
        f"{peak} | mem-max-active-gigabytes: 9.5 | mem-max-reserved-gigabytes: {peak} | "
        "mem-alloc-retires: 0 | mem-allocated-count: 571",
        (
            Usage(
                source=UsageSource.TORCH,
                iteration=n,
                rank=rank,
                memory_allocated_gib=now * 1e9 / 2**30,
                max_memory_allocated_gib=peak * 1e9 / 2**30,
                memory_reserved_gib=now * 1e9 / 2**30,
                max_memory_reserved_gib=peak * 1e9 / 2**30,
                offset=0,
            ),
        ),
    )


def milliseconds(random: Random, *names: str) -> tuple[dict[str, str], Timers]:
    """Return random times of the timers with these names, as printed text and as a record.

    The first member has the printed text in milliseconds, by the timer's name. The second is the
    expected record, in seconds.
    """
    printed = {name: number(random, ".2f") for name in names}
    seconds = tuple((name, float(ms + "e-3")) for name, ms in printed.items())
    return printed, Timers(seconds=seconds, offset=0)


@prints("timers")
def timers(random: Random) -> Printed:
    """Print DeepSpeed's line with three timers; old versions of Megatron print the same form."""
    printed, record = milliseconds(random, "fwd_microstep", "bwd inner", "step")
    fields = "".join(f" | {name}: {ms}" for name, ms in printed.items())
    return Printed(f"[Rank 0] time (ms){fields}", (record,))


@prints("Megatron timers")
def ranges(random: Random) -> Printed:
    """Print Megatron's timers with the times of the fastest and the slowest rank."""
    printed, record = milliseconds(random, "forward-backward", "optimizer")
    rows = "".join(f"\n    {name + ' ':.<48}: (0.10, {ms})" for name, ms in printed.items())
    return Printed(f"(min, max) time across ranks (ms):{rows}", (record,))


@prints("Megatron timers of every rank")
def ranks(random: Random) -> Printed:
    """Print Megatron's timers with the times of every rank."""
    printed, record = milliseconds(random, "forward-backward", "optimizer")
    rows = (f"\n  {name}:\n     rank  0: 0.00\n     rank 10: {ms}" for name, ms in printed.items())
    return Printed(f"times across ranks (ms):{''.join(rows)}\ndone\nnext", (record,))


@prints("DeepSpeed throughput timer")
def throughput(random: Random) -> Printed:
    """Print the throughput that DeepSpeed reports since 0.8."""
    n, running, current = count(random), number(random, ".12g"), number(random, ".12g")
    used, peak = number(random, ".2f"), number(random, ".2f")
    return Printed(
        "[2026-01-02 03:04:05,678] [INFO] [timer.py:264:stop] epoch=0/micro_step=20/"
        f"global_step={n}, RunningAvgSamplesPerSec={running}, CurrSamplesPerSec={current},"
        f" MemAllocated={used}GB, MaxMemAllocated={peak}GB",
        (
            Step(
                iteration=n,
                samples_per_second=float(current),
                running_samples_per_second=float(running),
                memory_allocated_gib=float(used),
                max_memory_allocated_gib=float(peak),
                offset=0,
            ),
        ),
    )


@prints("DeepSpeed throughput timer")
def progress(random: Random) -> Printed:
    """Print a progress line of DeepSpeed's engine."""
    n, skipped = count(random), random.randrange(99)
    return Printed(
        f"[logging.py:96:log_dist] [Rank 0] step={n}, skipped={skipped}, lr=[4.9e-05], mom=[(0.9,",
        (Step(iteration=n, skipped=skipped, offset=0),),
    )


@prints("DeepSpeed pipeline engine")
def pipeline(random: Random) -> Printed:
    """Print a line of DeepSpeed's pipeline engine, with a second loss next to the loss."""
    n, value = count(random), loss(random, ".4f")
    seconds, rate = number(random, ".3f"), number(random, ".3f")
    return Printed(
        f"steps: {n} loss: {value} lm loss: {value} iter time (s): {seconds} samples/sec: {rate}",
        (
            Step(
                iteration=n,
                step_seconds=float(seconds),
                samples_per_second=float(rate),
                loss=float(value),
                offset=0,
            ),
        ),
    )


@prints("DeepSpeed-Chat, end to end")
def chat(random: Random) -> Printed:
    """Print a report of DeepSpeed-Chat's step 3 (RLHF), in the form before May 2023."""
    n, value = count(random), loss(random, ".6f")
    seconds, rate, mean = (number(random, ".2f") for _ in range(3))
    return Printed(
        f"epoch: 0|step: {n}|ppo_ep: 1|act_loss: {value}|cri_loss: 0.5|unsuper_loss: 0.0\n"
        f"average reward score: 0.25\n{'-' * 85}\n"
        f"|E2E latency={seconds}s |Gather latency=0.00s (0.00%) |Generate time=2.43s (65.28%) "
        f"|Training time=1.06s (28.45%) |Others=0.23 (6.27%)|CurSamplesPerSec={rate} "
        f"|AvgSamplesPerSec={mean}",
        (
            Step(
                iteration=n,
                step_seconds=float(seconds),
                log_interval=1,
                samples_per_second=float(rate),
                running_samples_per_second=float(mean),
                loss=float(value),
                end_to_end=True,
                offset=0,
            ),
        ),
    )


@prints("DeepSpeed-Chat, end to end")
def chat_since_may_2023(random: Random) -> Printed:
    """Print a report of DeepSpeed-Chat's step 3 (RLHF) in the form since May 2023."""
    n, batch, value = count(random), count(random), loss(random, ".6f")
    seconds, tflops, rate = (number(random, ".2f") for _ in range(3))
    return Printed(
        f"Epoch: 0 | Step: {n} | PPO Epoch: 1 | Actor Loss: {value} | Critic Loss: 0.5 | "
        "Unsupervised Loss: 0.0\n"
        f"End-to-End => Latency: {seconds}s, TFLOPs: {tflops}, Samples/sec: {rate}, "
        f"Time/seq 0.06s, Batch Size: {batch}, Total Seq. Length: 512\n"
        "Generation => Latency: 2.43s, Per-token Latency 9.49 ms, TFLOPs: 8.09, BW: -1.00 GB/sec",
        (
            Step(
                iteration=n,
                step_seconds=float(seconds),
                log_interval=1,
                samples_per_second=float(rate),
                global_batch_size=batch,
                reported_tflops_per_gpu=float(tflops),
                loss=float(value),
                end_to_end=True,
                offset=0,
            ),
        ),
    )


@prints("DeepSpeed overflow")
def overflow(random: Random) -> Printed:
    """Print DeepSpeed's message that rank 0 skips a step, because its gradients overflowed."""
    scale = 2 ** random.randint(1, 32)
    return Printed(
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale:"
        f" {scale}, reducing to {scale // 2}",
        (SkippedStep(rank=0, loss_scale=float(scale), reduced_to=scale / 2, offset=0),),
    )


@prints("DeepSpeed see_memory_usage")
def see_memory_usage(random: Random) -> Printed:
    """Print DeepSpeed's report of device memory and host memory."""
    used, peak, reserved, host = (number(random, ".2f") for _ in range(4))
    most = random.randrange(100)
    return Printed(
        "[2026-01-02 03:04:05,678] [INFO] [utils.py:822:see_memory_usage]"
        f" MA {used} GB         Max_MA {peak} GB         CA {reserved} GB         Max_CA"
        f" {most} GB \n"
        "[2026-01-02 03:04:05,679] [INFO] [utils.py:834:see_memory_usage]"
        f" CPU Virtual Memory:  used = {host} GB, percent = 3.3%",
        (
            Usage(
                source=UsageSource.DEEPSPEED,
                memory_allocated_gib=float(used),
                max_memory_allocated_gib=float(peak),
                memory_reserved_gib=float(reserved),
                max_memory_reserved_gib=float(most),
                host_memory_gib=float(host),
                timestamp="2026-01-02T03:04:05.678",
                offset=0,
            ),
        ),
    )


@prints("DeepSpeed flops profiler")
def profiler(random: Random) -> Printed:
    """Print the summary of DeepSpeed's flops profiler."""
    world, latency = count(random, 4096), number(random, ".2f")
    flops, samples = number(random, ".2f"), number(random, ".2f")
    return Printed(
        f"Profile Summary at step 10:\nNotations:\n\nworld size:          {world:<8}\n"
        "params of model = params per GPU * mp_size:             336.23 M\n"
        f"iter latency:               {latency} ms\n"
        f"FLOPS per GPU = 3 * fwd flops per GPU / iter latency:       {flops} TFLOPS\n"
        f"samples/second:         {samples}\n\n",
        (
            RunTotals(
                world_size=world,
                parameters=336_230_000,
                samples_per_second=float(samples),
                tflops_per_gpu=float(flops),
                phase="profiled_step",
                offset=0,
            ),
            Timers(seconds=(("iter latency", float(latency + "e-3")),), offset=0),
        ),
    )


@prints("Hugging Face Trainer, result")
def hf_result(random: Random) -> Printed:
    """Print the final result of Hugging Face's Trainer, with or without quotes around its numbers.

    Transformers prints the quotes since version 5.0.
    """
    quote = random.choice(["", "'"])
    seconds, samples, steps = (number(random, ".4g") for _ in range(3))
    value = loss(random, ".4g")
    return Printed(
        f"{{'train_runtime': {quote}{seconds}{quote}, 'train_samples_per_second':"
        f" {quote}{samples}{quote}, 'train_steps_per_second': {quote}{steps}{quote},"
        f" 'train_loss': {quote}{value}{quote}, 'epoch': {quote}3{quote}}}",
        (
            RunTotals(
                train_seconds=float(seconds),
                samples_per_second=float(samples),
                steps_per_second=float(steps),
                mean_loss=float(value),
                offset=0,
            ),
        ),
    )


@prints("Hugging Face Trainer, reports")
def hf_step(random: Random) -> Printed:
    """Print a report of Hugging Face's Trainer about a step, and the progress bar after it."""
    n, value, rate = random.randint(5, 10), loss(random, ".4f"), number(random, ".4g")
    return Printed(
        f"{{'loss': {value}, 'learning_rate': {rate}, 'epoch': 0.31}}\n"
        f"\r 20%|██        | {n}/10 [00:50<03:20,  2.50s/it]",
        (
            Step(
                iteration=n,
                iterations=10,
                loss=float(value),
                learning_rate=float(rate),
                offset=0,
            ),
        ),
    )


@prints("Hugging Face Trainer, reports")
def hf_loss(random: Random) -> Printed:
    """Print a report of Hugging Face's Trainer without a progress bar after it.

    The numbers are in quotes, as since version 5.0, or without quotes, as before.
    """
    quote = random.choice(["", "'"])
    value, epoch = loss(random, ".4g"), number(random, ".2f")
    return Printed(
        f"{{'loss': {quote}{value}{quote}, 'grad_norm': {quote}1.5{quote},"
        f" 'epoch': {quote}{epoch}{quote}}}\nnothing",
        (LossReport(loss=float(value), grad_norm=1.5, epoch=float(epoch), offset=0),),
    )


@prints("Hugging Face Trainer, block of metrics")
def hf_block(random: Random) -> Printed:
    """Print the Trainer's block of metrics, in the form that the Trainer prints since 2021."""
    hundredths, samples = random.randrange(3 * 86_400_00), number(random, ".3f")
    seconds, part = divmod(hundredths, 100)
    days = ("", "1 day, ", "2 days, ")[seconds // 86_400]
    clock = f"{days}{seconds // 3600 % 24}:{seconds // 60 % 60:02}:{seconds % 60:02}.{part:02}"
    steps = number(random, ".3f")
    return Printed(
        f"***** train metrics *****\n  epoch                    = {3.0:>12}\n"
        f"  train_runtime            = {clock:>12}\n"
        f"  train_samples_per_second = {samples:>12}\n"
        f"  train_steps_per_second   = {steps:>12}",
        (
            RunTotals(
                train_seconds=hundredths / 100,
                samples_per_second=float(samples),
                steps_per_second=float(steps),
                offset=0,
            ),
        ),
    )


@prints("ColossalAI Chat, performance")
def colossalai(random: Random) -> Printed:
    """Print ColossalAI's throughput of a phase: making experience, or learning.

    Up to version 0.2.8 the throughput is per GPU, later of all GPUs together.
    """
    per_gpu, learn = random.random() < 0.5, random.random() < 0.5
    form = ".3f" if per_gpu else ".2f"
    samples, flops = number(random, form), number(random, form)
    word = "Train" if learn else "Generate"
    text = f"{word} 512 samples, throughput: {samples} samples/s, TFLOPS per GPU: {flops}"
    if per_gpu:
        word = "Learning" if learn else "Making experience"
        text = f"{word} throughput: {samples} samples/sec, TFLOPS: {flops}"
    return Printed(
        text,
        (
            RunTotals(
                phase="learn" if learn else "make_experience",
                samples_per_second=float(samples),
                tflops_per_gpu=float(flops),
                per_gpu=per_gpu,
                offset=0,
            ),
        ),
    )


@prints("ColossalAI examples")
def colossalai_examples(random: Random) -> Printed:
    """Print the result of one of ColossalAI's examples of language models."""
    samples, flops = number(random, ".2f"), number(random, ".2f")
    return Printed(
        f"Throughput: {samples} samples/sec, TFLOPS per GPU by Megatron: {flops}, TFLOPS per GPU: ",
        (RunTotals(samples_per_second=float(samples), tflops_per_gpu=float(flops), offset=0),),
    )


@prints("ColossalAI Chat, sizes of models")
def colossalai_models(random: Random) -> Printed:
    """Print the sizes of three of ColossalAI's four models."""
    actor, critic, initial = (random.uniform(1, 1000) for _ in range(3))
    return Printed(
        f"Actor: {actor:.2f} M\nCritic: {critic:.2f} B\nInitial model: {initial:.2f} K",
        (
            RunTotals(phase="actor", parameters=round(float(f"{actor:.2f}") * 2**20), offset=0),
            RunTotals(phase="critic", parameters=round(float(f"{critic:.2f}") * 2**30), offset=0),
            RunTotals(
                phase="initial_model", parameters=round(float(f"{initial:.2f}") * 2**10), offset=0
            ),
        ),
    )
