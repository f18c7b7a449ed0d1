"""List the conventions by which FLOPs are counted: their names and titles.

`orchestrator.run.flops` has the formulas of conventions for GPTs. `orchestrator.model.conventions`
applies conventions to any described model. The names and titles are in a separate module, so that
code that counts only plain GPTs need not import `orchestrator.model.conventions`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """A named way to count FLOPs.

    title: what is counted, and by which program or paper.
    source: the function in another program that counts in this way.
    counts_recomputation: whether recomputed forward passes count. If so, the results are hardware
        FLOPs, which give the HFU. Otherwise they are model FLOPs, which give the MFU.
    assumes: the layers for which the formula in `orchestrator.run.flops` is right; empty if it is
        right for all GPTs.
    """

    name: str
    title: str
    source: str = ""
    counts_recomputation: bool = False
    assumes: str = ""


CONVENTIONS: dict[str, Convention] = {
    convention.name: convention
    for convention in (
        Convention(name="model", title="exact matrix products of the forward and backward pass"),
        Convention(
            name="hardware",
            title="exact matrix products, including recomputed ones",
            counts_recomputation=True,
        ),
        Convention(
            name="narayanan",
            title="Narayanan et al. 2021 (arXiv 2104.04473), equation 3",
            counts_recomputation=True,
            assumes="an MLP of two matrices 4h wide, and keys and values for every head",
        ),
        Convention(
            name="bigscience",
            title="BigScience's approximation (2021): one multiply-add per parameter, no attention",
            counts_recomputation=True,
        ),
        Convention(
            name="megatron-core",
            title="Megatron-LM core: the causal half of attention",
            source="num_floating_point_operations of megatron/training/training.py, 0.19",
        ),
        Convention(
            name="megatron-bridge",
            title="Megatron-Bridge: the causal part of attention, also within attention windows",
            source="num_floating_point_operations of its training/utils/flop_utils.py, August 2026",
        ),
        Convention(
            name="torchtitan",
            title="torchtitan",
            source="get_moe_model_nparams_and_flops of its models/utils.py, August 2026",
        ),
        Convention(
            name="nanotron",
            title="nanotron",
            source="get_flops of its models/llama.py, April 2026",
        ),
        Convention(name="palm", title="PaLM (arXiv 2204.02311), appendix B"),
    )
}
