"""Train GPT-2 with Hugging Face's Trainer on two CPU ranks, and check what it prints."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from forked_ranks import train_forked
from launched import PARAMETERS, SHAPE, Finished, options
from once import made_once

from parsers.formats.table import ALL_FORMATS
from parsers.records import RunTotals, Step
from parsers.scan.reader import read_records

torch = pytest.importorskip("torch", reason="needs the train extra")

from orchestrator.workloads import hf_gpt  # noqa: E402
from orchestrator.workloads.settings import settings_of  # noqa: E402

pytestmark = pytest.mark.train

MAIN = "orchestrator.workloads.hf_gpt:hf_gpt_main"
TRAIN_ITERS = 6
TOLERANCE = 5e-4
# With this rate, these few iterations change the loss by far more than TOLERANCE.
CHOSEN = {"train_iters": TRAIN_ITERS, "learning_rate": 0.01}
OFFLOAD = {"offload_optimizer": {"device": "cpu"}}
WHOLE_OFFLOAD = OFFLOAD | {"offload_param": {"device": "cpu"}}
AUTO = dict.fromkeys(("lr", "betas", "eps", "weight_decay"), "auto")

# The stage, the offloaded states, and further options of the command line.
CASES: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "zero2": (2, {}, {}),
    "zero3-offload": (3, WHOLE_OFFLOAD, {}),
}
# These take minutes in total.
MORE: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "zero0": (0, {}, {}),
    "zero1": (1, {}, {}),
    "zero3": (3, {}, {}),
    "zero2-offload": (2, OFFLOAD, {}),
    "zero2-accumulation": (2, {}, {"micro_batch_size": 2, "num_microbatches": 2}),
    "zero3-checkpointing": (3, {}, {"activation_checkpointing": True}),
}


def configuration(path: Path, stage: int, offload: dict[str, Any], **sections: Any) -> Path:
    """Write a DeepSpeed JSON file with "auto" values, which the Trainer fills in."""
    adam = AUTO if offload else AUTO | {"torch_adam": True}
    config = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "optimizer": {"type": "AdamW", "params": adam},
        "zero_optimization": {"stage": stage, **offload},
        **sections,
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def needs_the_trainer() -> None:
    """Skip the test if a package that the Trainer needs is not installed."""
    for package in ("deepspeed", "transformers", "accelerate"):
        pytest.importorskip(package, reason="needs the extras train and hf")


def arguments(path: Path, **changes: Any) -> list[str]:
    """Return the command line of a tiny model."""
    return options(SHAPE | CHOSEN | changes | {"deepspeed_config": path})


def train_all(
    folder: Path, cases: dict[str, tuple[int, dict[str, Any], dict[str, Any]]]
) -> dict[str, Finished]:
    """Train on two ranks in each case; return the results by the cases' names.

    cases: for each name, a ZeRO stage, the settings of the offloading, and the arguments of the
    program that differ from those of the other cases.
    """
    commands = [
        arguments(configuration(folder / f"{name}.json", stage, offload), **changes)
        for name, (stage, offload, changes) in cases.items()
    ]
    ended = train_forked(MAIN, commands, load=["deepspeed", "transformers", "accelerate"])
    return dict(zip(cases, ended, strict=True))


@pytest.fixture(scope="module", params=CASES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Return the result of a training on two ranks, for each case in turn."""
    needs_the_trainer()
    ended = made_once(tmp_path_factory, "hf-gpt", lambda folder: train_all(folder, CASES))
    return ended[str(request.param)]


@pytest.fixture(scope="module")
def reference_loss() -> float:
    """Return the final loss of a plain loop over the same samples, without Trainer and DeepSpeed.

    The fixture asserts that this loss differs much from the first loss. Otherwise an untrained
    model would have nearly the same loss.
    """
    transformers = pytest.importorskip("transformers", reason="needs the hf extra")
    words = options(SHAPE | CHOSEN | {"deepspeed_config": "none.json"})
    settings = settings_of(vars(hf_gpt.hf_gpt_parser().parse_args(words)), "zero0")
    samples = hf_gpt.DummyTokens(settings, 8 * TRAIN_ITERS)
    torch.manual_seed(0)
    model = hf_gpt.build_hf_model(settings, None, transformers)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01
    )
    # The Trainer shuffles the samples in this order.
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(settings.seed))
    losses = []
    for batch in order.split(8):
        inputs = [samples[int(index)] for index in batch]
        loss = model(
            **{name: torch.stack([sample[name] for sample in inputs]) for name in inputs[0]}
        ).loss
        losses.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert abs(losses[-1] - losses[0]) > 50 * TOLERANCE
    return losses[-1]


