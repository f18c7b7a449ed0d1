"""Look up GPUs by name: peak TFLOPs, memory and compute capability.

Drivers, programs and people name GPUs differently. A name that could be several GPUs has a value
only if they agree on it. An unknown name has no value: a utilization over a guessed peak would be a
guess that looks like a measurement.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache

_V100 = "NVIDIA V100 data sheet, r5 (January 2020)"
_A100 = "NVIDIA A100 data sheet (2021)"
_H100 = "NVIDIA H100 data sheet (2022), half of what it states with sparsity"
_BLACKWELL = "NVIDIA RTX Blackwell architecture whitepaper (2025)"
_ADA = "NVIDIA Ada architecture whitepaper (2023)"
_AMPERE = "NVIDIA Ampere GA102 architecture whitepaper (2021)"
_CDNA2 = "AMD Instinct MI200 data sheet (2021), half of the card: programs see each die as a GPU"


_GRACE_BLACKWELL = "NVIDIA GB200 and GB300 NVL72 data sheets, half of what they state with sparsity"
_BLACKWELL_ULTRA = "NVIDIA HGX B300 data sheet (2025), half of what it states with sparsity"


# Major and minor version.
Capability = tuple[int, int]

# Which instructions a GPU has, by its model: NVIDIA's list, developer.nvidia.com/cuda-gpus.
_COMPUTE_CAPABILITY: dict[str, Capability] = {
    "V100": (7, 0), "V100S": (7, 0), "T4": (7, 5), "A100": (8, 0), "A10": (8, 6), "L40S": (8, 9),
    "H100": (9, 0), "H200": (9, 0), "GH200": (9, 0), "B200": (10, 0),
    "RTX5090": (12, 0), "RTX5080": (12, 0), "RTX5070TI": (12, 0),
    "RTX4090": (8, 9), "RTX3090": (8, 6),
    "A30": (8, 0), "A40": (8, 6), "A800": (8, 0), "A6000": (8, 6), "L4": (8, 9), "L40": (8, 9),
    "H800": (9, 0), "H20": (9, 0), "GB200": (10, 0), "B300": (10, 3), "GB300": (10, 3),
    "RTX3080": (8, 6), "RTX4080": (8, 9),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU from a program's view, i.e. one die of a card that has several.

    words: words that its names may contain in addition to maker, model, form factor and memory, in
    upper case. memory_gib: sizes it is sold with, of one die; a program gets slightly less.
    peak_tflops: by precision, dense, of one die; fp32 without tensor cores. dies: how many GPUs one
    card shows.
    """

    model: str
    form_factor: str
    words: frozenset[str]
    memory_gib: tuple[int, ...]
    peak_tflops: dict[str, float] = field(hash=False)
    source: str
    dies: int = 1

    @property
    def name(self) -> str:
        """Model and form factor."""
        return f"{self.model} {self.form_factor}"

    @property
    def compute_capability(self) -> Capability | None:
        """Its compute capability; None for other makers' GPUs, which have no such number."""
        return _COMPUTE_CAPABILITY.get(self.model)


def _gpu(
    name: str,
    words: str,
    memory_gib: tuple[int, ...],
    fp16: float,
    source: str,
    *,
    bf16: bool = True,
    fp32: float | None = None,
    fp8: float | None = None,
    dies: int = 1,
) -> Gpu:
    model, _, form_factor = name.partition(" ")
    peaks = {"fp16": fp16, "bf16": fp16 if bf16 else None, "fp32": fp32, "fp8": fp8}
    return Gpu(
        model=model,
        form_factor=form_factor,
        words=frozenset(words.split()),
        memory_gib=memory_gib,
        peak_tflops={precision: peak for precision, peak in peaks.items() if peak is not None},
        source=source,
        dies=dies,
    )


