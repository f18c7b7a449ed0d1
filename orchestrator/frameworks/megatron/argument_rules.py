"""Check the further arguments of Megatron against the parameters of a run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from orchestrator.frameworks.arguments import Given, given, number, whole_number
from orchestrator.frameworks.megatron import argument_pairs, fsdp
from orchestrator.run.model import Run

_NOT_FOR_RUNS = {
    "--yaml-cfg": "puts a file in place of all arguments; say them one by one",
    "--skip-train": "leaves nothing to measure; take it out",
    "--use-checkpoint-args": "takes sizes from a checkpoint; the run says them",
    "--warmup": "is no longer valid; use --lr-warmup-fraction",
    "--encoder-seq-length": "is what seq_length says; take it out",
    "--encoder-num-layers": "is what num_layers says; take it out",
}
_SPLIT_DATA = ("--train-data-path", "--valid-data-path", "--test-data-path")
# Options that give Megatron core data of the user's own.
OWN_DATA = (*_SPLIT_DATA, "--data-args-path", "--per-split-data-args-path")
_LEVELS = "--hierarchical-context-parallel-sizes"
_BY_SAMPLES = ("--lr-decay-samples", "--lr-warmup-samples", "--rampup-batch-size")


def problems_of_all(run: Run) -> Iterator[str]:
    """Yield which rules of every Megatron a run breaks, 1.1.5 among them."""
    options = given(run.options.extra_args)
    if "--save" in options and "--save-interval" not in options:
        yield "extra_args: --save needs --save-interval"
    least, rate = number(options, "--min-lr"), run.training.learning_rate
    if least is not None and least > rate:
        yield f"extra_args: --min-lr={least:g} is above learning_rate={rate:g}"
    positions = whole_number(options, "--max-position-embeddings")
    if positions is not None and run.model is not None and positions < run.model.seq_length:
        yield (
            f"extra_args: --max-position-embeddings={positions} is less than "
            f"seq_length={run.model.seq_length}"
        )


def common_problems(run: Run) -> Iterator[str]:
    """Yield which rules of every Megatron since 2 a run breaks, which trains by iterations."""
    options = given(run.options.extra_args)
    for option, instead in _NOT_FOR_RUNS.items():
        if option in options:
            yield f"extra_args: {option} {instead}"
    for option in _BY_SAMPLES:
        # No samples of warm-up are what it has by default.
        if option in options and not (
            option == "--lr-warmup-samples" and whole_number(options, option) == 0
        ):
            yield (
                f"extra_args: {option} is for a training by samples, and this one is by "
                "iterations, as train_iters says; take it out"
            )
    fraction = number(options, "--lr-warmup-fraction")
    if fraction is not None and not 0 <= fraction < 1:
        yield f"extra_args: --lr-warmup-fraction={fraction:g} must be at least 0 and less than 1"
    if "--lr-warmup-fraction" in options and whole_number(options, "--lr-warmup-iters"):
        yield "extra_args: --lr-warmup-fraction and --lr-warmup-iters say the same; take one out"
    warmup = whole_number(options, "--lr-warmup-iters") or 0
    given_decay = whole_number(options, "--lr-decay-iters")
    decay = run.training.train_iters if given_decay is None else given_decay
    if decay < 1:
        yield f"extra_args: --lr-decay-iters={decay} must be 1 or more"
    elif warmup >= decay:
        yield (
            f"extra_args: --lr-warmup-iters={warmup} must be less than the {decay} iterations that "
            "the learning rate decays"
        )
    yield from problems_of_all(run)
    yield from argument_pairs.common_pair_problems(run)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A run of Megatron core as its rules see it; sizes not given are as the program has them."""

    run: Run
    options: Given

    def _number(self, option: str, otherwise: int) -> int:
        number = whole_number(self.options, option)
        return otherwise if number is None else number

    @property
    def tensor(self) -> int:
        return self.run.parallelism.tensor_parallel_size

    @property
    def pipeline(self) -> int:
        return self.run.parallelism.pipeline_parallel_size

    @property
    def experts(self) -> int:
        return self._number("--num-experts", 0)

    @property
    def expert_parallel(self) -> int:
        return max(1, self._number("--expert-model-parallel-size", 1))

    @property
    def expert_tensor(self) -> int:
        return max(1, self._number("--expert-tensor-parallel-size", self.tensor))

    @property
    def expert_ranks(self) -> int:
        return self.expert_tensor * self.expert_parallel * self.pipeline

    @property
    def query_groups(self) -> int | None:
        grouped = "--group-query-attention" in self.options
        return self._number("--num-query-groups", 1) if grouped else None


