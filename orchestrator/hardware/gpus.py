"""Look up GPUs by name: peak TFLOPs, memory and compute capability.

Drivers, programs and people name GPUs differently. If a name may mean several GPUs, the
peak or the memory is returned only if all these GPUs have the same value. For an unknown
name, no value is returned, because a utilization relative to a guessed peak would look like
a measurement.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

# Major and minor version.
Capability = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as a program sees it. A card with several dies has one GPU per die.

    words: further words, in upper case, that names of the GPU may contain, besides its maker,
        model, form factor and memory.
    memory_gib: the memory sizes of one die, as sold; a program gets slightly less.
    peak_tflops: the peak of one die by precision, without sparsity; fp32 is without tensor
        cores.
    dies: how many dies a card has.
    checked: a second source for the 16-bit peak, or None.
    compute_capability: NVIDIA's number for the GPU; None for GPUs of other makers.
    """

    model: str
    form_factor: str
    words: frozenset[str]
    memory_gib: tuple[int, ...]
    peak_tflops: dict[str, float] = field(hash=False)
    source: str
    checked: str | None = None
    dies: int = 1
    compute_capability: Capability | None = None

    @property
    def name(self) -> str:
        """The GPU's model and form factor, e.g. `V100 SXM2`."""
        return f"{self.model} {self.form_factor}"


def _read(file: Path) -> tuple[Gpu, ...]:
    """Return the GPUs of a data file; comments at its start explain its keys."""
    tables: list[dict[str, Any]] = tomllib.loads(file.read_text("utf-8"))["gpu"]
    return tuple(
        Gpu(
            model=table["model"],
            form_factor=table["form_factor"],
            words=frozenset(table.get("words", ())),
            memory_gib=tuple(table["memory_gib"]),
            peak_tflops={name: float(peak) for name, peak in table["peak_tflops"].items()},
            source=table["source"],
            checked=table.get("checked"),
            dies=table.get("dies", 1),
            compute_capability=_capability(table.get("capability")),
        )
        for table in tables
    )


def _capability(numbers: list[int] | None) -> Capability | None:
    return (numbers[0], numbers[1]) if numbers else None


GPUS = _read(Path(__file__).with_name("gpus.toml"))

