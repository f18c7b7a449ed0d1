"""Explain for each run why it lacks numbers, and which options contradict its log."""

import math
from collections.abc import Iterator

from orchestrator.common.text import counted
from orchestrator.hardware.gpus import matching, peak_tflops
from orchestrator.logs.claims import claims
from orchestrator.logs.figures import (
    Figures,
    Given,
    contradicts_preset,
    gpu_name,
    parameters_of_model,
    stated_config,
    stated_precision,
    stated_recomputation,
    stated_sizes,
)
from parsers.records import OutcomeKind
from parsers.summary.run import EQUAL_BATCHES, RunSummary

# Two counts of one model's parameters may differ by padding, biases and rounding.
_SAME_MODEL = 0.02
_NO_CHECKPOINTING = "--no-activation-checkpointing"


def time_remarks(summary: RunSummary, given: Given) -> Iterator[str]:
    """Yield sentences about a run's step times.

    They state which step reports are left out, where the step times come from if no report contains
    them, or why the run has no step time. If a program has several engines, a sentence states the
    speed that the engines' own timers report.

    given: the values of the user's options.
    """
    if not summary.steady:
        yield (
            "no steady state: the step time still changes in the second half of the log, so half "
            "of the reports are left out"
        )
    if summary.covered:
        verb = "is" if summary.covered == 1 else "are"
        yield (
            f"{counted(summary.covered, 'mean')} over several steps {verb} left out, because other "
            "reports cover these steps"
        )
    if summary.step_times_from in {"tokens_per_second", "tokens_per_second_per_gpu"}:
        yield "step times are computed: the tokens of a step divided by the tokens/s"
    if summary.step_times_from == "nominal_step_seconds":
        yield (
            "step times are computed from the time since the previous report; the first report, "
            "and reports that cover only a part of the log interval, have none"
        )
    if summary.step_seconds.mean is not None and not summary.step_seconds.n:
        yield "the step time is a mean that includes the warm-up, from the program's own result"
    if summary.step_seconds.mean is None and (reason := _no_step_time(summary, given)) is not None:
        yield reason
    if summary.engine_samples_per_second is not None:
        yield (
            "step times and samples/s are end to end; the engines' own timers report "
            f"{summary.engine_samples_per_second:.4g} samples/s"
        )


def _no_step_time(summary: RunSummary, given: Given) -> str | None:
    """Return a sentence about why a run has no step time; None if the reason needs no words.

    For example, a run that ended with an error before the first step has none.
    """
    used = summary.reports - summary.dropped - summary.covered
    if not summary.reports:
        if summary.rates_without_unit:
            return (
                "no step time, because the reports contain a throughput but no global batch size; "
                "add `--global-batch-size N`"
            )
        usual = {OutcomeKind.COMPLETED, OutcomeKind.TRUNCATED}
        if not summary.formats or summary.outcome.kind not in usual:
            return None
        if summary.loss_reports:
            return "no step time, because no report contains the number of its step"
        return "no step time, because the log contains no report of a step time"
    if not used:
        return "no speed, because the warm-up leaves out all reports; `--warmup 0` counts them"
    if summary.skipped == used:
        return (
            "no step time, because every report after the warm-up contains a skipped update; "
            "`--skipped keep` counts them"
        )
    if summary.rates_only:
        return (
            "no step time, because the reports contain samples/s but no batch size; add "
            "`--global-batch-size N`"
        )
    has_rates = summary.tokens_per_second_per_gpu and not EQUAL_BATCHES.isdisjoint(summary.formats)
    if has_rates and summary.step_times_from is None:  # else reports of the warm-up have times
        values = {
            "--global-batch-size": summary.global_batch_size or given.global_batch_size,
            "--seq-length": summary.config.get("seq_length") or given.sizes.get("seq_length"),
            "--world-size": summary.world_size or given.world_size,
        }
        lacking = " ".join(f"{option} N" for option, value in values.items() if value is None)
        if lacking:
            return f"no step time; to compute it from the tokens/s, add `{lacking}`"
    after = " after the warm-up" if summary.dropped else ""
    return f"no step time, because no report{after} contains one"


