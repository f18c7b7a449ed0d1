"""Peaks and memory of GPUs, looked up by any of a GPU's names; nothing is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.hardware.gpus import (
    GPUS,
    Gpu,
    compute_capability,
    full_names,
    matching,
    memory_gib,
    peak_tflops,
)
from orchestrator.workloads.precision import PRECISIONS

_OTHER_MAKERS = ("MI", "GAUDI", "TPU")

# Names as nvidia-smi, torch, Slurm features and cluster profiles have them: which GPUs they may be,
# the dense fp16 peak, the memory.
NAMES: list[tuple[str, list[str], float | None, int | None]] = [
    ("Tesla V100-SXM2-32GB", ["V100 SXM2"], 125, 32),
    ("Tesla V100-SXM2-16GB", ["V100 SXM2"], 125, 16),
    ("Tesla V100-SXM2...", ["V100 SXM2"], 125, None),
    ("V100-SXM2-32GB", ["V100 SXM2"], 125, 32),
    ("Tesla V100-PCIE-16GB", ["V100 PCIe"], 112, 16),
    ("V100", ["V100 SXM2", "V100 PCIe"], None, None),
    ("v100-32g", ["V100 SXM2", "V100 PCIe"], None, 32),
    ("Tesla V100S-PCIE-32GB", ["V100S PCIe"], 130, 32),
    ("Tesla V100-SXM3-32GB", [], None, None),
    ("Tesla T4", ["T4 PCIe"], 65, 16),
    ("NVIDIA A10", ["A10 PCIe"], 125, 24),
    ("NVIDIA A10G", [], None, None),
    ("A100", ["A100 SXM4", "A100 PCIe"], 312, None),
    ("a100_80gb", ["A100 SXM4", "A100 PCIe"], 312, 80),
    ("NVIDIA A100-SXM4-80GB", ["A100 SXM4"], 312, 80),
    ("A100-SXM-40GB", ["A100 SXM4"], 312, 40),
    ("NVIDIA A100 80GB PCIe", ["A100 PCIe"], 312, 80),
    ("NVIDIA A100-SXM-64GB", [], None, None),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", [], None, None),
    ("NVIDIA H100 80GB HBM3", ["H100 SXM5"], 989.5, 80),
    ("NVIDIA H100 PCIe", ["H100 PCIe"], 756.5, 80),
    ("NVIDIA H100 NVL", ["H100 NVL"], 835.5, 94),
    ("H100", ["H100 SXM5", "H100 PCIe", "H100 NVL"], None, None),
    ("H200", ["H200 SXM5"], 989.5, 141),
    ("NVIDIA H200", ["H200 SXM5"], 989.5, 141),
    ("NVIDIA H200 NVL", [], None, None),
    ("NVIDIA GH200 480GB", ["GH200 module"], 989.5, None),
    ("NVIDIA B200", ["B200 SXM"], 2250, None),
    ("NVIDIA L40S", ["L40S PCIe"], 362, 48),
    ("AMD Instinct MI250X", ["MI250X OAM"], 191.5, 64),
    ("AMD Instinct MI250X / MI250", ["MI250 OAM", "MI250X OAM"], None, 64),
    ("AMD Instinct MI300X", ["MI300X OAM"], 1307.4, 192),
    ("NVIDIA GeForce RTX 3090", ["RTX3090 PCIe"], 71, 24),
    ("NVIDIA GeForce RTX 5070 Ti", ["RTX5070TI PCIe"], 87.9, 16),
    ("NVIDIA GeForce RTX 5070", ["RTX5070 PCIe"], 61.7, 12),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", [], None, None),
    ("NVIDIA GeForce RTX 4090 D", [], None, None),
    ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", [], None, None),
    ("NVIDIA GeForce RTX 3090 Ti", ["RTX3090TI PCIe"], 80, 24),
    ("NVIDIA GeForce RTX 4090", ["RTX4090 PCIe"], 165.2, 24),
    ("NVIDIA GeForce RTX 5090", ["RTX5090 PCIe"], 209.5, 32),
    ("NVIDIA RTX A6000", ["A6000 PCIe"], 154.8, 48),
    ("NVIDIA H20", ["H20 SXM5"], 148, 96),
    ("NVIDIA H800", ["H800 SXM5"], 989.5, 80),
    ("NVIDIA L40", ["L40 PCIe"], 181, 48),
    ("NVIDIA B300 SXM6 AC", ["B300 SXM"], 2250, None),
    ("NVIDIA GB200", ["GB200 module"], 2500, None),
    ("NVIDIA GB300", ["GB300 module"], 2500, None),
    ("AMD Instinct MI355X", ["MI355X OAM"], 2516.6, 288),
    ("Intel Gaudi 3", ["GAUDI3 OAM"], 459, 128),
    ("TPU v5p", ["TPUV5P chip"], None, 95),
    ("NVIDIA R200", [], None, None),
    ("cpu", [], None, None),
    ("", [], None, None),
]


@pytest.mark.parametrize(("name", "gpus", "peak", "memory"), NAMES)
def test_an_ambiguous_name_has_the_figures_that_all_its_gpus_share(
    name: str, gpus: list[str], peak: float | None, memory: int | None
):
    """If a name may mean several GPUs, it has a peak or a memory size only if they all agree.

    Otherwise the value is None, like that of an unknown name.
    """
    assert [gpu.name for gpu in matching(name)] == gpus
    assert peak_tflops(name, "fp16").value == peak
    assert memory_gib(name).value == memory


@pytest.mark.parametrize(
    ("name", "precision", "sentence"),
    [
        ("V100-SXM2-32GB", "fp16", "125 TFLOP/s in dense fp16, V100 SXM2: NVIDIA V100 data sheet"),
        (
            "V100",
            "fp16",
            (
                "'V100' may mean V100 SXM2 with 125 TFLOP/s in dense fp16, "
                "V100 PCIe with 112 TFLOP/s in dense fp16; give the full name, or gpu_peak_tflops"
            ),
        ),
        (
            "V100-SXM2-32GB",
            "bf16",
            "no bf16 peak is known for V100 SXM2; give gpu_peak_tflops",
        ),
        ("A100", "bf16", "312 TFLOP/s in dense bf16, A100 SXM4 or A100 PCIe: NVIDIA A100"),
        ("A10G", "fp16", "'A10G' is not in the table of GPUs; give gpu_peak_tflops"),
    ],
)
def test_a_figure_has_its_source_or_the_reason_why_it_is_missing(
    name: str, precision: str, sentence: str
):
    """A sentence for the report states the source of a GPU's peak, or why no peak is known."""
    assert peak_tflops(name, precision).explanation.startswith(sentence)


