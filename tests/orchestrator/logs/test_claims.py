"""Check whether the speeds that a log states agree with the other numbers in the same log."""

import io

import pytest

from orchestrator.logs.claim import Claim
from orchestrator.logs.claims import claims
from orchestrator.logs.figures import NOTHING_GIVEN, Given
from parsers.runs.reading import read
from parsers.summary.run import summarise
from parsers.summary.warmup import Warmup

MEGATRON = """\
using world size: 8, data-parallel-size: 8, tensor-model-parallel size: 1
  num_layers ...................................... 24
  hidden_size ..................................... 2048
  num_attention_heads ............................. 16
  seq_length ...................................... 2048
  padded_vocab_size ............................... 51200
  micro_batch_size ................................ 4
  clip_grad ....................................... 1.0
"""
LINE = (
    " iteration {n:8d}/     100 | elapsed time per iteration (ms): {ms:.1f} |{tflops} "
    "learning rate: 1.0E-04 | global batch size:   256 |{rate} number of skipped iterations:   0 |"
    " number of nan iterations:   0 |\n"
)
# 256 sequences of 2,048 tokens in 4 s on 8 GPUs, by the exact products of this model.
PRODUCTS = 24 * (24 * 2048**2 * 3 + 12 * 2048 * 2048) + 6 * 2048 * 51200
TFLOPS = 256 * 2048 * PRODUCTS / 4 / 8 / 1e12


def claims_of(log: str, given: Given = NOTHING_GIVEN) -> dict[str, Claim]:
    """Return the claims of a log, by the quantity that they state, e.g. "mfu".

    given: values from the user.
    """
    (run,) = read(io.BytesIO(log.encode()))
    checked = claims(summarise(run, Warmup.parse("none")), given)
    return {claim.quantity: claim for claim in checked}


def megatron(tflops: str = "", rate: str = "") -> str:
    """Return a Megatron log of five steps of 4 s, with a global batch of 256.

    tflops, rate: further fields with TFLOPs or samples per second, inserted into each step's line.
    """
    lines = (LINE.format(n=n, ms=4000.0, tflops=tflops, rate=rate) for n in range(1, 6))
    return MEGATRON + "".join(lines)


@pytest.mark.parametrize(("stated", "contradicted"), [(64.0, False), (64.1, False), (32.0, True)])
def test_samples_per_second_are_the_batch_over_the_seconds(
    stated: float, contradicted: bool
) -> None:
    """Samples per second must be the global batch over the step's seconds, except for rounding."""
    claim = claims_of(megatron(rate=f" samples per second: {stated:.3f} |"))["samples_per_second"]
    assert (claim.stated, claim.computed, claim.contradicted) == (stated, 64.0, contradicted)
    assert claim.formula == "a batch of 256 in 4 s"


@pytest.mark.parametrize(("stated", "contradicted"), [("1.9", False), ("1.930", True)])
def test_a_small_rate_may_differ_by_half_of_its_last_digit(
    stated: str, *, contradicted: bool
) -> None:
    """2 / 1.067 s is 1.87 samples/s: 1.9 may be this rate, but 1.930, 3 % more, is not."""
    lines = (LINE.format(n=n, ms=1067.0, tflops="", rate="{}") for n in range(1, 6))
    rates = [stated[:-1] + digit for digit in "11000"] if contradicted else [stated] * 5
    log = MEGATRON + "".join(
        line.format(f" samples per second: {rate} |")
        for line, rate in zip(lines, rates, strict=True)
    )
    claim = claims_of(log.replace("size:   256", "size:     2"))["samples_per_second"]
    assert claim.contradicted is contradicted


def test_samples_per_second_that_give_the_batch_are_not_checked() -> None:
    """If the log has no batch, it is computed from samples/s, and the samples/s are not a claim."""
    log = megatron(rate=" samples per second: 64.000 |").replace("global batch size:   256 |", "")
    (run,) = read(io.BytesIO(log.encode()))
    assert summarise(run, Warmup.parse("none")).global_batch_size == 256
    assert "samples_per_second" not in claims_of(log)


