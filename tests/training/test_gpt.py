"""Train the project's GPT on two CPU ranks, and compare its model with the formulas."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from forked_ranks import train_forked
from launched import PARAMETERS, SHAPE, TORCHRUN, Finished, environment, finish, options, start
from once import made_once

torch = pytest.importorskip("torch")

from plain_loop import plain_losses  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from orchestrator.workloads import gpt, gpt_model  # noqa: E402
from orchestrator.workloads.settings import Settings  # noqa: E402

pytestmark = pytest.mark.train

LEARNING_RATE = 0.01  # high enough that a few iterations move the loss by far more than TOLERANCE
TOLERANCE = 5e-4  # from the reference, so 1e-3 from each other
TRAIN_ITERS = 6
CHOSEN = {"train_iters": TRAIN_ITERS, "learning_rate": LEARNING_RATE}
MODULE = ["-m", "teralog.gpt"]
OFFLOAD = {"offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}}
MAIN = "orchestrator.workloads.gpt:gpt_main"
STRATEGIES = ("ddp", "zero0", "zero1", "zero2", "zero3", "zero3-offload")

# Further runs of ddp and zero3: additional options, and the JSON of DeepSpeed.
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "saving memory": (
        {"micro_batch_size": 2, "num_microbatches": 2, "activation_checkpointing": True},
        {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2},
    ),
    "bf16": ({"precision": "bf16"}, {"bf16": {"enabled": True}}),
}


def arguments(strategy: str = "ddp", **changes: object) -> list[str]:
    """Return the command line that trains a tiny model.

    changes: values of options that replace the defaults; True gives an option without a value.
    """
    return ["--strategy", strategy, *options(SHAPE | CHOSEN | changes)]


def deepspeed_config(path: Path, stage: int, **changes: object) -> Path:
    """Write a DeepSpeed JSON file; return its path.

    Its optimizer is that of strategy ddp, and all timers are on. stage: the ZeRO stage.
    changes: sections that replace those of the file.
    """
    adam = {"betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.01, "torch_adam": True}
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 1,
        "zero_optimization": {"stage": stage},
        "optimizer": {"type": "AdamW", "params": {"lr": LEARNING_RATE, **adam}},
        "log_level": "info",
        "steps_per_print": 1,
        "wall_clock_breakdown": True,
    }
    path.write_text(json.dumps(config | changes), encoding="utf-8")
    return path


def train(*command: str, launcher: Sequence[str] = TORCHRUN) -> Finished:
    """Run the training program to its end."""
    return finish(start([*launcher, *MODULE, *command]))


@pytest.fixture(scope="module", params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    """Return each strategy of the gpt program in turn."""
    return str(request.param)


def train_all(folder: Path) -> dict[str, Finished]:
    """Train on two ranks with each strategy; with ddp and zero3, also train each of VARIANTS.

    Returns the results by the names of the trainings, e.g. "zero3 bf16".
    """
    commands = {"ddp": arguments()}
    for name in STRATEGIES[1:]:
        stage, _, offload = name.partition("-")
        zero = {"stage": int(stage[-1])} | (OFFLOAD if offload else {})
        config = deepspeed_config(folder / f"{name}.json", 0, zero_optimization=zero)
        commands[name] = arguments(stage, deepspeed_config=config)
    for title, (changes, sections) in VARIANTS.items():
        config = deepspeed_config(folder / f"{title}.json", 3, **sections)
        commands[f"ddp {title}"] = arguments(**changes)
        commands[f"zero3 {title}"] = arguments("zero3", deepspeed_config=config, **changes)
    ended = train_forked(MAIN, [*commands.values()], load=["deepspeed"])
    return dict(zip(commands, ended, strict=True))


@pytest.fixture(scope="module")
def all_trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """Return the results of all trainings by their names.

    A name is a strategy, or a strategy and a variant.
    """
    pytest.importorskip("deepspeed")
    return made_once(tmp_path_factory, "gpt", train_all)


@pytest.fixture(scope="module")
def trained(strategy: str, all_trained: dict[str, Finished]) -> Finished:
    """Return the result of a training on two ranks, for each strategy in turn."""
    return all_trained[strategy]


def settings(**changes: Any) -> Settings:
    """Return the settings of a tiny model."""
    return gpt.parse_arguments(arguments(**changes))


@pytest.fixture(scope="module")
def reference_loss() -> float:
    """Return the final loss of a plain loop, without DDP or ZeRO, over the tokens of both ranks.

    The fixture asserts that this loss differs much from the first loss. Otherwise an untrained
    model would have nearly the same loss.
    """
    losses = plain_losses(settings(), ranks=2)
    assert abs(losses[-1] - losses[0]) > 50 * TOLERANCE
    return losses[-1]


@pytest.mark.parametrize(
    ("num_layers", "hidden_size", "ffn_hidden_size", "vocab_size", "seq_length", "parameters"),
    [
        (2, 64, 256, 512, 64, PARAMETERS),
        (1, 32, 128, 100, 16, 12 * 32**2 + 13 * 32 + 100 * 32 + 16 * 32 + 2 * 32),
        (3, 48, 96, 300, 20, 3 * (4 * 48**2 + 4 * 48 + 2 * 48 * 96 + 96 + 5 * 48) + 322 * 48),
        (12, 768, 3072, 50257, 1024, 124_439_808),
        (48, 1600, 6400, 50257, 1024, 1_557_611_200),
    ],
)
def test_the_parameter_count_is_that_of_the_formula(
    num_layers: int,
    hidden_size: int,
    ffn_hidden_size: int,
    vocab_size: int,
    seq_length: int,
    parameters: int,
) -> None:
    """The formula for the number of parameters agrees with the model and GPT-2's published sizes.

    With l layers, hidden size h, hidden size f of the feed-forward layers, vocabulary size v and
    sequence length s, it is l(4h² + 4h + 2hf + f + h + 4h) + vh + sh + 2h.
    """
    shape = settings(
        num_layers=num_layers,
        hidden_size=hidden_size,
        ffn_hidden_size=ffn_hidden_size,
        vocab_size=vocab_size,
        seq_length=seq_length,
    )
    with torch.device("meta"):
        model = gpt_model.GPT(shape)
    l, h, f, v, s = num_layers, hidden_size, ffn_hidden_size, vocab_size, seq_length  # noqa: E741
    formula = l * (4 * h**2 + 4 * h + 2 * h * f + f + h + 4 * h) + v * h + s * h + 2 * h
    assert sum(weight.numel() for weight in model.parameters()) == formula == parameters


@pytest.mark.parametrize("activation_checkpointing", [False, True])
def test_the_flop_counter_agrees_with_the_formula(activation_checkpointing: bool) -> None:
    """PyTorch counts as many FLOPs in a forward and a backward pass as the formula gives.

    With B sequences of a micro-batch, sequence length s, l layers, hidden size h and vocabulary
    size v, the formula is 72·B·s·l·h²(1 + s/(6h) + v/(12lh)). Recomputation adds
    24·B·s·l·h²(1 + s/(6h)).
    """
    checkpointing = {"activation_checkpointing": True} if activation_checkpointing else {}
    shape = settings(**checkpointing)
    model = gpt_model.build_model(shape, torch.device("cpu"), None, None)
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        model(gpt_model.dummy_tokens(shape, iteration=1, rank=0)[0]).backward()
    b, s, l, h, v = 4, 64, 2, 64, 512  # noqa: E741
    forward = 24 * b * s * l * h**2 + 4 * b * s**2 * l * h
    head = 2 * b * s * h * v
    passes = 4 if activation_checkpointing else 3
    assert counter.get_total_flops() == passes * forward + 3 * head


@pytest.mark.parametrize("program", ["gpt", "hf_gpt"])
def test_a_copy_of_the_folder_is_all_that_is_needed(program: str, tmp_path: Path) -> None:
    """A copy of the workload's folder runs on a machine without teralog."""
    shutil.copytree(Path(gpt.__file__).parent, tmp_path / "copied")
    done = subprocess.run(
        [sys.executable, "-m", f"copied.{program}", "--help"],
        cwd=tmp_path,
        env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(f"usage: {program}.py "), done.stderr


def test_tokens_differ_between_ranks_iterations_and_seeds_only() -> None:
    """Tokens depend on the rank, the iteration and the seed, but not on the micro-batch size."""
    tokens = gpt_model.dummy_tokens(settings(), 1, 0)
    cut = gpt_model.dummy_tokens(settings(micro_batch_size=2, num_microbatches=2), 1, 0)
    others = [
        gpt_model.dummy_tokens(settings(), 2, 0),
        gpt_model.dummy_tokens(settings(), 1, 1),
        gpt_model.dummy_tokens(settings(seed=1235), 1, 0),
    ]
    assert torch.equal(tokens.flatten(0, 1), cut.flatten(0, 1))
    assert not any(torch.equal(tokens, other) for other in others)


def test_every_strategy_reports_its_start_and_its_end(strategy: str, trained: Finished) -> None:
    """With every strategy, the first and the last line of the log have the documented form."""
    version = "" if strategy == "ddp" else r" \| deepspeed \S+"
    assert re.fullmatch(
        rf"\[teralog\] start \| strategy {strategy.partition('-')[0]} \| world_size 2"
        r" \| backend gloo \| device cpu \| precision fp32"
        rf" \| parameters {PARAMETERS} \| torch \S+{version}",
        trained.reports[0],
    )
    assert re.fullmatch(
        rf"\[teralog\] finished \| iterations {TRAIN_ITERS} \| train_seconds \d+\.\d{{6}}"
        r" \| final_loss \d+\.\d{6} \| max_memory_allocated_gib \d+\.\d{3}",
        trained.reports[-1],
    )
    assert trained.exit_code == 0


def test_every_strategy_has_the_same_loss(trained: Finished, reference_loss: float) -> None:
    """Every strategy, also with partitioned or offloaded states, has the loss of a plain loop."""
    assert trained.final_loss == pytest.approx(reference_loss, abs=TOLERANCE)


def test_every_iteration_has_a_line(strategy: str, trained: Finished) -> None:
    """Each iteration has a line; with ZeRO, DeepSpeed's timers print its times."""
    if strategy == "ddp":
        form = (
            r"\[teralog\] iteration (\d+)/6 \| step_seconds (\d+\.\d{6})"
            r" \| samples_per_second (\d+\.\d\d) \| loss \d+\.\d{6}"
            r" \| memory_allocated_gib \d+\.\d{3} \| max_memory_allocated_gib \d+\.\d{3}"
        )
        lines = [re.fullmatch(form, line) for line in trained.reports[1:-1]]
        assert [line and line[1] for line in lines] == ["1", "2", "3", "4", "5", "6"]
        for line in lines:
            assert line is not None
            assert float(line[3]) == pytest.approx(8 / float(line[2]), rel=0.01)
    else:
        form = r"\[teralog\] iteration (\d+)/6 \| loss (\d+\.\d{6}) \| mean over ranks"
        lines = [re.fullmatch(form, line) for line in trained.reports[1:-1]]
        assert [line and line[1] for line in lines] == ["1", "2", "3", "4", "5", "6"]
        assert lines[-1] is not None
        assert float(lines[-1][2]) == trained.final_loss
        assert re.findall(r"\] step=(\d+), skipped=0", trained.stdout)[-1] == str(TRAIN_ITERS)
        assert len(re.findall(r"time \(ms\) \| fwd: ", trained.stdout)) == TRAIN_ITERS
        assert "RunningAvgSamplesPerSec=" in trained.stdout


@pytest.mark.parametrize("name", ["ddp", "zero3"])
def test_saving_memory_does_not_change_the_loss(
    name: str, all_trained: dict[str, Finished], reference_loss: float
) -> None:
    """Gradient accumulation and recomputation do not change the loss."""
    run = all_trained[f"{name} saving memory"]
    assert run.final_loss == pytest.approx(reference_loss, abs=TOLERANCE)


@pytest.mark.parametrize("name", ["ddp", "zero3"])
def test_bf16_trains(name: str, all_trained: dict[str, Finished], reference_loss: float) -> None:
    """In bf16 the loss is near that of fp32, but not equal."""
    run = all_trained[f"{name} bf16"]
    assert " | precision bf16 | " in run.reports[0]
    assert run.final_loss == pytest.approx(reference_loss, abs=0.05)
    assert run.final_loss != reference_loss


def free_job_id() -> int:
    """Return a job id for which the port (20,000 plus the id) is free."""
    for job_id in range(4_321, 10_000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 20_000 + job_id)):
                return job_id
    raise AssertionError("no port is free")