def test_the_loss_is_that_of_a_plain_loop(trained: Finished, reference_loss: float) -> None:
    """The final loss is that of a plain loop, even if states are partitioned or offloaded."""
    assert trained.final_loss == pytest.approx(reference_loss, abs=TOLERANCE)


def test_start_iterations_and_end_are_reported(trained: Finished) -> None:
    """The lines about the start, the iterations and the end have the same form as in gpt.py."""
    assert re.fullmatch(
        r"\[teralog\] start \| strategy zero\d \| world_size 2 \| backend gloo \| device cpu"
        rf" \| precision fp32 \| parameters {PARAMETERS} \| torch \S+ \| deepspeed \S+"
        r" \| transformers \S+",
        trained.reports[0],
    )
    assert len(trained.reports) == TRAIN_ITERS + 2


def test_the_logs_readers_find_the_steps_and_the_trainers_result(
    trained: Finished, tmp_path: Path
) -> None:
    """The parsers find the steps and the Trainer's result.

    The training lasts at least as long as all its steps together.
    """
    log = tmp_path / "log"
    log.write_text(trained.stdout)
    records = list(read_records(log, ALL_FORMATS))
    steps = [record for record in records if isinstance(record, Step)]
    assert [step.iteration for step in steps] == list(range(1, TRAIN_ITERS + 1))
    results = [
        record for record in records if isinstance(record, RunTotals) and record.samples_per_second
    ]
    assert len(results) == 2  # the dictionary and the block
    # The block has its seconds cut off after the second decimal.
    cut = 0.01
    for result in results:
        assert result.train_seconds is not None
        assert result.samples_per_second is not None
        seconds = sum(step.step_seconds or math.nan for step in steps)
        assert result.train_seconds > 0.95 * seconds - cut
        whole = 8 * TRAIN_ITERS / result.samples_per_second
        assert whole == pytest.approx(result.train_seconds, rel=0.02, abs=cut)


def test_every_other_way_to_train_it_has_the_same_loss(
    reference_loss: float, tmp_path: Path
) -> None:
    """The other ZeRO stages, accumulation and recomputation give the same loss as a plain loop.

    The test runs only if TERALOG_ALL_STAGES is set.
    """
    needs_the_trainer()
    if "TERALOG_ALL_STAGES" not in os.environ:
        pytest.skip("takes minutes; TERALOG_ALL_STAGES=1 has it run")
    losses = {name: run.final_loss for name, run in train_all(tmp_path, MORE).items()}
    assert losses == pytest.approx(dict.fromkeys(MORE, reference_loss), abs=TOLERANCE)


@pytest.mark.parametrize(
    ("config", "changes", "sentence"),
    [
        (None, {}, "--deepspeed-config FILE is missing"),
        ("{", {}, "cannot be read as DeepSpeed's JSON"),
        ('{"zero_optimization": {"stage": 4}}', {}, "zero_optimization.stage is 4; try 0, 1, 2"),
        ('{"zero_optimization": 3}', {}, "zero_optimization.stage is None"),
        ("{}", {"precision": "fp16"}, "--precision fp16 does not train on the CPU"),
        ("{}", {"hidden_size": 66}, "--hidden-size 66 is not divisible by"),
        ("{}", {}, "transformers is not installed; try `pip install transformers accelerate`"),
    ],
)
def test_a_mistake_is_one_sentence(
    config: str | None,
    changes: dict[str, Any],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For a user's mistake, main returns 1 and prints one sentence that explains the problem."""
    for name, text in {"RANK": "0", "LOCAL_RANK": "0", "DS_ACCELERATOR": "cpu"}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setitem(sys.modules, "transformers", None)  # as if it were not installed
    if config is not None:
        (tmp_path / "ds.json").write_text(config)
        changes = changes | {"deepspeed_config": tmp_path / "ds.json"}
    assert hf_gpt.hf_gpt_main(options(SHAPE | CHOSEN | changes)) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("hf_gpt.py: ")
    assert error.count("\n") == 1


def test_samples_differ_and_are_the_same_for_equal_seeds() -> None:
    """Samples differ from one another, and equal seeds give equal samples.

    The first token of a sample is never predicted, so the test does not compare it.
    """
    words = options(SHAPE | CHOSEN | {"deepspeed_config": "none.json"})
    settings = settings_of(vars(hf_gpt.hf_gpt_parser().parse_args(words)), "zero0")
    samples, again = hf_gpt.DummyTokens(settings, 4), hf_gpt.DummyTokens(settings, 9)
    assert len(samples) == 4
    assert torch.equal(samples[1]["input_ids"], again[1]["input_ids"])
    assert not torch.equal(samples[1]["input_ids"], samples[2]["input_ids"])
    assert samples[1]["labels"][0] == -100
    assert torch.equal(samples[1]["labels"][1:], samples[1]["input_ids"][1:])