@pytest.mark.parametrize(("factor", "contradicted"), [(1.0, False), (1.01, False), (2.5, True)])
def test_tflops_are_those_of_any_known_convention(factor: float, contradicted: bool) -> None:
    """TFLOPs in a log are accepted if they agree with any known convention.

    E.g. one that counts the exact matrix products of the forward and the backward pass.
    """
    log = megatron(tflops=f" throughput per GPU (TFLOP/s/GPU): {TFLOPS * factor:.1f} |")
    claim = claims_of(log)["tflops_per_gpu"]
    assert claim.stated == pytest.approx(TFLOPS * factor, abs=0.05)
    assert claim.contradicted is contradicted
    assert claim.formula.endswith("in 4 s on 8 GPUs")


CORE = "  log_throughput .................................. True\n"
RECOMPUTED = "  recompute_granularity ........................... full\n"
CAUSAL = TFLOPS * (1 - 24 * 6 * 2048 * 2048 / PRODUCTS)


@pytest.mark.parametrize(
    ("arguments", "tflops", "contradicted"),
    [
        (CORE, TFLOPS, False),
        (CORE, CAUSAL, False),
        (CORE + RECOMPUTED, CAUSAL, False),
        (CORE, TFLOPS * 0.88, True),  # BigScience's approximation
        (CORE, CAUSAL * 1.15, True),
        (CORE + RECOMPUTED, CAUSAL * 1.15, True),
        (CORE + RECOMPUTED, TFLOPS * 1.3, True),  # the exact products, with recomputed ones
        (CORE + "  sft ............................................. True\n", TFLOPS * 0.88, False),
        (CORE + "  mtp_num_layers .................................. 1\n", TFLOPS * 0.88, False),
    ],
)
def test_tflops_of_megatron_core_are_those_of_its_own_conventions(
    arguments: str, tflops: float, *, contradicted: bool
) -> None:
    """Megatron core counts attention once or half, and no recomputation: nothing else agrees.

    Other counts are accepted for packed samples, whose lengths the log does not contain, and for
    multi-token prediction.
    """
    log = arguments + megatron(f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |")
    assert claims_of(log)["tflops_per_gpu"].contradicted is contradicted


def test_the_note_names_a_convention_that_is_not_the_programs() -> None:
    """If the TFLOPs agree with a convention that the program does not use, the note names it."""
    log = CORE + RECOMPUTED + megatron(f" throughput per GPU (TFLOP/s/GPU): {TFLOPS * 1.3:.1f} |")
    claim = claims_of(log)["tflops_per_gpu"]
    assert claim.note == (
        "the program does not count by the convention that agrees: exact matrix products, "
        "including recomputed ones"
    )


def test_the_claims_of_each_launch_are_checked() -> None:
    """A claim that is wrong only after a restart is contradicted, however short this launch is."""
    right, wrong = (
        f" throughput per GPU (TFLOP/s/GPU): {TFLOPS * factor:.1f} |" for factor in (1, 2)
    )
    restart = "  successfully loaded checkpoint from /x at iteration 5\n" + "".join(
        LINE.format(n=n, ms=4000.0, tflops=wrong, rate="") for n in (6, 7, 8)
    )
    claim = claims_of(megatron(tflops=right) + restart)["tflops_per_gpu"]
    assert claim.stated == pytest.approx(TFLOPS * 2, abs=0.05)
    assert claim.computed == pytest.approx(TFLOPS, rel=1e-3)
    assert claim.contradicted


def test_twice_the_tflops_of_a_model_with_experts_are_contradicted() -> None:
    """The parameters of experts that a token does not take are no reason for more TFLOPs."""
    experts = "  num_experts ..................................... {}\n"
    experts = experts.format(8) + experts.replace("num_experts", "moe_router_topk").format(1)
    products = PRODUCTS + 6 * 24 * 2048 * 8  # with the routers'
    tflops = 256 * 2048 * products / 4 / 8 / 1e12
    for factor, contradicted in ((1, False), (2, True)):
        log = experts + megatron(f" throughput per GPU (TFLOP/s/GPU): {tflops * factor:.1f} |")
        assert claims_of(log)["tflops_per_gpu"].contradicted is contradicted


def test_the_formula_mentions_recomputation_once() -> None:
    """The name of the nearest convention states once that it counts recomputed products."""
    recomputed = "  checkpoint_activations .......................... True\n"
    log = megatron(tflops=f" throughput per GPU (TFLOP/s/GPU): {TFLOPS * 2.5:.1f} |")
    _, _, formula = claims_of(recomputed + log)["tflops_per_gpu"].formula.partition(" FLOPs ")
    assert formula == "(exact matrix products, including recomputed ones) in 4 s on 8 GPUs"


def titan(gpu: str, mfu: float, peak: str = "3.120e+14") -> str:
    """Return a log of torchtitan with 164.7 TFLOP/s and this MFU in per cent.

    peak: the peak in FLOP/s that the log states.
    """
    step = (
        "[rank0]:[titan] 2025-12-13 06:57:02,246 - root - INFO - step: {n:2}  loss: 10.05440  "
        "memory: 16.82GiB(83.61%)  tps: 2,228  tflops: 164.70  mfu: {mfu:.2f}%\n"
    )
    return (
        f"[titan] INFO - CUDA capacity: {gpu} with 31.36GiB memory\n"
        f"[titan] INFO - Peak FLOPS used for computing MFU: {peak}\n"
    ) + "".join(step.format(n=n, mfu=mfu) for n in (10, 20, 30))


def test_an_mfu_over_the_peak_of_another_gpu_is_contradicted() -> None:
    """An MFU that a program computed with the peak of another GPU is contradicted.

    The message has the MFU in the log, the right MFU, and the GPUs whose peak the program used.
    """
    claim = claims_of(titan("NVIDIA GeForce RTX 5090", 52.79))["mfu"]
    assert claim.contradicted
    assert claim.sentence() == (
        "the log states 52.79 % MFU, but 164.7 TFLOP/s divided by 209.5 TFLOP/s (the dense "
        "bf16 peak of the NVIDIA GeForce RTX 5090) is 78.62 % MFU; the log "
        "divides by a peak of 312, the peak of A100 or A800"
    )


@pytest.mark.parametrize(
    ("gpu", "mfu", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 52.79, "3.120e+14"),
        ("NVIDIA GeForce RTX 5090", 78.62, "2.095e+14"),
    ],
)
def test_an_mfu_over_the_own_peak_is_not_contradicted(gpu: str, mfu: float, peak: str) -> None:
    """An MFU relative to the GPU's own peak is accepted."""
    assert not claims_of(titan(gpu, mfu, peak))["mfu"].contradicted


