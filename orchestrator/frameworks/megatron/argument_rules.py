"""Check the further arguments of Megatron against the parameters of a run.

This module does not check whether the further arguments contradict each other. Megatron's own code
checks that, and `orchestrator/workloads/ask_megatron.py` runs Megatron's code.
"""

import math
from collections.abc import Iterator

from orchestrator.frameworks.arguments import given, number, whole_number
from orchestrator.frameworks.megatron.shared import DATA_PATH
from orchestrator.run.model import Run

# Options that no run may have: each with the reason and with what to do.
_NOT_FOR_RUNS = (
    "--yaml-cfg replaces all arguments with those of a file; write the arguments one by one",
    "--skip-train leaves out the training, so there are no steps to measure; remove it",
    "--use-checkpoint-args takes sizes from a checkpoint, but the run sets them; remove it",
    "--warmup is no longer valid; use --lr-warmup-fraction",
    "--encoder-seq-length is set by seq_length; remove it",
    "--encoder-num-layers is set by num_layers; remove it",
)
_SPLIT_DATA = ("--train-data-path", "--valid-data-path", "--test-data-path")
# Options that name the user's own data for Megatron core.
OWN_DATA = (DATA_PATH, *_SPLIT_DATA, "--data-args-path", "--per-split-data-args-path")
_BY_SAMPLES = ("--lr-decay-samples", "--lr-warmup-samples", "--rampup-batch-size")


def problems_of_all(run: Run) -> Iterator[str]:
    """Yield a problem for each further argument that breaks a rule of all Megatron versions."""
    options = given(run.options.extra_args)
    least, rate = number(options, "--min-lr"), run.training.learning_rate
    if least is not None and least > rate:
        yield f"extra_args: --min-lr={least:g} is above learning_rate={rate:g}; lower it"
    positions = whole_number(options, "--max-position-embeddings")
    if positions is not None and run.model is not None and positions < run.model.seq_length:
        yield (
            f"extra_args: --max-position-embeddings={positions} is less than "
            f"seq_length={run.model.seq_length}; raise it"
        )


def common_problems(run: Run) -> Iterator[str]:
    """Yield a problem for each further argument that breaks a rule of Megatron 2 and later.

    The rules that Megatron 1 has too (`problems_of_all`) are also checked.
    """
    options = given(run.options.extra_args)
    for problem in _NOT_FOR_RUNS:
        if problem.partition(" ")[0] in options:
            yield f"extra_args: {problem}"
    for option in _BY_SAMPLES:
        # By default, the warm-up has 0 samples.
        if option in options and not (
            option == "--lr-warmup-samples" and whole_number(options, option) == 0
        ):
            yield (
                f"extra_args: {option} counts samples, but train_iters counts iterations; remove "
                f"{option}"
            )
    warmup = whole_number(options, "--lr-warmup-iters") or 0
    given_decay = whole_number(options, "--lr-decay-iters")
    decay = run.training.train_iters if given_decay is None else given_decay
    if decay < 1:
        yield f"extra_args: --lr-decay-iters={decay} must be 1 or more"
    elif warmup >= decay:
        yield (
            f"extra_args: --lr-warmup-iters={warmup} must be less than {decay}, the number of "
            "iterations in which the learning rate decays; lower it, or set --lr-decay-iters"
        )
    yield from problems_of_all(run)


def data_source_problems(run: Run) -> Iterator[str]:
    """Yield a problem if a run has several sources of data, e.g. `data_path` and `--mock-data`.

    `--data-args-path` (a file with paths of data) is reported only together with `data_path` or
    `--data-path`.
    """
    options = given(run.options.extra_args)
    paths = ["data_path"] * (run.options.data_path is not None)
    paths += [DATA_PATH] * (not paths and DATA_PATH in options)
    sources = paths + ["--mock-data"] * ("--mock-data" in options)
    sources += [option for option in _SPLIT_DATA if options.get(option)][:1]
    if paths and "--data-args-path" in options:
        sources.append("--data-args-path")
    if len(sources) > 1:
        yield f"extra_args: {' and '.join(sources)} are several sources of data; keep one of them"


def blend_problems(run: Run) -> Iterator[str]:
    """Yield a problem if --data-path has several values, but not a weight before each prefix.

    A correct example is `--data-path 0.3 /data/a 0.7 /data/b`. A prefix is the path of a data set's
    files without the endings `.bin` and `.idx`. Megatron 2 itself refuses a wrong list late, after
    it has put the model on all GPUs.
    """
    words = given(run.options.extra_args).get(DATA_PATH)
    if words is None or len(words) == 1:
        return
    # Texts that are not numbers become nan, which is not above 0.
    total = sum(map(_weight, words[::2]))
    if len(words) % 2 or not 0 < total < math.inf:
        yield (
            f"extra_args: {DATA_PATH} needs a weight before each path, e.g. "
            f"[{DATA_PATH}, 0.3, /data/a, 0.7, /data/b]"
        )


def _weight(word: str) -> float:
    try:
        weight = float(word)
    except ValueError:
        return math.nan
    return weight if weight >= 0 else math.nan
