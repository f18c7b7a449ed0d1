"""Which further arguments Megatron refuses beside what a run says, each with a sentence."""

from collections.abc import Iterator

from orchestrator.frameworks.arguments import given, whole_number
from orchestrator.model import Run

_BY_SAMPLES = ("--lr-decay-samples", "--lr-warmup-samples", "--rampup-batch-size")


def schedule_problems(run: Run) -> Iterator[str]:
    """Yield which arguments are not for a training of so many iterations, since Megatron 2."""
    options = given(run.options.extra_args)
    for option in _BY_SAMPLES:
        # No samples of warm-up are what it has by default.
        if option in options and not (
            option == "--lr-warmup-samples" and whole_number(options, option) == 0
        ):
            yield (
                f"extra_args: {option} is for a training by samples, and this one is by "
                "iterations, as train_iters says; take it out"
            )
    if "--lr-warmup-fraction" in options and whole_number(options, "--lr-warmup-iters"):
        yield "extra_args: --lr-warmup-fraction and --lr-warmup-iters say the same; take one out"