def test_an_mfu_that_does_not_follow_from_the_tflops_is_contradicted() -> None:
    """An MFU is wrong if the TFLOPs and the right peak give another MFU.

    The peak that the program uses, 209.5 TFLOP/s, is the right one. So the message names no other
    peak.
    """
    claim = claims_of(titan("NVIDIA GeForce RTX 5090", 60.0, "2.095e+14"))["mfu"]
    assert claim.sentence() == (
        "the log states 60 % MFU, but 164.7 TFLOP/s divided by 209.5 TFLOP/s (the dense "
        "bf16 peak of the NVIDIA GeForce RTX 5090) is 78.62 % MFU"
    )


def test_a_peak_that_does_not_explain_the_mfu_is_not_its_reason() -> None:
    """If the MFU is not the TFLOPs over the stated peak either, the message names no peak."""
    claim = claims_of(titan("NVIDIA GeForce RTX 5090", 30.0))["mfu"]
    assert claim.contradicted
    assert claim.note is None


@pytest.mark.parametrize(("mfu", "contradicted"), [(52.79, False), (60.0, True)])
def test_an_mfu_on_an_unknown_gpu_is_checked_by_the_peak_in_the_log(
    mfu: float, *, contradicted: bool
) -> None:
    """If the GPU's peak is unknown, an MFU must follow from the peak that the log states."""
    claim = claims_of(titan("NVIDIA GeForce RTX 6090", mfu))["mfu"]
    assert claim.contradicted is contradicted
    assert claim.formula == "164.7 TFLOP/s divided by 312 TFLOP/s (the peak in the log)"