@pytest.mark.parametrize(
    ("name", "peak"), [("V100-SXM2", 15.7), ("A100", 19.5), ("H100 PCIe", 51), ("MI300X", None)]
)
def test_fp32_has_its_own_peak(name: str, peak: float | None):
    """The fp32 peak of a GPU is that without tensor cores, which a run in fp32 does not use."""
    assert peak_tflops(name, "fp32").value == peak


def test_a_tpu_has_a_peak_in_bf16_only():
    """A TPU cannot compute in fp16, so it has a bf16 peak and no fp16 peak."""
    assert peak_tflops("TPU v4", "bf16").value == 275
    assert peak_tflops("TPU v4", "fp16").value is None


def test_an_unknown_precision_has_no_peak():
    """If a GPU's peak in a precision is unknown, the peak of another precision is not used."""
    assert peak_tflops("A100", "fp8").value is None


@given(st.text(max_size=30))
def test_any_gpu_name_gets_an_answer(name: str):
    """For any name, the peak and the memory have an explanation, and no exception is raised."""
    for figure in (*(peak_tflops(name, precision) for precision in PRECISIONS), memory_gib(name)):
        assert figure.explanation


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_every_gpu_is_found_by_its_own_name_and_has_a_source(gpu):
    """Every GPU of the table is found by its own name, and its peak has a source."""
    assert gpu in matching(gpu.name)
    assert all(gpu in matching(f"{gpu.name} {size}GB") for size in gpu.memory_gib)
    assert gpu.source
    assert all(peak > 0 for peak in gpu.peak_tflops.values())


@pytest.mark.parametrize("name", full_names())
def test_every_suggested_full_name_is_a_gpu(name: str):
    """Teralog recognises every full name of a GPU that its messages can suggest."""
    assert matching(name)


def test_a_card_of_two_dies_is_two_gpus():
    """Each of the two dies of an MI250X counts as a GPU, as in Slurm and torch.

    So its bf16 peak is half of the card's 383 TFLOP/s.
    """
    (gpu,) = matching("MI250X")
    assert gpu.dies * gpu.peak_tflops["bf16"] == 383


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("V100-SXM2-32GB", (7, 0)),
        ("Tesla V100-DGXS-32GB", (7, 0)),
        ("A100", (8, 0)),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", (8, 0)),
        ("NVIDIA A100X", (8, 0)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA H100 80GB HBM3", (9, 0)),
        ("B200", (10, 0)),
        ("MI300X", None),
        ("Z9000", None),
    ],
)
def test_a_compute_capability_goes_by_the_model(name: str, expected: tuple[int, int] | None):
    """The compute capability follows from the GPU's model, e.g. 7.0 for every V100.

    A name that contains A100 does not mean an A10. The capability is unknown for unknown GPUs, and
    for GPUs that are not of NVIDIA.
    """
    assert compute_capability(name) == expected


def test_all_of_nvidia_s_gpus_have_a_compute_capability():
    assert all(gpu.compute_capability for gpu in GPUS if not gpu.model.startswith(_OTHER_MAKERS))


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_peaks_are_those_of_dense_products(gpu: Gpu) -> None:
    """A GPU's fp8 peak is at most twice its 16-bit peak, and its fp4 peak at most four times.

    A higher peak would be one with sparsity.
    """
    peaks = gpu.peak_tflops
    sixteen = peaks.get("bf16") or peaks["fp16"]
    assert peaks.get("fp8", sixteen) <= 2.05 * sixteen
    assert peaks.get("fp4", sixteen) <= 4.05 * sixteen
    if gpu.model.startswith("RTX"):
        assert sixteen == pytest.approx(2 * peaks["fp32"], rel=0.01)
    assert gpu.source


@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("DGX-GB300", 2500), ("DGX-B300", 2250), ("DGX H100 80GB HBM3", 989.5), ("H20", 148),
        ("NVIDIA GeForce RTX 4070 Ti", 80.2), ("TPU v6e", 918), ("Ironwood", None),
        ("NVIDIA GeForce RTX 4080 SUPER", None), ("Intel Gaudi 3", 1677.7), ("MI355X", 2516.6),
    ],
)  # fmt: skip
def test_names_of_published_pages_have_their_own_peak_or_none(
    name: str, bf16: float | None
) -> None:
    """A GPU name, as a published page spells it, gives that GPU's bf16 peak, or None if unknown."""
    assert peak_tflops(name, "bf16").value == bf16
