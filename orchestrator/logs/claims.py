"""Check the TFLOPs, MFU, tokens/s, samples/s and steps/s in a log against its other values.

A claim is one of these numbers, printed by the training program. teralog computes the same quantity
from other values in the same step reports or from the configuration, and compares. The compared
numbers are medians over the reports of a launch after the warm-up. If a run has several launches,
the claim with the largest error counts.

Programs count FLOPs by different conventions. TFLOPs are compared with those of the program that
printed the log. If these are not known, TFLOPs are contradicted only if they are above or below the
results of all known conventions.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any

from orchestrator.common.text import counted
from orchestrator.hardware.gpus import GPUS, peak_tflops
from orchestrator.logs.claim import TOLERANCE, Claim, claim_of, rounded
from orchestrator.logs.figures import (
    NOTHING_GIVEN,
    Given,
    counted_flops,
    gpu_name,
    own_conventions,
    run_figures,
    stated_config,
    stated_precision,
)
from orchestrator.logs.result_claims import result_claims
from parsers.fields import finite, whole
from parsers.summary.run import RunSummary

# Programs print at least this many decimals, of an MFU in percent two. If the log has more of them,
# the error of rounding is smaller.
_ROUNDING = {
    "samples_per_second": 0.05,
    "tokens_per_second": 0.5,
    "tokens_per_second_per_gpu": 0.5,
    "reported_tflops_per_gpu": 0.05,
    "reported_mfu": 0.00005,
    "step_seconds": 0.0005,
}
# Megatron-Bridge prints seconds with two decimals.
_COARSE_SECONDS = 0.005
_TERA = 1e12
# Rates whose work per iteration is the same if every iteration has the same batch.
_PER_SECOND = (
    "reported_tflops_per_gpu",
    "tokens_per_second",
    "tokens_per_second_per_gpu",
)
# The least number of reports for this check, and the largest part of them that may differ: with
# more, the work of the iterations is not the same.
_FEWEST, _MOST_UNLIKE = 5, 0.25
_LIKE_AN_AVERAGE = 0.1
# A peak computed from a printed MFU, e.g. 0.38 %, may differ by this part from the program's peak.
_ROUNDED_PEAK = 0.1
# Programs whose iterations have batches of different numbers of tokens, e.g. generated texts.
_CHANGING_WORK = frozenset({"verl", "verl metrics", "prime-rl", "XTuner", "MMEngine"})

Row = Mapping[str, Any]


def claims(summary: RunSummary, given: Given = NOTHING_GIVEN) -> tuple[Claim, ...]:
    """Return the claims of a log (e.g. its TFLOPs) that can be checked against its other values.

    given: values from the user that the log may lack. The result is empty if several engines print
    their own samples/s.
    """
    if summary.engine_samples_per_second is not None:
        return ()  # of single engines, which generate and train in turn
    launches = _rows(summary)
    checked: dict[str, Claim] = {}
    of_launches = chain.from_iterable(_checks(rows, summary, given) for rows in launches)
    for claim in filter(None, chain(of_launches, result_claims(summary))):
        checked[claim.quantity] = max(checked.get(claim.quantity, claim), claim, key=_error)
    if not _CHANGING_WORK.isdisjoint(summary.formats):
        return tuple(checked.values())
    rows = [*chain.from_iterable(launches)]
    same_work = (
        _same_work(rows, name)
        for name in _PER_SECOND
        if name.removeprefix("reported_") not in checked
    )
    return (*checked.values(), *filter(None, same_work))


def _error(claim: Claim) -> tuple[bool, float]:
    """Return how wrong a claim is: whether it is contradicted, and its relative error."""
    return claim.contradicted, abs(claim.stated / claim.computed - 1)


def _checks(rows: Sequence[Row], summary: RunSummary, given: Given) -> Iterator[Claim | None]:
    """Yield the claims of a launch; `rows` are its step reports."""
    config = stated_config(summary)
    # A batch that was computed from samples/s cannot show whether the samples/s are right.
    batch = None if summary.batch_by_rates else summary.global_batch_size
    gpus = summary.world_size or given.world_size
    length = whole(config.get("seq_length"))
    yield _rate(rows, "samples_per_second", 1, batch, "a batch of {batch}")
    if tokens := whole(config.get("tokens_per_iteration")):
        yield _rate(rows, "tokens_per_second", tokens, 1, f"a batch of {tokens} tokens")
    elif length:
        yield _rate(
            rows, "tokens_per_second", length, batch, f"a batch of {{batch}} x {length} tokens"
        )
        if gpus:
            yield _rate(
                rows,
                "tokens_per_second_per_gpu",
                length / gpus,
                batch,
                f"a batch of {{batch}} x {length} tokens on {counted(gpus, 'GPU')}",
            )
    if gpus:
        yield _share(rows, gpus)
    yield _tflops(rows, summary, given)
    yield _mfu(rows, summary, config, given)


def _rows(summary: RunSummary) -> list[list[Row]]:
    """Return for each launch a row per step report that the run's numbers use.

    A row contains the rates, the seconds and the batch of the report.
    """
    names = (*_ROUNDING, "global_batch_size")
    return [
        [
            dict(zip(names, values, strict=True))
            for counts, *values in zip(
                launch.counted, *(launch.steps.column(name) for name in names), strict=True
            )
            if counts
        ]
        for launch in summary.launches
    ]


def _stated(rows: Sequence[Row], *names: str) -> list[Row]:
    """Return the rows in which each of the quantities `names` has a value above zero."""
    return [row for row in rows if all(row[name] and row[name] > 0 for name in names)]


def _rate(
    rows: Sequence[Row], name: str, amount: float, batch: int | None, what: str
) -> Claim | None:
    """Check a rate in a log against the work of an iteration divided by its seconds.

    Returns the claim, or None if no report contains the numbers that this check needs.

    name: the name of the rate.
    amount: the work per sequence: 1 for samples/s, or the number of tokens for tokens/s.
    batch: the global batch size, for reports that do not contain it.
    what: the work of an iteration in words, with `{batch}` in place of the batch size.
    """
    stated = _stated(rows, name, "step_seconds")
    pairs = [(row, size) for row in stated if (size := row["global_batch_size"] or batch)]
    if not pairs:
        return None
    rows_with_sizes, sizes = zip(*pairs, strict=True)
    computed = median(
        size * amount / row["step_seconds"]
        for size, row in zip(sizes, rows_with_sizes, strict=True)
    )
    seconds = median(row["step_seconds"] for row in rows_with_sizes)
    size = f"{sizes[0]}" if len({*sizes}) == 1 else "changing size"
    return claim_of(
        name,
        median(row[name] for row in rows_with_sizes),
        computed,
        f"{what.format(batch=size)} in {seconds:.4g} s",
        rounding=_rounding(name, rows_with_sizes),
        relative=_COARSE_SECONDS / seconds,
    )


def _same_work(rows: Sequence[Row], name: str) -> Claim | None:
    """Check a rate in each report against the other reports; return the most wrong claim.

    The rate multiplied by the seconds of an iteration is the work of this iteration. The work
    should be the same for all iterations. Returns None if this check is not possible, because

    - the global batch changes, or there are too few reports;
    - the work differs in many reports, e.g. with packed samples;
    - or the rate is an average over several iterations. A slow step then hardly lowers the
      rate.
    """
    stating_rows = _stated(rows, name, "step_seconds")
    if len(stating_rows) < _FEWEST or len({row["global_batch_size"] for row in stating_rows}) > 1:
        return None
    work = median(row[name] * row["step_seconds"] for row in stating_rows)
    rounding = _rounding(name, stating_rows)
    checked = [
        claim_of(
            name,
            row[name],
            work / row["step_seconds"],
            f"the median work (rate · step time) of {len(stating_rows)} reports, divided by the "
            f"step time of {row['step_seconds']:.4g} s",
            rounding=rounding,
            relative=_COARSE_SECONDS / row["step_seconds"],
        )
        for row in stating_rows
    ]
    unlike = [claim for claim in checked if claim.contradicted]
    usual = median(row[name] for row in stating_rows)
    # A rate that stays when a step is slow is an average over more than this step.
    averaged = any(abs(claim.stated - usual) <= _LIKE_AN_AVERAGE * usual for claim in unlike)
    if averaged or len(unlike) > len(checked) * _MOST_UNLIKE:
        return None
    return max(checked, key=_error)


def _share(rows: Sequence[Row], gpus: int) -> Claim | None:
    """Check the tokens/s per GPU in a log against the tokens/s of all GPUs divided by their number.

    Returns the claim, or None if no step report contains both rates.
    """
    stating_rows = _stated(rows, "tokens_per_second", "tokens_per_second_per_gpu")
    if not stating_rows:
        return None
    all_gpus = median(row["tokens_per_second"] for row in stating_rows)
    return claim_of(
        "tokens_per_second_per_gpu",
        median(row["tokens_per_second_per_gpu"] for row in stating_rows),
        median(row["tokens_per_second"] / gpus for row in stating_rows),
        f"{rounded(all_gpus)} tokens/s divided by {counted(gpus, 'GPU')}",
        rounding=_rounding("tokens_per_second_per_gpu", stating_rows),
        relative=0.5 / all_gpus,
    )


def _tflops(rows: Sequence[Row], summary: RunSummary, given: Given) -> Claim | None:
    """Return the claim of TFLOPs, compared with the convention whose result is nearest to it.

    If the conventions of the program are known, only these are compared. The note of a contradicted
    claim then names another convention that agrees with it, if there is one.

    Returns None if a number that this check needs is not known. Also returns None if the
    claimed TFLOPs are between the results of two conventions, and not near to either of them.
    The program may then have a convention of its own.
    """
    stating_rows = _stated(rows, "reported_tflops_per_gpu", "step_seconds")
    figures = run_figures(summary, given)
    own = {convention.title for convention in own_conventions(stated_config(summary))}
    flops = counted_flops(summary, given)
    batch, gpus = figures.global_batch_size, figures.gpus
    if not stating_rows or not flops or not batch or not gpus:
        return None
    stated = median(row["reported_tflops_per_gpu"] for row in stating_rows)
    speed = median(
        (row["global_batch_size"] or batch) / batch / row["step_seconds"] for row in stating_rows
    )
    every = {title: count * speed / gpus / _TERA for title, count in flops.items()}
    by_title = {title: tflops for title, tflops in every.items() if not own or title in own}
    if not by_title:
        return None
    title, computed = _nearest(by_title, stated)
    least, most = min(by_title.values()), max(by_title.values())
    # A count between those of the known conventions is taken as the program's own convention.
    between = least <= stated <= most
    if between and abs(stated - computed) > TOLERANCE * computed:
        return None
    foreign, nearest = _nearest(every, stated)
    agrees = foreign not in by_title and abs(stated - nearest) <= TOLERANCE * nearest
    return claim_of(
        "reported_tflops_per_gpu",
        stated,
        computed,
        f"{flops[title]:.4g} FLOPs ({title}) in {1 / speed:.4g} s on {counted(gpus, 'GPU')}",
        rounding=_rounding("reported_tflops_per_gpu", stating_rows),
        note=f"the program does not count by the convention that agrees: {foreign}"
        if agrees
        else None,
        relative=_COARSE_SECONDS * speed,
    )


def _nearest(by_title: Mapping[str, float], stated: float) -> tuple[str, float]:
    """Return the item whose value is nearest to `stated`."""
    return min(by_title.items(), key=lambda item: abs(item[1] - stated))


def _mfu(
    rows: Sequence[Row], summary: RunSummary, config: Mapping[str, str], given: Given
) -> Claim | None:
    """Return the claim of an MFU, compared with the MFU computed from the GPU's peak.

    The computed MFU is the TFLOPs of `_speed` divided by the peak of the GPU. If the peak of the
    GPU is not known, it is the peak by which the program divides. Without TFLOPs, the MFU is
    contradicted if the two peaks differ. Otherwise nothing is left to compare it with. Returns None
    then, and if a number that this check needs is not known.
    """
    used = finite(config.get("mfu_peak_tflops"))
    stating_rows = _stated(rows, "reported_mfu")
    gpu = gpu_name(config, given)
    precision = stated_precision(config) or given.precision or "bf16"
    own_peak = given.peak_tflops or (peak_tflops(gpu, precision).value if gpu else None)
    peak = own_peak or used
    if not stating_rows or not peak or precision not in {"bf16", "fp16"}:
        return None
    stated = median(row["reported_mfu"] for row in stating_rows)
    device = _named(gpu) if gpu else "the GPU"
    peak_in_words = f"{peak:.4g} TFLOP/s (the dense {precision} peak of {device})"
    if own_peak is None:
        peak_in_words = f"{peak:.4g} TFLOP/s (the peak in the log)"
    right_peak = used is not None and abs(used - peak) <= TOLERANCE * peak
    explained = True
    relative = 0.0
    if speed := _speed(stating_rows, summary.world_size or given.world_size, config):
        tflops, words, relative = speed
        implied = tflops / stated
        explained = used is None or abs(used - implied) <= _ROUNDED_PEAK * used
        implied = used or implied
        computed = tflops / peak
        formula = f"{words} divided by {peak_in_words}"
    elif used and not right_peak:
        implied, computed = used, stated * used / peak
        formula = f"the log's speed divided by {peak_in_words}"
    else:
        return None
    return claim_of(
        "reported_mfu",
        stated,
        computed,
        formula,
        rounding=_rounding("reported_mfu", stating_rows),
        note=None
        if right_peak or not explained
        else f"the log divides by a peak of {_peak(implied, precision)}",
        relative=relative,
    )


def _speed(
    rows: Sequence[Row], gpus: int | None, config: Mapping[str, str]
) -> tuple[float, str, float] | None:
    """Return the TFLOP/s of a GPU, in words too, and its relative error; None if not known.

    It is the TFLOP/s in the log, or else the FLOPs per token in the log times the tokens/s. The
    tokens/s are the tokens of an iteration divided by its seconds, or else those in the log.
    """
    if stating_rows := _stated(rows, "reported_tflops_per_gpu"):
        tflops = median(row["reported_tflops_per_gpu"] for row in stating_rows)
        rounding = _rounding("reported_tflops_per_gpu", stating_rows)
        return tflops, f"{tflops:.4g} TFLOP/s", rounding / tflops
    flops, tokens = finite(config.get("flops_per_token")), whole(config.get("tokens_per_iteration"))
    timed = _stated(rows, "step_seconds") if tokens else []
    rates = [(tokens or 0) / row["step_seconds"] for row in timed]
    rates = rates or [row["tokens_per_second"] for row in _stated(rows, "tokens_per_second")]
    if not flops or not gpus or not rates:
        return None
    rate = median(rates)
    words = f"{flops:.4g} FLOPs per token · {rounded(rate)} tokens/s on {counted(gpus, 'GPU')}"
    return flops * rate / gpus / _TERA, words, 0.0


def _named(gpu: str) -> str:
    return f"{'an' if gpu[:1] in 'AEIOaeio' else 'the'} {gpu}"


def _peak(tflops: float, precision: str) -> str:
    """Return a peak, in TFLOP/s, as text with the names of the GPUs that have this peak.

    The text is e.g. `312, the peak of A100 or A800`.
    """
    alike = [
        gpu.model
        for gpu in GPUS
        if abs(gpu.peak_tflops.get(precision, 0.0) - tflops) <= 0.005 * tflops
    ]
    whose = f", the peak of {' or '.join(dict.fromkeys(alike))}" if alike else ""
    return f"{tflops:.4g}{whose}"


def _rounding(name: str, rows: Sequence[Row]) -> float:
    """Return by how much a number in the log may be rounded: half of its last printed digit."""
    decimals = max(len(f"{row[name]:.12g}".partition(".")[2]) for row in rows)
    return min(_ROUNDING[name], 0.5 / 10.0**decimals)