def test_an_mfu_on_an_unknown_gpu_is_checked_against_the_given_peak() -> None:
    """The user may give the peak of a GPU that teralog does not know."""
    log = titan("NVIDIA GeForce RTX 6090", 52.79)
    claim = claims_of(log, Given(peak_tflops=200.0))["mfu"]
    assert claim.contradicted
    assert claim.computed == pytest.approx(0.8235)


@pytest.mark.parametrize(("peak", "computed"), [("9.89e+14", None), ("3.12e+14", 0.2838)])
def test_an_mfu_without_tflops_is_checked_only_by_its_peak(
    peak: str, computed: float | None
) -> None:
    """If the program divides by the right peak, nothing is left to check the MFU with."""
    step = (
        "step {n:05d}/01000 ({n}.00%) | loss: 5.147944 | lrm: 1.00 | dt: 558.89ms | "
        "tok/sec: 58,679 | bf16_mfu: 90.00\n"
    )
    log = f"GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): {peak}\n" + step.format(n=10)
    checked = claims_of(log)
    assert ("mfu" in checked) == (computed is not None)
    if computed is not None:
        assert checked["mfu"].computed == pytest.approx(computed, rel=1e-3)


def nanochat(rate: int = 333_542, mfu: float = 50.92, ranks: int = 8) -> str:
    """Return a log of nanochat, with steps of 1.572 s and 524,288 tokens on 8 H100.

    rate: the tokens per second. ranks: the number of ranks, if it is not 8.
    """
    step = (
        "step {n:05d}/71680 (0.01%) | loss: 8.8 | lrm: 1.00 | dt: 1571.88ms | tok/sec: {rate:,} | "
        "bf16_mfu: {mfu:.2f} | epoch: 1\n"
    )
    return (
        "GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14\n"
        "Estimated FLOPs per token: 1.207960e+10\n"
        "Tokens / micro-batch / rank: 8 x 2048 = 16,384\n"
        f"Tokens / micro-batch: {16_384 * ranks:,}\n"
        f"Total batch size 524,288 => gradient accumulation steps: {32 // ranks}\n"
    ) + "".join(step.format(n=n, rate=rate, mfu=mfu) for n in range(4, 10))


def test_an_mfu_is_checked_by_the_flops_per_token() -> None:
    """If the log states FLOPs per token, they and the tokens/s give the MFU."""
    claim = claims_of(nanochat())["mfu"]
    assert not claim.contradicted
    assert claim.formula == (
        "1.208e+10 FLOPs per token · 333,542 tokens/s on 8 GPUs divided by 989.5 TFLOP/s "
        "(the dense bf16 peak of the NVIDIA H100 80GB HBM3)"
    )
    assert claims_of(nanochat(mfu=58.0))["mfu"].contradicted
    assert claims_of(nanochat(ranks=4))["mfu"].computed == pytest.approx(1.018, rel=1e-3)


def test_tokens_per_second_are_the_tokens_of_an_iteration_over_its_seconds() -> None:
    """The tokens/s of nanochat up to 2025 are those of one micro-batch: its MFU shows this.

    The MFU is right, because it is computed from all tokens.
    """
    assert not claims_of(nanochat())["tokens_per_second"].contradicted
    checked = claims_of(nanochat(rate=83_385))
    assert checked["tokens_per_second"].sentence() == (
        "the log states 83,385 tokens/s, but a batch of 524288 tokens in 1.572 s is 333,542 "
        "tokens/s"
    )
    assert not checked["mfu"].contradicted


def test_rates_that_give_the_step_time_are_not_checked() -> None:
    """Automodel's step times are computed from tokens/s, so its tokens/s are not a claim.

    The steps have different numbers of tokens.
    """
    line = '{{"step": {}, "tps": 800.0, "tps_per_gpu": 100.0, "num_tokens_per_step": {}}}\n'
    log = "".join(line.format(n, 400 if n == 9 else 1600) for n in range(10))
    assert claims_of(log) == {}