def _tpu(
    name: str,
    words: str,
    memory_gib: tuple[int, ...],
    bf16: float,
    version: str,
    *,
    fp8: float | None = None,
) -> Gpu:
    """Return a TPU, which computes in bf16 and not in fp16."""
    source = f"Google Cloud, TPU {version}: system architecture"
    both = _gpu(name, f"GOOGLE {words}", memory_gib, bf16, source, fp8=fp8)
    peaks = {name: peak for name, peak in both.peak_tflops.items() if name != "fp16"}
    return replace(both, peak_tflops=peaks)


GPUS: tuple[Gpu, ...] = (
    _gpu("V100 SXM2", "SXM", (16, 32), 125, _V100, bf16=False, fp32=15.7),
    _gpu("V100 PCIe", "", (16, 32), 112, _V100, bf16=False, fp32=14),
    _gpu("V100S PCIe", "", (32,), 130, _V100, bf16=False, fp32=16.4),
    _gpu("T4 PCIe", "", (16,), 65, "NVIDIA T4 data sheet (2018)", bf16=False, fp32=8.1),
    _gpu("A10 PCIe", "", (24,), 125, "NVIDIA A10 data sheet (2021)", fp32=31.2),
    _gpu("A100 SXM4", "SXM", (40, 80), 312, _A100, fp32=19.5),
    _gpu("A100 PCIe", "", (40, 80), 312, _A100, fp32=19.5),
    _gpu("H100 SXM5", "SXM HBM3", (80,), 989.5, _H100, fp32=67, fp8=1979),
    _gpu("H100 PCIe", "HBM2E", (80,), 756.5, _H100, fp32=51),
    _gpu("H100 NVL", "HBM3", (94,), 835.5, "NVIDIA H100 data sheet (2023), one of the pair"),
    # nvidia-smi calls the SXM5 module plainly H200, and the other one H200 NVL, which is not known.
    _gpu("H200 SXM5", "SXM HBM3E", (141,), 989.5, "NVIDIA H200 data sheet (2023)", fp32=67),
    # Its driver's name ends with the memory of the CPU next to it.
    _gpu("GH200 module", "480GB HBM3 HBM3E", (96, 144), 989.5, "NVIDIA GH200 data sheet (2023)"),
    _gpu("B200 SXM", "HBM3E", (180, 192), 2250, "NVIDIA Blackwell data sheet (2024)"),
    _gpu("L40S PCIe", "", (48,), 362, "NVIDIA L40S data sheet (2023)", fp32=91.6),
    # Their tensor cores add up in fp32 at half the rate of fp16; this is the slower one.
    _gpu("RTX5090 PCIe", "GEFORCE", (32,), 209.5, _BLACKWELL, fp32=104.8),
    _gpu("RTX5080 PCIe", "GEFORCE", (16,), 112.6, _BLACKWELL, fp32=56.3),
    _gpu("RTX5070TI PCIe", "GEFORCE", (16,), 87.9, _BLACKWELL, fp32=43.9),
    _gpu("RTX4090 PCIe", "GEFORCE", (24,), 165.2, _ADA, fp32=82.6),
    _gpu("RTX3090 PCIe", "GEFORCE", (24,), 71, _AMPERE, fp32=35.6),
    _gpu("MI250 OAM", "MI250X", (64,), 181, _CDNA2, dies=2),
    _gpu("MI250X OAM", "MI250", (64,), 191.5, _CDNA2, dies=2),
    _gpu("MI300X OAM", "", (192,), 1307.4, "AMD Instinct MI300X data sheet (2023)"),
    _gpu("MI325X OAM", "", (256,), 1307.4, "AMD Instinct MI325X data sheet (2024)", fp8=2614.9),
    _gpu("A30 PCIe", "", (24,), 165, "NVIDIA A30 data sheet (2021)", fp32=10.3),
    _gpu("A40 PCIe", "", (48,), 149.7, "NVIDIA A40 data sheet (2021)", fp32=37.4),
    _gpu("A6000 PCIe", "RTX", (48,), 154.8, "NVIDIA RTX A6000 data sheet (2020), half", fp32=38.7),
    _gpu("A800 SXM4", "SXM", (40, 80), 312, "as A100, which it is with slower NVLink", fp32=19.5),
    _gpu("A800 PCIe", "", (40, 80), 312, "as A100, which it is with slower NVLink", fp32=19.5),
    _gpu(
        "H800 SXM5", "SXM HBM3", (80,), 989.5, "as H100, which it is with slower NVLink", fp8=1979
    ),
    _gpu("H20 SXM5", "SXM HBM3", (96,), 148, "NVIDIA H20 data sheet (2023)", fp32=44, fp8=296),
    _gpu("L4 PCIe", "", (24,), 121, "NVIDIA L4 data sheet (2023), half", fp32=30.3, fp8=242.5),
    _gpu("L40 PCIe", "", (48,), 181, "NVIDIA L40 data sheet (2022)", fp32=90.5, fp8=362),
    _gpu("GB200 module", "HBM3E", (186, 192), 2500, _GRACE_BLACKWELL, fp8=5000),
    _gpu("B300 SXM", "HBM3E SXM6 AC", (270, 288), 2250, _BLACKWELL_ULTRA, fp8=4500),
    _gpu("GB300 module", "HBM3E", (279, 288), 2500, _GRACE_BLACKWELL, fp8=5000),
    _gpu("RTX3080 PCIe", "GEFORCE", (10,), 59.5, _AMPERE, fp32=29.8),
    _gpu("RTX4080 PCIe", "GEFORCE", (16,), 97.5, _ADA, fp32=48.7),
    _gpu("MI300A APU", "", (128,), 980.6, "AMD Instinct MI300A data sheet (2023)", fp8=1961.2),
    _gpu("MI350X OAM", "", (288,), 2306.9, "AMD Instinct MI350X data sheet (2025)", fp8=4613.7),
    _gpu("MI355X OAM", "", (288,), 2516.6, "AMD Instinct MI355X data sheet (2025)", fp8=5033.2),
    _gpu("GAUDI2 OAM", "HL 225 INTEL HABANA", (96,), 432, "Intel Gaudi 2 white paper", fp8=865),
    _gpu("GAUDI3 OAM", "HL 325L INTEL HABANA", (128,), 1835, "Intel Gaudi 3 white paper", fp8=1835),
    _tpu("TPUV4 chip", "", (32,), 275, "v4"),
    _tpu("TPUV5E chip", "LITE", (16,), 197, "v5e"),
    _tpu("TPUV5P chip", "", (95,), 459, "v5p"),
    _tpu("TPUV6E chip", "TRILLIUM", (32,), 918, "v6e"),
    _tpu("TPUV7 chip", "IRONWOOD", (192,), 2307, "v7", fp8=4614),
)

