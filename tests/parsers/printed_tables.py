"""Functions that print random output of OneFlow and nvidia-smi, and random settings.

The module `printed` explains what these functions return.
"""

import math
from random import Random

from printed import Printed, count, number, prints

from parsers.records import Setting, Step, Usage, UsageSource


@prints("OneFlow GPT")
def oneflow(random: Random) -> Printed:
    """Print a report of OneFlow's benchmark in its form of 2021."""
    n, samples = count(random), count(random)
    rate, latency, value = (number(random, ".5f") for _ in range(3))
    return Printed(
        f"step={n},micro_batches=320,samples={samples},throughput={rate},latency={latency},"
        f"loss={value},",
        (
            Step(
                iteration=n,
                step_seconds=float(latency),
                samples_per_second=float(rate),
                consumed_samples=samples,
                loss=float(value),
                offset=0,
            ),
        ),
    )


@prints("OneFlow GPT")
def oneflow_osdi(random: Random) -> Printed:
    """Print a report of OneFlow's benchmark in its form of 2020."""
    n, value, rate = count(random), number(random, ".3f"), number(random, ".3f")
    return Printed(
        f"step: {n}, loss: {value}, throughput: {rate} 1607414400.1234567",
        (
            Step(
                iteration=n,
                samples_per_second=float(rate),
                loss=float(value),
                timestamp="2020-12-08T08:00:00+00:00",
                offset=0,
            ),
        ),
    )


@prints("OneFlow GPT, table")
def oneflow_table(random: Random) -> Printed:
    """Print the header and a row of OneFlow's table of iterations."""
    n, samples, rate, latency = (
        count(random),
        count(random),
        number(random, ".5f"),
        number(random, ".5f"),
    )
    return Printed(
        f"| {n:<8} | 320             | {samples:<15} | {rate:<10} | {latency:<10} |",
        (
            Step(
                iteration=n,
                step_seconds=float(latency),
                samples_per_second=float(rate),
                consumed_samples=samples,
                offset=0,
            ),
        ),
        header="| step     | micro_batches   | samples         | throughput | latency    |",
    )


@prints("OneFlow memory")
def oneflow_memory(random: Random) -> Printed:
    """Print the peak memory of a device in OneFlow's form."""
    device, mib = random.randrange(16), number(random, ".2f")
    return Printed(
        f"gpt{device} max memory usage: {mib}M",
        (
            Usage(
                source=UsageSource.ONEFLOW,
                device=device,
                max_memory_allocated_gib=float(mib) / 1024,
                offset=0,
            ),
        ),
    )


def settings(source: str, **values: object) -> tuple[Setting, ...]:
    """Return one record per setting.

    source: the kind of text in which the settings are, e.g. "echo". values: for each setting, its
    value; the record contains the value as text.
    """
    return tuple(
        Setting(name=name, value=str(value), source=source, offset=0)
        for name, value in values.items()
    )


@prints("OneFlow arguments")
def oneflow_arguments(random: Random) -> Printed:
    """Print OneFlow's list of arguments, between two horizontal rules."""
    batch, length = count(random), count(random)
    return Printed(
        "Running GPT-2: num_gpu_per_node = 8, num_nodes = 1.\n==========\n"
        f"batch_size = {batch}\nseq_len = {length}\n----------",
        settings("arguments", batch_size=batch, seq_length=length),
    )


@prints("nvidia-smi")
def smi_table(random: Random) -> Printed:
    """Print the table of a plain call of nvidia-smi."""
    mib, percent = random.randrange(81920), random.randrange(101)
    return Printed(
        "| N/A   51C    P0    67W / 400W |"
        f"  {mib:5}MiB / 81920MiB |    {percent:3}%      Default |",
        (
            Usage(
                source=UsageSource.NVIDIA_SMI,
                memory_allocated_gib=mib / 1024,
                gpu_utilization_percent=float(percent),
                offset=0,
            ),
        ),
    )


def smi_row(random: Random, *, units: bool) -> Printed:
    """Print a CSV row of nvidia-smi with four columns.

    units: whether some of the numbers have units.
    """
    device, percent, mib = random.randrange(16), random.randrange(101), random.randrange(81920)
    columns = [
        ("timestamp", "2024/03/01 12:00:00.000"),
        ("index", str(device)),
        ("utilization.gpu [%]", f"{percent} %" if units else str(percent)),
        ("memory.used [MiB]", f"{mib} MiB" if units else str(mib)),
    ]
    columns = [*random.sample(columns[:3], 3), columns[3]]
    return Printed(
        ", ".join(cell for _, cell in columns),
        (
            Usage(
                source=UsageSource.NVIDIA_SMI,
                device=device,
                memory_allocated_gib=mib / 1024,
                gpu_utilization_percent=float(percent),
                timestamp="2024-03-01T12:00:00.000",
                offset=0,
            ),
        ),
        header=", ".join(title for title, _ in columns),
    )


@prints("nvidia-smi CSV")
def smi_csv(random: Random) -> Printed:
    """Print a row of nvidia-smi's CSV output with units."""
    return smi_row(random, units=True)


@prints("nvidia-smi CSV")
def smi_csv_without_units(random: Random) -> Printed:
    """Print a row of nvidia-smi's CSV output without units (option `nounits`)."""
    return smi_row(random, units=False)


@prints("nvidia-smi CSV, memory only")
def smi_memory(random: Random) -> Printed:
    """Print the CSV output of nvidia-smi if only the memory is queried."""
    device, mib = random.randrange(16), random.randrange(81920)
    return Printed(
        f"{device}, {mib} MiB, 81920 MiB",
        (
            Usage(
                source=UsageSource.NVIDIA_SMI,
                device=device,
                memory_allocated_gib=mib / 1024,
                offset=0,
            ),
        ),
        header="index, memory.used [MiB], memory.total [MiB]",
    )