def test_large_numbers_are_printed_without_exponents() -> None:
    """A message prints large rates with commas, e.g. 150,000 tokens/s."""
    line = "step {n:05d}/35280 (0.57%) | loss: 5.1 | lrm: 1.00 | dt: 500.00ms | tok/sec: {rate:,}"
    rates = [100_000] * 5 + [150_000]
    log = "".join(
        line.format(n=n, rate=rate) + " | bf16_mfu: 0.00\n" for n, rate in enumerate(rates, 200)
    )
    assert claims_of(log)["tokens_per_second"].sentence() == (
        "the log states 150,000 tokens/s, but the median work (rate · step time) of 6 reports, "
        "divided by the step time of 0.5 s is 100,000 tokens/s"
    )


def test_a_log_without_configuration_has_claims_of_equal_work_only() -> None:
    """If a log has no configuration, the only check is that all steps state the same work.

    The work of a step is its rate times its seconds, in FLOPs or in tokens.
    """
    line = "completed step: {}, seconds: 3.4, TFLOP/s/device: 413.4, Tokens/s/device: 7138.9, "
    log = "".join(line.format(n) + "total_weights: 1, loss: 2.136\n" for n in range(5))
    claims = claims_of(log)
    assert {*claims} == {"tflops_per_gpu", "tokens_per_second_per_gpu"}
    assert not any(claim.contradicted for claim in claims.values())


def test_a_slow_step_with_more_tokens_is_no_contradiction() -> None:
    """If iterations have different numbers of tokens, as with verl, their work is not compared."""
    line = "step:{} - actor/pg_loss:0.5 - timing_s/step:{} - perf/throughput:{}\n"
    steps = [*((n, 50.0, 1000.0) for n in range(9)), (9, 100.0, 530.0)]
    assert claims_of("".join(line.format(*step) for step in steps)) == {}


BRIDGE = "Step Time : {seconds:.2f}s GPU utilization: {tflops:.1f}MODEL_TFLOP/s/GPU\n"


def bridge(*works: float) -> str:
    """Return a log of Megatron-Bridge with one step per number in `works`.

    works: the work of each step in TFLOP per GPU. Each step takes 2 to 9 seconds. The log states
    its work divided by its seconds.
    """
    seconds = [2.0 + (index * 7 % 8) for index in range(len(works))]
    pairs = zip(seconds, works, strict=True)
    return "".join(BRIDGE.format(seconds=each, tflops=work / each) for each, work in pairs)


def test_a_report_of_other_work_than_the_rest_is_contradicted() -> None:
    """If all steps but one have the same FLOPs, the TFLOPs of the log are contradicted.

    The FLOPs of a step are its TFLOP/s times its seconds.
    """
    claim = claims_of(bridge(*[2600.0] * 9))["tflops_per_gpu"]
    assert not claim.contradicted
    claim = claims_of(bridge(*[2600.0] * 8, 3900.0))["tflops_per_gpu"]
    assert claim.contradicted
    assert claim.stated == pytest.approx(1.5 * claim.computed, rel=0.01)
    assert "the median work (rate · step time) of 9 reports" in claim.formula


def test_work_that_differs_at_every_step_gives_no_claim() -> None:
    """If the FLOPs differ from step to step, teralog does not check the rates of the log.

    The FLOPs differ e.g. if samples are packed. A log of three steps is too short for the check.
    """
    assert claims_of(bridge(*(2000.0 + 300 * index for index in range(9)))) == {}
    assert claims_of(bridge(2600.0, 2600.0, 3900.0)) == {}


def test_a_running_average_does_not_contradict_a_slow_step() -> None:
    """If a step takes twice as long as others at almost the same rate, the rate is not checked.

    Such a rate is a running average, not the rate of that step.
    """
    steps = [BRIDGE.format(seconds=2.0, tflops=1300.0) for _ in range(8)]
    assert claims_of("".join(steps) + BRIDGE.format(seconds=4.0, tflops=1290.0)) == {}


