"""Compute the rates of a run from its reports, and the batch that these rates show."""

from collections.abc import Iterable
from statistics import fmean, harmonic_mean

from parsers.records import LossReport
from parsers.runs.run import LogRun
from parsers.steps.blocks import step_column
from parsers.steps.seconds import is_sound
from parsers.summary.launches import RunReports

_LEAST_FRACTION = 0.25


def computed_batch(run: LogRun) -> int | None:
    """Return the global batch size: the rounded product of step time and samples per second.

    Programs print both factors rounded, so the products of a run's reports differ. The
    lowest and highest quarter of the products are ignored. If one of the others
    differs from the result by 0.25 or more, returns None. Also returns None if no report has both
    values.
    """
    parts = run.reports
    columns = (step_column(parts, name) for name in ("step_seconds", "samples_per_second"))
    products = sorted(
        seconds * rate
        for seconds, rate in zip(*columns, strict=True)
        if seconds and rate and is_sound(seconds) and is_sound(rate)
    )
    if not products:
        return None
    middle = products[len(products) // 4 : len(products) - len(products) // 4]
    size = round(middle[0])
    return (
        size if size and max(abs(product - size) for product in middle) < _LEAST_FRACTION else None
    )


def rate_of_samples(reports: RunReports, batch: int | None) -> float | None:
    """Return the number of samples divided by the seconds, over the reports that the numbers use.

    The number of samples is the sum of the global batches. If the batches or the seconds are not
    known, returns the mean of the reported rates. Reported rates are less reliable: they may be
    wrong, or be means since the start.
    """
    sizes = (size or batch for size in reports.column("global_batch_size"))
    sized = [*filter(all, zip(sizes, reports.column("step_seconds"), strict=True))]
    if not sized:
        return mean_rate(reports, "samples_per_second")
    samples, seconds = map(sum, zip(*sized, strict=True))
    return float(samples / seconds)


def mean_rate(reports: RunReports, name: str) -> float | None:
    """Return the mean of the reported rate `name`, weighted by the step time of each report.

    If no report has a step time, returns the harmonic mean, which is correct if each report covers
    the same work. Returns None if no report has a usable rate.
    """
    if not reports.has(name):
        return None
    rates = list(reports.column(name))
    timed = [
        (rate, seconds)
        for rate, seconds in zip(rates, reports.column("step_seconds"), strict=True)
        if rate is not None and is_sound(rate) and seconds
    ]
    if timed:
        return fmean(*zip(*timed, strict=True))
    sound_rates = known_values(rates)
    return harmonic_mean(sound_rates) if sound_rates and min(sound_rates) >= 0 else None


def rate_of_loss_reports(run: LogRun) -> float | None:
    """Return the harmonic mean of the rates in loss reports, in tokens/s per GPU.

    Loss reports contain no iteration, so iterations of a warm-up cannot be left out. Instead, the
    first rate is left out.
    """
    rates = (
        report.tokens_per_second_per_gpu for report in run.reports if isinstance(report, LossReport)
    )
    sound_rates = [rate for rate in known_values(rates) if rate > 0][1:]
    return harmonic_mean(sound_rates) if sound_rates else None


def tokens_per_sample(reports: RunReports) -> float | None:
    """Return the sequence length, computed from consumed tokens and samples.

    It is the increase of the tokens divided by the increase of the samples. Both are
    measured from the first to the last report that the numbers use. Returns None if one of
    these two reports lacks a number, or if the tokens or the samples do not increase.
    """
    tokens, samples = reports.column("consumed_tokens"), reports.column("consumed_samples")
    counts = [*zip(tokens, samples, strict=True)]
    match (*counts[:1], *counts[-1:]):
        case ((int(tokens_before), int(samples_before)), (int(tokens_now), int(samples_now))):
            if tokens_now > tokens_before and samples_now > samples_before:
                return (tokens_now - tokens_before) / (samples_now - samples_before)
    return None


def engine_samples_per_second(run: LogRun) -> float | None:
    """Return the mean samples per second of single engines (a harmonic mean).

    An engine is DeepSpeed's trainer of one model. An RLHF program has several, e.g. for an actor
    and a critic. Returns None if no other report covers whole iterations.
    """
    whole_iterations = step_column(run.reports, "end_to_end")
    if not any(whole_iterations):
        return None
    rates = zip(step_column(run.reports, "samples_per_second"), whole_iterations, strict=True)
    sound_rates = [
        rate for rate in known_values(rate for rate, is_whole in rates if not is_whole) if rate > 0
    ]
    return harmonic_mean(sound_rates) if sound_rates else None


def known_values(values: Iterable[float | None]) -> list[float]:
    """Return the values that are known and can be used, i.e. without nan and inf."""
    return [value for value in values if value is not None and is_sound(value)]