# When a run breaks a rule, and the sentence. The rules are those of validate_args, of
# TransformerConfig, initialize_model_parallel and MoELayer.
_CORE: tuple[tuple[Callable[[_Asked], bool], str], ...] = (
    (
        lambda asked: (
            "--tp-comm-overlap" in asked.options
            and asked.run.options.sequence_parallel
            and asked.tensor == 1
        ),
        "--tp-comm-overlap needs tensor_parallel_size of 2 or more, as sequence_parallel does",
    ),
    (
        lambda asked: asked.expert_parallel > 1 and not asked.experts,
        "--expert-model-parallel-size={asked.expert_parallel} needs --num-experts",
    ),
    (
        lambda asked: asked.experts % asked.expert_parallel != 0,
        (
            "--num-experts={asked.experts} is not divisible by "
            "--expert-model-parallel-size={asked.expert_parallel}"
        ),
    ),
    (
        lambda asked: asked.expert_parallel > 1 and asked.run.training.precision == "fp16",
        (
            "--expert-model-parallel-size={asked.expert_parallel} does not go with precision=fp16; "
            "try bf16"
        ),
    ),
    (
        lambda asked: asked.experts > 0 and asked.run.world_size % asked.expert_ranks != 0,
        (
            "world_size={asked.run.world_size} is not divisible by --expert-tensor-parallel-size*"
            "--expert-model-parallel-size*pipeline_parallel_size={asked.expert_tensor}*"
            "{asked.expert_parallel}*{asked.pipeline}="
            "{asked.expert_ranks}"
        ),
    ),
    (
        lambda asked: (
            asked.experts > 0 and asked.tensor > 1 and not asked.run.options.sequence_parallel
        ),
        "--num-experts with tensor_parallel_size={asked.tensor} needs sequence_parallel=true",
    ),
    (
        lambda asked: (
            asked.experts > 0
            and asked.expert_tensor > 1
            and "--disable-bias-linear" not in asked.options
        ),
        (
            "--num-experts with --expert-tensor-parallel-size={asked.expert_tensor}, which is "
            "tensor_parallel_size where it is not given, needs --disable-bias-linear"
        ),
    ),
    (
        lambda asked: asked.query_groups is not None and asked.query_groups % asked.tensor != 0,
        (
            "--num-query-groups={asked.query_groups} is not divisible by "
            "tensor_parallel_size={asked.tensor}"
        ),
    ),
)


def core_problems(run: Run) -> Iterator[str]:
    """Yield which rules of Megatron core a run breaks by its further arguments."""
    asked = _Asked(run, given(run.options.extra_args))
    for broken, sentence in _CORE:
        if broken(asked):
            yield f"extra_args: {sentence.format(asked=asked)}"
    yield from argument_pairs.core_pair_problems(run)
    yield from fsdp.problems(run)
    yield from _data_problems(asked)
    yield from _weight_decay_problems(asked.options)
    yield from _context_problems(asked)


def _context_problems(asked: _Asked) -> Iterator[str]:
    levels, ranks = asked.options.get(_LEVELS), asked.run.parallelism.context_parallel_size
    if levels and all(level.isdecimal() for level in levels):
        product = prod(map(int, levels))
        if product != ranks:
            sizes = "*".join(levels)
            yield f"extra_args: {_LEVELS} {sizes}={product} must be context_parallel_size={ranks}"


def _data_problems(asked: _Asked) -> Iterator[str]:
    """Yield that a run has several sources of data.

    A file of paths goes without `data_path`; files of each split are not looked at beside it.
    """
    options, has_path = asked.options, asked.run.options.data_path is not None
    sources = ["data_path"] * has_path + ["--mock-data"] * ("--mock-data" in options)
    sources += [option for option in _SPLIT_DATA if options.get(option)][:1]
    if has_path and "--data-args-path" in options:
        sources.append("--data-args-path")
    if len(sources) > 1:
        yield f"extra_args: {' and '.join(sources)} are several sources of data; keep one of them"


def _weight_decay_problems(options: Given) -> Iterator[str]:
    style = " ".join(options.get("--weight-decay-incr-style", ("constant",)))
    for end in ("--start-weight-decay", "--end-weight-decay"):
        if style != "constant" and end not in options:
            yield f"extra_args: --weight-decay-incr-style {style} needs {end}"
        elif style == "constant" and end in options:
            yield f"extra_args: {end} needs --weight-decay-incr-style linear or cosine"