_MAKERS = frozenset({"NVIDIA", "TESLA", "AMD", "INSTINCT", "CORPORATION", "GPU"})
# RTX 5090: the number alone is not a name.
_SERIES = re.compile(r"\bRTX[ -]?([0-9]{4})(?:[ -]?(TI)\b)?(?![0-9A-Z])")
# Gaudi 2, TPU v5p: so are these.
_OTHER_SERIES = re.compile(r"\b(GAUDI|TPU)[ -]+(?=V?[0-9])")
_MEMORY = re.compile(r"(?P<gib>[0-9]+)(?:G|GB|GIB)")
_PEAK = "gpu_peak_tflops"
_CAPACITY = "gpu_memory_gib"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, and a sentence with its source; or None, and the reason."""

    value: float | None
    said: str


def peak_tflops(name: str, precision: str, *, instead: str = _PEAK) -> Figure:
    """Return the dense peak, in TFLOP/s, of the GPU called `name`, at a precision.

    One of PRECISIONS. Nothing is sparse, and nothing assumed. instead: what a user who knows the
    peak should give.
    """
    gpus = matching(name)
    if not gpus:
        return _unknown(name, instead)
    missing = [gpu.name for gpu in gpus if precision not in gpu.peak_tflops]
    if missing:
        return Figure(None, f"no {precision} peak is known of {_listed(missing)}; give {instead}")
    unit = f"TFLOP/s in dense {precision}"
    return _agreed(name, gpus, lambda gpu: (gpu.peak_tflops[precision],), unit, instead)


@cache  # a campaign asks for each of its runs
def memory_gib(name: str) -> Figure:
    """Return the memory of the GPU called `name`, by its product size, in GiB."""
    gpus = matching(name)
    if not gpus:
        return _unknown(name, _CAPACITY)
    return _agreed(name, gpus, lambda gpu: _sizes(gpu, name), "GiB", _CAPACITY)


def memory_sizes_gib(name: str) -> list[int]:
    """Return every memory size, in GiB, of the GPU called `name`; none if it is unknown."""
    return sorted({size for gpu in matching(name) for size in _sizes(gpu, name)})


def _sizes(gpu: Gpu, name: str) -> tuple[int, ...]:
    """Return the sizes that a GPU is sold with; if `name` has one of them, only that."""
    named = [int(match["gib"]) for word in _words(name) if (match := _MEMORY.fullmatch(word))]
    return tuple(size for size in gpu.memory_gib if size in named) or gpu.memory_gib


def matching(name: str) -> list[Gpu]:
    """Return the GPUs that `name` may mean: those that could have every word of it.

    So `V100` may be two, `Tesla V100-SXM2-32GB` is one, and a MIG slice, or an A100 with an unknown
    memory size, is none.
    """
    words = _words(name) - _MAKERS
    return [gpu for gpu in GPUS if gpu.model in words and words <= _own_words(gpu)]


def lacks_bf16(name: str) -> bool:
    """Return whether the GPU called `name` cannot compute in bf16.

    The model decides, anywhere in the name: no form or size of a V100 has bf16.
    """
    gpus = _of_model(name)
    return bool(gpus) and not any("bf16" in gpu.peak_tflops for gpu in gpus)


def compute_capability(name: str) -> Capability | None:
    """Return the compute capability of the GPU called `name`, or None if not known.

    The model decides, anywhere in the name; if the name may mean several GPUs, the highest counts.
    """
    known = (gpu.compute_capability for gpu in _of_model(name))
    return max((one for one in known if one is not None), default=None)


def full_names() -> list[str]:
    """Return a full name of every GPU: model, form factor and memory."""
    return [
        f"{gpu.model}-{gpu.form_factor}-{size}GB".upper() for gpu in GPUS for size in gpu.memory_gib
    ]


def _of_model(name: str) -> list[Gpu]:
    return matching(name) or [gpu for gpu in GPUS if gpu.model in name.upper()]


def _own_words(gpu: Gpu) -> set[str]:
    memory = {f"{size}{unit}" for size in gpu.memory_gib for unit in ("G", "GB", "GIB")}
    return {gpu.model, gpu.form_factor.upper(), *gpu.words, *memory}


def _words(name: str) -> set[str]:
    joined = _OTHER_SERIES.sub(r"\1", _SERIES.sub(r"RTX\1\2", name.upper()))
    return set(re.findall(r"[A-Z0-9]+", joined))


def _agreed(
    name: str,
    found: list[Gpu],
    values: Callable[[Gpu], Iterable[float]],
    unit: str,
    instead: str,
) -> Figure:
    by_value: dict[float, list[Gpu]] = {}
    for gpu in found:
        for value in values(gpu):
            by_value.setdefault(value, []).append(gpu)
    value, *others = by_value
    if not others:
        sources = dict.fromkeys(gpu.source for gpu in found)
        names = _listed([gpu.name for gpu in found])
        return Figure(value, f"{value:g} {unit}, {names}: {'; '.join(sources)}")
    ways = ", ".join(
        f"{_listed([gpu.name for gpu in gpus])} with {value:g} {unit}"
        for value, gpus in by_value.items()
    )
    return Figure(None, f"{name!r} may be {ways}; give a fuller name, or {instead}")


def _unknown(name: str, instead: str) -> Figure:
    return Figure(None, f"{name!r} is not in the table of GPUs; give {instead}")


def _listed(names: list[str]) -> str:
    return " or ".join(names)