TRAINER = """\
***** Running training *****
  Num examples = {examples:,}
  Num Epochs = {epochs:,}
  Total train batch size (w. parallel, distributed & accumulation) = 64
  Total optimization steps = 300
"""
RESULT = (
    "{{'train_runtime': 400.0, 'train_samples_per_second': {samples}, "
    "'train_steps_per_second': {steps}, 'train_loss': 2.5, 'epoch': 3.0}}\n"
)
RESUMED = "  Continuing training from global step 100\n"
ITERABLE = 2**63 - 1


@pytest.mark.parametrize(
    ("examples", "epochs", "samples", "steps", "wrong"),
    [
        (6_400, 3, 48.0, 0.75, set()),
        (6_340, 3, 47.55, 0.75, set()),  # the last batch of an epoch is smaller
        (6_400, 3, 48.0, 0.9, {"steps_per_second"}),
        (6_400, 3, 57.6, 0.75, {"samples_per_second"}),
        (6_400, 3, 38.4, 0.75, {"samples_per_second"}),
        (19_200, ITERABLE, 48.0, 0.75, set()),
        (19_200, ITERABLE, 50.0, 0.75, {"samples_per_second"}),
        (800, 3, 6.0, 0.75, set()),  # prompts, each with eight answers
    ],
)
def test_rates_of_the_trainer_times_its_seconds_are_its_steps_and_samples(
    examples: int, epochs: int, samples: float, steps: float, wrong: set[str]
) -> None:
    """300 steps of 64 samples in 400 s are 0.75 steps/s and, but for last batches, 48 samples/s."""
    log = TRAINER.format(examples=examples, epochs=epochs)
    checked = claims_of(log + RESULT.format(samples=samples, steps=steps))
    assert {name for name, claim in checked.items() if claim.contradicted} == wrong
    assert checked["steps_per_second"].formula == "300 steps in 400 s"


def test_small_rates_of_the_trainer_may_be_rounded() -> None:
    """0.0024 steps/s are printed as 0.002."""
    log = TRAINER.format(examples=6_400, epochs=3)
    log += RESULT.format(samples=0.154, steps=0.002).replace("400.0", "125000.0")
    assert not any(claim.contradicted for claim in claims_of(log).values())


def test_a_resumed_training_has_fewer_steps_than_the_trainer_counts() -> None:
    """The Trainer divides all steps by the seconds since the checkpoint: too high a rate."""
    log = TRAINER.format(examples=6_400, epochs=3) + RESUMED
    checked = claims_of(log + RESULT.format(samples=48.0, steps=0.75))
    assert checked["steps_per_second"].sentence() == (
        "the log states 0.75 steps/s, but 200 steps in 400 s is 0.5 steps/s; the program counts "
        "all 300 steps, also those before its checkpoint"
    )
    assert checked["samples_per_second"].computed == 32.0
    right = claims_of(log + RESULT.format(samples=32.0, steps=0.5))
    assert not any(claim.contradicted for claim in right.values())


BAR = (
    "{{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.{step}}}\n"
    " {step}%|#   | {step}/300 [00:50<03:20,  2.50s/it]\n"
)
AGAIN = TRAINER.replace("64\n", "32\n").replace("300", "600")


@pytest.mark.parametrize(
    ("before", "wrong"),
    [
        ("", None),
        # Out of memory: the same training again, with half of the batch.
        ((TRAINER + AGAIN).format(examples=6_400, epochs=3), None),
        (BAR.format(step=150) + BAR.format(step=299), True),
        # The training stopped early.
        (BAR.format(step=10) + BAR.format(step=20), None),
        # Half of the losses are of an earlier launch.
        ((BAR.format(step=150) + BAR.format(step=299)).replace("2.5,", "5.0,"), None),
    ],
    ids=["unknown", "two numbers", "on progress bars", "stopped", "resumed"],
)
def test_the_rates_of_the_trainer_are_checked_if_its_steps_are_certain(
    before: str, *, wrong: bool | None
) -> None:
    """Without a single number of steps, there is nothing to compare the rates with."""
    claim = claims_of(before + RESULT.format(samples=48.0, steps=1.5)).get("steps_per_second")
    assert (claim and claim.contradicted) == wrong