def slurm_tasks(folder: Path, *command: str) -> list[Finished]:
    """Run a command in two processes with the variables that srun sets; return their results.

    A fake scontrol expands the host list.
    """
    job_id = str(free_job_id())
    scontrol = folder / "scontrol"
    hosts = '[ "$*" = "show hostnames node[1-2]" ] && printf "127.0.0.1\\nnode2\\n"'
    scontrol.write_text(f"#!/bin/sh\n{hosts}\n", encoding="utf-8")
    scontrol.chmod(0o755)
    tasks = [
        start(
            [sys.executable, *MODULE, *command],
            PATH=f"{folder}:{environment()['PATH']}",
            SLURM_PROCID=str(rank),
            SLURM_LOCALID=str(rank),
            SLURM_NTASKS="2",
            SLURM_JOB_ID=job_id,
            SLURM_JOB_NODELIST="node[1-2]",
        )
        for rank in (0, 1)
    ]
    return [finish(task) for task in tasks]


def test_slurm_variables_are_enough(reference_loss: float, tmp_path: Path) -> None:
    """Under srun, ranks, address and port are read from Slurm's variables."""
    first, second = slurm_tasks(tmp_path, *arguments())
    assert first.final_loss == pytest.approx(reference_loss, abs=TOLERANCE)
    assert (second.exit_code, second.stdout) == (0, "")


