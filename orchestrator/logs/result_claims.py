"""Check the rates of a whole launch, which the training program prints at its end."""

from collections.abc import Iterator

from orchestrator.logs.claim import TOLERANCE, Claim, claim_of
from parsers.fields import finite, whole
from parsers.summary.run import LaunchTotal, RunSummary

# Hugging Face's Trainer prints its rates with three decimals.
_ROUNDING = 0.0005


def result_claims(summary: RunSummary) -> Iterator[Claim]:
    """Yield the rates of whole launches, compared with the work of a launch and its seconds.

    Only Hugging Face's Trainer prints such a rate together with the seconds. It divides all steps
    of the training by the seconds of this launch, even if the launch continued from a checkpoint.
    """
    for launch in summary.launch_totals:
        totals, seconds = launch.totals, launch.totals.train_seconds
        if not totals.steps_per_second or not totals.iterations or not seconds:
            continue
        done = totals.iterations
        steps = done + (launch.resumed_from or 0)
        note = f"the program counts all {steps} steps, also those before its checkpoint"
        resumed = note if launch.resumed_from else None
        yield claim_of(
            "steps_per_second",
            totals.steps_per_second,
            done / seconds,
            f"{done} steps in {seconds:.4g} s",
            rounding=_ROUNDING,
            note=resumed,
        )
        batch, unsure = whole(launch.settings.get("global_batch_size")), _unsure(launch, steps)
        if totals.samples_per_second and batch and unsure is not None:
            yield claim_of(
                "samples_per_second",
                totals.samples_per_second,
                done * batch / seconds,
                f"{done} steps with a batch of {batch} in {seconds:.4g} s",
                rounding=_ROUNDING,
                note=resumed,
                relative=TOLERANCE + unsure / done,
            )


def _unsure(launch: LaunchTotal, steps: int) -> float | None:
    """Return by how many batches the samples of a training may differ from those of its steps.

    The last batch of an epoch may be smaller, or left out. Returns None if the number of epochs is
    not known, or if a sample is not a sequence: with several answers per prompt, only the prompts
    are samples.
    """
    names = ("global_batch_size", "num_examples", "num_epochs")
    batch, examples, epochs = (finite(launch.settings.get(name)) for name in names)
    if not batch or not examples or not epochs:
        return None
    if epochs > steps:  # a data set without a length: the Trainer prints a very large number
        return 0.0
    batches = epochs + 1
    return batches if (steps - batches) * batch <= examples * epochs else None