def figure_remarks(summary: RunSummary, figures: Figures) -> Iterator[str]:
    """Yield a sentence if TFLOPs were computed from samples/s, or if TFLOPs or MFU are missing.

    The sentence states the reason. Nothing is yielded for a run without a speed.
    """
    if summary.step_seconds.mean is None and summary.samples_per_second is None:
        return
    if summary.batch_changes and figures.model_tflops_per_gpu is not None:
        yield "TFLOPs are computed from samples/s, because the global batch changes during the run"
    if figures.uncounted is not None:
        yield f"no TFLOPs: {figures.uncounted}"
    elif figures.tflops_per_gpu is None and figures.lacking:
        yield f"no TFLOPs: to compute them, give {' '.join(figures.lacking)}"
    if figures.no_peak is not None:
        yield f"no MFU: {figures.no_peak}"


def unknown_gpu(given: Given) -> str | None:
    """Return a sentence if teralog does not know the GPU in the user's `--gpu`, else None."""
    if given.gpu is None or given.peak_tflops is not None or matching(given.gpu):
        return None
    return peak_tflops(given.gpu, given.precision or "", instead="--gpu-peak-tflops").explanation


def contradicted_claims(summary: RunSummary, given: Given) -> Iterator[str]:
    """Yield a sentence for each claim of a log that other values in the log contradict.

    For example, the log contains TFLOPs that do not follow from its step time and its model.
    The sentence contains the number that teralog computes from the other values.
    """
    for claim in claims(summary, given):
        if claim.contradicted:
            yield claim.sentence()


def contradicted_options(summary: RunSummary, given: Given) -> Iterator[str]:
    """Yield a sentence for each option that contradicts the log.

    An option is ignored if the log contains another value. A model is an exception if it differs
    from the log only in its number of parameters. This model is used, because TFLOPs cannot be
    computed from a number of parameters alone.

    given: the values of the user's options.
    """
    config = stated_config(summary)
    wanted = {
        "world_size": given.world_size,
        "global_batch_size": given.global_batch_size,
        **given.sizes,
    }
    stated = {
        "world_size": summary.world_size,
        "global_batch_size": summary.global_batch_size,
        **stated_sizes(config),
    }
    for name, value in wanted.items():
        logged = stated.get(name)
        if value is not None and logged is not None and logged != value:
            yield f"the log states {logged}; --{name.replace('_', '-')} {value} is ignored"
    if contradicts_preset(config, given):
        layers, width = (config.get(name, "?") for name in ("num_layers", "hidden_size"))
        yield (
            f"the log states num_layers {layers} and hidden_size {width}; --model {given.model} is "
            "ignored"
        )
    elif (
        (parameters := summary.parameters)
        and (chosen := parameters_of_model(given))
        and not math.isclose(parameters, chosen, rel_tol=_SAME_MODEL)
    ):
        yield (
            f"the log states {parameters:,} parameters, but --model {given.model} has {chosen:,}; "
            "TFLOPs are computed for --model"
        )
    precision = stated_precision(config)
    if given.precision is not None and precision not in {None, given.precision}:
        yield f"the log states {precision}; --precision {given.precision} is ignored"
    recomputed = stated_recomputation(config)
    if given.recomputed is not None and recomputed not in {None, given.recomputed}:
        option = "--activation-checkpointing" if given.recomputed else _NO_CHECKPOINTING
        whether = "that layers are recomputed" if recomputed else "that no layers are recomputed"
        yield f"the log states {whether}; {option} is ignored"
    gpu = config.get("gpu")
    if gpu is not None and given.gpu is not None and gpu_name(config, given) == gpu:
        names = {gpu.name for gpu in matching(given.gpu)}
        if not names & {spec.name for spec in matching(gpu)}:
            yield f"the log states {gpu}; --gpu {given.gpu} is ignored"