def test_one_process_trains_alone_and_a_loss_may_be_nan() -> None:
    """One process can train without a launcher; a diverging run ends normally with loss nan."""
    run = train(*arguments(learning_rate=1e30), launcher=[sys.executable])
    assert " | world_size 1 | " in run.reports[0]
    assert len(run.reports) == TRAIN_ITERS + 2
    assert " | loss nan | " in run.reports[-2]
    assert " | final_loss nan | " in run.reports[-1]


def test_a_mistake_is_reported_once_and_ends_every_rank(tmp_path: Path) -> None:
    """For a user's mistake, only rank 0 prints a sentence, and all ranks exit with 1."""
    first, second = slurm_tasks(tmp_path, *arguments(precision="fp16"))
    sentence = "gpt.py: --precision fp16 does not train on the CPU; try bf16, fp32 or a GPU\n"
    assert (first.exit_code, first.stdout, first.stderr) == (1, "", sentence)
    assert (second.exit_code, second.stdout, second.stderr) == (1, "", "")


def test_a_launcher_does_not_swallow_the_sentence() -> None:
    """Under torchrun, the error message of rank 0 is printed.

    The other ranks wait before they end: torchrun stops all ranks when the first rank ends.
    """
    run = train(*arguments(hidden_size=66))
    assert run.exit_code == 1
    assert run.stderr.count("gpt.py: ") == 1


