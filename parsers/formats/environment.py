"""Parse the environment of a run: GPUs, hosts, versions of libraries and the driver.

Every rank or node may print the same line, so a log may contain it several times.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from parsers.fields import line_parts, matches
from parsers.formats.settings import named_settings, setting_format
from parsers.records import Setting

# |   0  Tesla V100-SXM2...  Off  | 00000000:1A:00.0 Off |                    0 |     nvidia-smi
# _CudaDeviceProperties(name='NVIDIA A100-SXM4-40GB', major=8, minor=0, …)            torch
# CUDA capacity: AMD Instinct MI300X OAM with 191.98GiB memory                         torchtitan
# device: NVIDIA H100 80GB HBM3                           what torch.cuda.get_device_name returns
_GPUS = (
    re.compile(
        r"\| {1,4}[0-9]{1,3} {1,4}(?P<gpu>[A-Z]\w{0,20}(?: [\w-]{1,24}){0,8})(?:\.\.\.)? {1,40}"
        r"(?:On|Off|N/A) {1,4}\| {1,8}[0-9A-F]{8}:"
    ),
    re.compile(r"DeviceProperties\(name='(?P<gpu>[^']{1,80})'"),
    re.compile(
        r"\b(?!CPU)[A-Z]{3,5} capacity: (?P<gpu>[A-Z][^\n]{1,80}?)(?: \([0-9]{1,2}\))? with "
        r"[0-9]{1,5}\.[0-9]{2}GiB memory"
    ),
    re.compile(
        r"\b(?P<gpu>NVIDIA (?:(?:GeForce|Quadro|TITAN|RTX|GTX) ){0,2}"
        r"[A-Z]{0,2}[0-9]{2,4}[A-Za-z]{0,2}"
        r"(?:[ -](?:SXM[0-9]?|PCI[eE]|NVL|Ti|SUPER|Ada Generation|[0-9]{1,3}GB|HBM[0-9]e?)){0,4}"
        # With one of these words, it is another GPU, or a part of one.
        r"(?: Laptop GPU| with Max-Q Design| D| MIG [0-9]{1,2}g\.[0-9]{1,4}gb)?)"
        r"(?!\w)"
    ),
)


def _gpus(offset: int, line: str) -> Iterator[Setting]:
    for part in line_parts(line):
        for pattern in _GPUS:
            if names := [match["gpu"] for match in pattern.finditer(part)]:
                for name in names:
                    yield Setting(name="gpu", value=name, source="host", offset=offset)
                break


# [Rank 0] DeepSpeed info: version=0.4.0+unknown, git-hash=unknown, git-branch=unknown
# NCCL version 2.7.8+cuda10.2NCCL version 2.7.8+cuda10.2             from two ranks
# In a model's configuration, of JSON:   "transformers_version": "4.7.0.dev0",
# torch version .................... 1.12.1+cu102                    DeepSpeed's report
# | NVIDIA-SMI 460.32.03    Driver Version: 460.32.03    CUDA Version: 11.2     |
_VERSIONS = (
    re.compile(
        r"(?:DeepSpeed info: version=|\bdeepspeed info \.{3,} )"
        r"(?P<deepspeed_version>[^\s,]{1,60}),"
    ),
    re.compile(r"(?<![A-Za-z_])NCCL version (?P<nccl_version>[0-9.]{1,20}(?:\+cuda[0-9.]{1,10})?)"),
    re.compile(r'"transformers_version": "(?P<transformers_version>[^"]{1,60})"'),
    re.compile(r"\btorch version \.{3,} (?P<torch_version>[0-9]\S*)"),
    re.compile(r"\btorch cuda version \.{3,} (?P<cuda_version>[0-9]\S*)"),
    re.compile(r"\bDriver Version: (?P<driver_version>[0-9.]{3,20})(?= )"),
)

# WORLD INFO DICT: {'worker-0': [0, 1], 'worker-1': [0, 1]}              DeepSpeed's launcher
# r6i4n5:37339:37339 [0] NCCL INFO Bootstrap : Using [0]ib0:10.148.8.41<0>
# Rank 255, node r8i3n1, device 3, iteration 2: Unexpected result nan    Megatron core
_WORLD = re.compile(r"WORLD INFO DICT: (?P<hosts>\{[^{}]*\})")
_HOST = re.compile(r"'(?P<host>[\w.-]{1,255})': \[")
_HOSTS = (
    re.compile(
        r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]{0,254}):[0-9]+:[0-9]+ \[[0-9]+\] NCCL INFO Bootstrap"
    ),
    re.compile(r"\bRank [0-9]+, node (?P<host>[\w.-]{1,255}), device [0-9]"),
)


def _hosts(offset: int, line: str) -> Iterator[Setting]:
    for part in line_parts(line):
        matches = [match for pattern in _HOSTS for match in pattern.finditer(part)]
        if world := _WORLD.search(part):
            matches += _HOST.finditer(world["hosts"])
        for match in matches:
            yield Setting(name="host", value=match["host"], source="host", offset=offset)


# Peak FLOPS used for computing MFU: 3.120e+14                            torchtitan
# GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14                nanochat
# Device: NVIDIA A100-SXM4-80GB, Device peak Flops/s: 312000000000000     OLMo-core
_PEAK = re.compile(
    r"(?:Peak FLOPS used for computing MFU|Peak FLOPS \(BF16\)|Device peak Flops/s): "
    r"(?P<flops>[0-9](?:\.[0-9]{1,6})?e\+[0-9]{2}|[0-9]{12,18})(?![0-9.e])"
)


def _peaks(offset: int, line: str) -> Iterator[Setting]:
    for match in matches(_PEAK, line):
        tflops = f"{Decimal(match['flops']).scaleb(-12).normalize():f}"
        yield Setting(name="mfu_peak_tflops", value=tflops, source="report", offset=offset)


PEAKS = setting_format(
    "peaks for the MFU",
    _peaks,
    b"Peak FLOPS used for",
    b"Peak FLOPS (BF16): ",
    b"Device peak Flops/s: ",
)
GPU_NAMES = setting_format(
    "names of GPUs",
    _gpus,
    b" 00000000:",
    b"DeviceProperties(name='",
    b" capacity: ",
    b"NVIDIA ",
)
VERSIONS = setting_format(
    "versions",
    named_settings(*_VERSIONS),
    b"version",
    b"deepspeed info ...",
    b"Driver Version: ",
    only=rb"info: version=|info \.{3}|L version [0-9.]|s_version\"|ch (?:cuda )?version \."
    rb"|r Version:",
)
HOSTS = setting_format("hosts", _hosts, b"WORLD INFO DICT: ", b" NCCL INFO Bootstrap", b", node ")
ENVIRONMENT = (GPU_NAMES, VERSIONS, HOSTS, PEAKS)
