"""Read the GPUs, hosts and versions that a log names."""

import pytest

from parsers.formats.environment import ENVIRONMENT
from parsers.records import Setting


def parse(line: str) -> list[tuple[str, str]]:
    """Return the name and value of each setting that any format reads in a line."""
    return [
        (record.name, record.value)
        for log_format in ENVIRONMENT
        if any(anchor.decode() in line for anchor in log_format.anchors)
        for record in log_format.parse(7, line)
        if isinstance(record, Setting) and record.offset == 7
    ]


LINES = {
    "nvidia-smi, shortened": (
        "|   3  Tesla V100-SXM2...  Off  | 00000000:8A:00.0 Off |                    0 |",
        [("gpu", "Tesla V100-SXM2")],
    ),
    "nvidia-smi": (
        "|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |            0 |",
        [("gpu", "NVIDIA A100-SXM4-80GB")],
    ),
    "torch's properties": (
        "_CudaDeviceProperties(name='NVIDIA GH200 480GB', major=9, minor=0, total_memory=97871MB)",
        [("gpu", "NVIDIA GH200 480GB")],
    ),
    "torch's device name": (
        "[rank0]: using NVIDIA H100 80GB HBM3, bf16",
        [("gpu", "NVIDIA H100 80GB HBM3")],
    ),
    "a laptop's": (
        "GPU: NVIDIA GeForce RTX 4070 Laptop GPU | Peak FLOPS (BF16): inf",
        [("gpu", "NVIDIA GeForce RTX 4070 Laptop GPU")],
    ),
    "another one with a letter": (
        "NVIDIA GeForce RTX 4090 D",
        [("gpu", "NVIDIA GeForce RTX 4090 D")],
    ),
    "a part of a GPU": (
        "GPU: NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        [("gpu", "NVIDIA H100 80GB HBM3 MIG 1g.10gb")],
    ),
    "torchtitan's": (
        "[titan] INFO - CUDA capacity: AMD Instinct MI300X OAM with 191.98GiB memory",
        [("gpu", "AMD Instinct MI300X OAM")],
    ),
    "torchtitan's, of Intel": (
        "XPU capacity: Intel(R) Data Center GPU Max 1550 with 64.00GiB memory",
        [("gpu", "Intel(R) Data Center GPU Max 1550")],
    ),
    "torchtitan's, with its number on the node": (
        "GPU capacity: NVIDIA H100 80GB HBM3 (0) with 79.10GiB memory",
        [("gpu", "NVIDIA H100 80GB HBM3")],
    ),
    "torchtitan's, several ranks on a line": (
        "CUDA capacity: NVIDIA B200 with 178.36GiB memory " * 2,
        [("gpu", "NVIDIA B200"), ("gpu", "NVIDIA B200")],
    ),
    "a processor": ("CPU capacity: AMD EPYC 7763 with 503.00GiB memory", []),
    "another capacity": ("KV cache capacity: NVIDIA with 1.00GiB memory", []),
    "a workstation's": ("NVIDIA GeForce RTX 3090 Ti", [("gpu", "NVIDIA GeForce RTX 3090 Ti")]),
    "a company": ("Copyright (c) 2024, NVIDIA CORPORATION and NVIDIA Release 24.05", []),
    "another table": ("00000000: 7f45 4c46 0201 0100", []),
    "DeepSpeed": (
        "[Rank 0] DeepSpeed info: version=0.4.0+unknown, git-hash=unknown, git-branch=unknown",
        [("deepspeed_version", "0.4.0+unknown")],
    ),
    "DeepSpeed's report": (
        "deepspeed info ................... 0.9.5, unknown, unknown",
        [("deepspeed_version", "0.9.5")],
    ),
    "NCCL, two ranks": (
        "NCCL version 2.7.8+cuda10.2NCCL version 2.7.8+cuda10.2",
        [("nccl_version", "2.7.8+cuda10.2")] * 2,
    ),
    "NCCL in an exception": (
        "RuntimeError: NCCL error in: x.cpp:514, unhandled system error, NCCL version 2.4.8",
        [("nccl_version", "2.4.8")],
    ),
    "torch": (
        "torch version .................... 1.12.1+cu113",
        [("torch_version", "1.12.1+cu113")],
    ),
    "CUDA": ("torch cuda version ............... 11.3", [("cuda_version", "11.3")]),
    "no CUDA": ("torch cuda version ............... None", []),
    "transformers": (
        '  "transformers_version": "4.7.0.dev0",',
        [("transformers_version", "4.7.0.dev0")],
    ),
    "driver": (
        "| NVIDIA-SMI 460.32.03    Driver Version: 460.32.03    CUDA Version: 11.2     |",
        [("driver_version", "460.32.03")],
    ),
    "a version of something else": ("checkpoint version 3.0", []),
    "DeepSpeed's launcher": (
        "[INFO] [launch.py:146:main] WORLD INFO DICT: {'worker-0': [0, 1], 'worker-1': [0, 1]}",
        [("host", "worker-0"), ("host", "worker-1")],
    ),
    "NCCL's ranks": (
        "r6i4n5:37339:37339 [0] NCCL INFO Bootstrap : Using [0]ib0:10.148.8.41<0>",
        [("host", "r6i4n5")],
    ),
    "Megatron's nan": (
        "Rank 255, node r8i3n1, device 3, iteration 2: Unexpected result nan",
        [("host", "r8i3n1")],
    ),
    "node as a word": ("one process, node and all", []),
    "quoted in a script": ("# NCCL version 2.4.8", []),
}


@pytest.mark.parametrize(("line", "settings"), LINES.values(), ids=LINES.keys())
def test_a_line_names_hardware_or_software_of_the_run(
    line: str, settings: list[tuple[str, str]]
) -> None:
    """A line that names hardware or software gives settings; similar lines give none."""
    assert parse(line) == settings


@pytest.mark.parametrize("label", ["0: ", "[default7]:", "\r 50%|█ | 5/10\r"])
def test_a_label_changes_nothing(label: str) -> None:
    """A label of srun or torchrun, or a progress bar, before a line changes no setting."""
    for line, settings in LINES.values():
        if not line.startswith("#"):
            assert parse(label + line) == settings