@pytest.fixture
def rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variables that make this process the only rank; restore them after the test."""
    for name, text in {"RANK": "0", "LOCAL_RANK": "0", "DS_ACCELERATOR": "cpu"}.items():
        monkeypatch.setenv(name, text)


@pytest.mark.usefixtures("rank_0")
@pytest.mark.parametrize(
    ("strategy_name", "json_changes", "changes", "sentence"),
    [
        (
            "ddp",
            None,
            {"hidden_size": 66},
            "--hidden-size 66 is not divisible by --num-attention-heads 4; change one of them",
        ),
        (
            "zero2",
            {"fp16": {"enabled": True}},
            {"precision": "fp16"},
            "--precision fp16 does not train on the CPU; try bf16, fp32 or a GPU",
        ),
        ("zero2", None, {}, "--strategy zero2 needs --deepspeed-config FILE"),
        (
            "zero2",
            {"zero_optimization": {"stage": 1}},
            {},
            "ds_config.json: zero_optimization.stage is 1, but the arguments give 2",
        ),
        (
            "zero2",
            {},
            {"micro_batch_size": 8},
            "ds_config.json: train_micro_batch_size_per_gpu is 4, but the arguments give 8",
        ),
        (
            "zero2",
            {},
            {"num_microbatches": 2},
            "ds_config.json: gradient_accumulation_steps is 1, but the arguments give 2",
        ),
        (
            "zero2",
            {"bf16": {"enabled": True}},
            {},
            "ds_config.json: bf16.enabled is True, but the arguments give False",
        ),
        (
            "zero2",
            {"bf16": True},
            {"precision": "bf16"},
            "ds_config.json: bf16.enabled is None, but the arguments give True",
        ),
        ("zero2", {}, {}, "DeepSpeed is not installed; try `pip install deepspeed`"),
    ],
)
def test_a_mistake_is_one_sentence(
    strategy_name: str,
    json_changes: dict[str, object] | None,
    changes: dict[str, object],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For a user's mistake, main returns 1 and prints one sentence that explains the problem."""
    monkeypatch.setitem(sys.modules, "deepspeed", None)  # as if it were not installed
    if json_changes is not None:
        changes["deepspeed_config"] = deepspeed_config(
            tmp_path / "ds_config.json", 2, **json_changes
        )
    assert gpt.gpt_main(arguments(strategy_name, **changes)) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("gpt.py: ")
    assert error.count("\n") == 1


@pytest.mark.usefixtures("rank_0")
@pytest.mark.parametrize("text", [None, "{", "[1]"])
def test_an_unreadable_json_is_one_sentence(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a JSON file is missing, cut off or contains no object, one sentence names the file."""
    path = tmp_path / "ds_config.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert gpt.gpt_main(arguments("zero1", deepspeed_config=path)) == 1
    assert f"gpt.py: {path}: cannot be read as DeepSpeed's JSON: " in capsys.readouterr().err


@pytest.mark.usefixtures("rank_0")
@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there")
def test_missing_cuda_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """If the user asks for CUDA without a GPU, one sentence reports it; the CPU is not used."""
    assert gpt.gpt_main(arguments(device="cuda")) == 1
    assert "--device cuda: torch finds no CUDA device here" in capsys.readouterr().err


def test_a_host_list_that_cannot_be_read_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without MASTER_ADDR and without scontrol, one sentence asks the user to set MASTER_ADDR."""
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    slurm = {"PROCID": "0", "NTASKS": "2", "LOCALID": "0", "JOB_ID": "7", "JOB_NODELIST": "node1"}
    for name, text in slurm.items():
        monkeypatch.setenv(f"SLURM_{name}", text)
    for name in ("WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpt.gpt_main(arguments()) == 1
    assert "`scontrol show hostnames node1` names no host" in capsys.readouterr().err