@prints("nvidia-smi dmon")
def dmon(random: Random) -> Printed:
    """Print a sample of `nvidia-smi dmon` that includes the used memory."""
    device, percent, mib = random.randrange(16), random.randrange(101), random.randrange(81920)
    return Printed(
        f"{device:>5}  {70:>5}  {48:>5}  {'-':>5}  {percent:>5}  {61:>5}  {mib:>5}  {5:>5}",
        (
            Usage(
                source=UsageSource.NVIDIA_SMI,
                device=device,
                memory_allocated_gib=mib / 1024,
                gpu_utilization_percent=float(percent),
                offset=0,
            ),
        ),
        header="# gpu   pwr gtemp mtemp    sm   mem    fb  bar1",
    )


@prints("argument dump")
def arguments(random: Random) -> Printed:
    """Print the list of all arguments that Megatron prints at its start."""
    value = count(random)
    return Printed(
        f"  tensor_model_parallel_size {'.' * 21} {value}",
        settings("arguments", tensor_parallel_size=value),
    )


@prints("shell echo")
def echo(random: Random) -> Printed:
    """Print a shell command as `set -x` prints it."""
    value = count(random)
    return Printed(f"+ NHIDDEN={value}", settings("echo", hidden_size=value), alone=True)


@prints("DeepSpeed configuration")
def deepspeed_json(random: Random) -> Printed:
    """Print DeepSpeed's configuration as JSON, with large numbers in scientific notation."""
    value = count(random, 10**6)
    printed = str(value) if value < 1000 else f"{value:.6e}"
    return Printed(
        f'    "train_batch_size": {printed},',
        settings("arguments", global_batch_size=value),
        alone=True,
    )


@prints("parallel sizes")
def sizes(random: Random) -> Printed:
    """Print Megatron's lines about sizes, such as the parallel sizes."""
    world, data, tensor = count(random), count(random), count(random)
    return Printed(
        f"using world size: {world}, data-parallel-size: {data}, tensor-model-parallel size:"
        f" {tensor}",
        settings("report", world_size=world, data_parallel_size=data, tensor_parallel_size=tensor),
    )


@prints("parameter counts")
def parameters(random: Random) -> Printed:
    """Print Megatron's line with the number of parameters of a rank."""
    stage, value = random.randrange(64), count(random)
    return Printed(
        f" > number of parameters on (tensor, pipeline) model parallel rank (1, {stage}): {value}",
        settings("report", **{f"parameters_on_rank_1_{stage}": value}),
    )


@prints("counts of micro-batches and steps")
def batches(random: Random) -> Printed:
    """Print the batch sizes that Hugging Face's Trainer prints at its start."""
    value = count(random)
    return Printed(
        "[INFO|trainer.py:1147] 2021-05-25 06:45:27,011 >>   Total train batch size"
        f" (w. parallel, distributed & accumulation) = {value:,}",
        settings("report", global_batch_size=value),
    )


@prints("the Trainer's epochs")
def epochs(random: Random) -> Printed:
    """Print the examples and epochs that Hugging Face's Trainer prints at its start."""
    examples, value = count(random), count(random)
    line = "[INFO|trainer.py:1145] 2021-05-25 06:45:27,011 >>   "
    return Printed(
        f"{line}Num examples = {examples:,}\n{line}Num Epochs = {value:,}\n{line}",
        settings("report", num_examples=examples, num_epochs=value),
    )


@prints("torchtitan's device mesh")
def mesh(random: Random) -> Printed:
    """Print torchtitan's line about the axes along which it divides the GPUs."""
    own = [random.randint(1, 64) for _ in range(5)]
    names = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
    axes = ", ".join(f"{name}={size}" for name, size in zip(names, own, strict=True))
    text = f"Building device mesh with parallelism: {axes}, ep={random.randint(1, 64)}, etp=1"
    if random.random() < 0.5:
        text = f"Building 2-D device mesh with ['dp_shard', 'tp'], [{own[0]}, {own[1]}]"
        own = own[:2]
    return Printed(
        f"[titan] 2026-04-28 09:00:21,314 - root - INFO - {text}",
        settings("report", world_size=math.prod(own)),
    )


@prints("vocabulary")
def vocabulary(random: Random) -> Printed:
    """Print Megatron's line about the padded size of the vocabulary."""
    size, more = count(random), count(random)
    return Printed(
        f" > padded vocab (size: {size}) with {more} dummy tokens (new size: {size + more})",
        settings("report", vocab_size=size, padded_vocab_size=size + more),
    )


@prints("names of GPUs")
def gpus(random: Random) -> Printed:
    """Print the names of the GPUs in the table of nvidia-smi."""
    name = random.choice(["Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-80GB"])
    return Printed(
        f"|   3  {name}  Off  | 00000000:8A:00.0 Off |                    0 |",
        settings("host", gpu=name),
    )


@prints("versions")
def versions(random: Random) -> Printed:
    """Print a line with a random version of torch."""
    version = f"{random.randrange(9)}.{random.randrange(99)}.{random.randrange(9)}+cu121"
    return Printed(
        f"torch version .................... {version}", settings("report", torch_version=version)
    )


@prints("hosts")
def hosts(random: Random) -> Printed:
    """Print a line of NCCL that begins with the name of the host."""
    host = f"r{random.randrange(9)}i{random.randrange(9)}n{random.randrange(99)}"
    return Printed(
        f"{host}:37339:37339 [0] NCCL INFO Bootstrap : Using [0]ib0:10.148.8.41<0>",
        settings("host", host=host),
    )