_MAKERS = frozenset({"NVIDIA", "TESLA", "AMD", "INSTINCT", "CORPORATION", "GPU", "DGX", "HGX"})
# In reverse order, A100 is before A10, so a name that contains A100 does not match A10.
_MODEL = re.compile("|".join(sorted({gpu.model for gpu in GPUS}, reverse=True)))
# RTX 5090: the number alone is not a name.
_SERIES = re.compile(r"\bRTX[ -]?([0-9]{4})(?:[ -]?(TI)\b)?(?![0-9A-Z])")
# Gaudi 2, TPU v5p: the second word alone is not a name either.
_OTHER_SERIES = re.compile(r"\b(GAUDI|TPU)[ -]+(?=V?[0-9])")
_MEMORY = re.compile(r"(?P<gib>[0-9]+)(?:G|GB|GIB)")
_PEAK = "gpu_peak_tflops"
_CAPACITY = "gpu_memory_gib"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number and its source.

    value: the number; None if it is not known.
    explanation: the number with its source, or the reason why the number is not known.
    """

    value: float | None
    explanation: str


def peak_tflops(name: str, precision: str, *, instead: str = _PEAK) -> Figure:
    """Return the peak, in TFLOP/s and without sparsity, of the GPU called `name`.

    precision: e.g. `bf16`.
    instead: the name of the option by which the user can give the peak. If the peak is not
    known, the result contains the reason, which ends with this name.
    """
    gpus = matching(name)
    if not gpus:
        return _unknown(name, instead)
    missing = [gpu.name for gpu in gpus if precision not in gpu.peak_tflops]
    if missing:
        return Figure(None, f"no {precision} peak is known for {_listed(missing)}; give {instead}")
    unit = f"TFLOP/s in dense {precision}"
    return _agreed(name, gpus, lambda gpu: (gpu.peak_tflops[precision],), unit, instead)


@cache  # a campaign asks for each of its runs
def memory_gib(name: str) -> Figure:
    """Return the memory of the GPU called `name`, as sold, in GiB.

    If the memory is not known, e.g. because several sizes are sold, the result has the reason.
    """
    gpus = matching(name)
    if not gpus:
        return _unknown(name, _CAPACITY)
    return _agreed(name, gpus, lambda gpu: _sizes(gpu, name), "GiB", _CAPACITY)


def memory_sizes_gib(name: str) -> list[int]:
    """Return every memory size, in GiB, of the GPU called `name`.

    The result is empty if the GPU is unknown.
    """
    return sorted({size for gpu in matching(name) for size in _sizes(gpu, name)})


def _sizes(gpu: Gpu, name: str) -> tuple[int, ...]:
    """Return the memory sizes of a GPU in GiB, as sold; if `name` has one, only that size."""
    named = [int(match["gib"]) for word in _words(name) if (match := _MEMORY.fullmatch(word))]
    return tuple(size for size in gpu.memory_gib if size in named) or gpu.memory_gib


def matching(name: str) -> list[Gpu]:
    """Return the GPUs that `name` can mean.

    `name` must contain the GPU's model. All other words of `name` must be words that names of this
    GPU may contain, e.g. its maker, its form factor or its memory. For example, `V100` can mean two
    GPUs, and `Tesla V100-SXM2-32GB` means one. The result is empty for a MIG slice, and for a
    memory size that no GPU of that name has, e.g. an A100 with 60 GB.
    """
    words = _words(name) - _MAKERS
    return [gpu for gpu in GPUS if gpu.model in words and words <= _own_words(gpu)]


def lacks_bf16(name: str) -> bool:
    """Return whether the GPU called `name` cannot compute in bf16; False if it is unknown.

    Only the GPU's model matters, e.g. `V100`, not the form factor or the memory size in its name.
    """
    gpus = _of_model(name)
    return bool(gpus) and not any("bf16" in gpu.peak_tflops for gpu in gpus)


def compute_capability(name: str) -> Capability | None:
    """Return the compute capability of the GPU called `name`, or None if it is unknown.

    Only the GPU's model matters, not the form factor or the memory size in its name. If the name
    may mean several GPUs, the result is the highest of their compute capabilities.
    """
    capabilities = (gpu.compute_capability for gpu in _of_model(name))
    return max((capability for capability in capabilities if capability is not None), default=None)


def full_names() -> list[str]:
    """Return a full name of every GPU: model, form factor and memory."""
    return [
        f"{gpu.model}-{gpu.form_factor}-{size}GB".upper() for gpu in GPUS for size in gpu.memory_gib
    ]


def _of_model(name: str) -> list[Gpu]:
    if gpus := matching(name):
        return gpus
    models = _MODEL.findall(name.upper())
    return [gpu for gpu in GPUS if gpu.model in models]


def _own_words(gpu: Gpu) -> set[str]:
    memory = {f"{size}{unit}" for size in gpu.memory_gib for unit in ("G", "GB", "GIB")}
    return {gpu.model, gpu.form_factor.upper(), *gpu.words, *memory}


def _words(name: str) -> set[str]:
    joined = _OTHER_SERIES.sub(r"\1", _SERIES.sub(r"RTX\1\2", name.upper()))
    return set(re.findall(r"[A-Z0-9]+", joined))


def _agreed(
    name: str,
    matching_gpus: list[Gpu],
    values: Callable[[Gpu], Iterable[float]],
    unit: str,
    instead: str,
) -> Figure:
    by_value: dict[float, list[Gpu]] = {}
    for gpu in matching_gpus:
        for value in values(gpu):
            by_value.setdefault(value, []).append(gpu)
    value, *others = by_value
    if not others:
        sources = dict.fromkeys(gpu.source for gpu in matching_gpus)
        names = _listed([gpu.name for gpu in matching_gpus])
        return Figure(value, f"{value:g} {unit}, {names}: {'; '.join(sources)}")
    ways = ", ".join(
        f"{_listed([gpu.name for gpu in gpus])} with {value:g} {unit}"
        for value, gpus in by_value.items()
    )
    return Figure(None, f"{name!r} may mean {ways}; give the full name, or {instead}")


def _unknown(name: str, instead: str) -> Figure:
    return Figure(None, f"{name!r} is not in the table of GPUs; give {instead}")


def _listed(names: list[str]) -> str:
    return " or ".join(names)
