"""`plan --ask-program` shows which runs a program refuses, and which were not checked."""

import json
import sys
from pathlib import Path

import pytest

from orchestrator.submit.asking.handed_words import handed_words

SMALL = Path(__file__).parents[2] / "data" / "small_megatron"
PROFILE = "scheduler: local\ngpus_per_node: 2\ngpu: H100-SXM-80GB\n"
CAMPAIGN = f"""
name: asked
cluster: box.yaml
defaults:
  framework: megatron
  source: {SMALL}
  model: {{num_layers: 4, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}}
  gpus_per_node: 2
  micro_batch_size: 1
"""


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ("program=(/a/b.py)\nargs=(\n  --x 1\n)\n", (["/a/b.py"], ["--x", "1"])),
        (
            "program=(-m pkg)\nargs=(\n  --x 'a b' $'c\\nd'\n)\n",
            (["-m", "pkg"], ["--x", "a b", "c\nd"]),
        ),
        (
            "program=(b.py)\nargs=(\n  --x ''  # why\n  '$(touch here)'\n)\n",
            (["b.py"], ["--x", "", "$(touch here)"]),
        ),
    ],
    ids=["plain", "quoted", "hostile"],
)
def test_the_words_of_a_script_are_split_as_bash_splits_them(
    arrays: str, words: tuple[list[str], list[str]], tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert handed_words(f"#!/bin/bash\n\n{arrays}\nsrun nothing\n") == words
    assert not list(tmp_path.iterdir())


def test_a_script_without_both_arrays_has_no_words():
    with pytest.raises(ValueError, match="substring not found"):
        handed_words("#!/bin/bash\ntrue\n")


@pytest.mark.train
def test_plan_shows_what_the_program_refuses(playground) -> None:
    pytest.importorskip("torch")
    (playground.path / "box.yaml").write_text(f"{PROFILE}python: {sys.executable}\n")
    (playground.path / "campaign.yaml").write_text(CAMPAIGN)
    done = playground.teralog("plan", "campaign.yaml", "--ask-program")
    assert done.returncode == 1
    assert "the program refuses" in done.stderr
    assert "unrecognized arguments: --" in done.stderr
    assert (
        "code that uses packages that this Python lacks was not checked: missing_kernels"
        in done.stderr
    )
    plain = playground.teralog("plan", "campaign.yaml")
    assert "the program refuses" not in plain.stderr


def test_a_source_that_is_not_here_is_named(playground) -> None:
    (playground.path / "box.yaml").write_text(PROFILE)
    (playground.path / "campaign.yaml").write_text(CAMPAIGN.replace(str(SMALL), "nowhere"))
    done = playground.teralog("plan", "campaign.yaml", "--ask-program")
    assert "nowhere/pretrain_gpt.py: does not exist on this machine" in done.stderr
    assert "teralog submit --rehearse" in done.stderr


def test_a_plan_does_not_run_the_set_up_lines_of_a_profile(playground) -> None:
    (playground.path / "box.yaml").write_text(f"{PROFILE}modules: [cuda]\n")
    (playground.path / "campaign.yaml").write_text(CAMPAIGN)
    done = playground.teralog("plan", "campaign.yaml", "--ask-program")
    assert "the modules and set-up lines of cluster box are not loaded here" in done.stderr


WARMUP = {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}
# The overlay of the DeepSpeed configuration, and the refused key, if any.
TRAINER = [
    ({}, None),
    (
        {
            "gradient_clipping": 1.0,
            "optimizer": {"params": {"betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.01}},
        },
        None,
    ),
    ({"scheduler": {"type": "WarmupLR", "params": WARMUP}}, None),
    ({"gradient_clipping": 0.5}, "gradient_clipping"),
    ({"optimizer": {"params": {"weight_decay": 0.1}}}, "optimizer.params.weight_decay"),
    ({"optimizer": {"params": {"betas": [0.9, 0.999]}}}, "optimizer.params.betas"),
    (
        {"scheduler": {"type": "WarmupLR", "params": {**WARMUP, "warmup_max_lr": 0.5}}},
        "scheduler.params.warmup_max_lr",
    ),
    (
        {"scheduler": {"type": "WarmupDecayLR", "params": {**WARMUP, "total_num_steps": 7}}},
        "scheduler.params.total_num_steps",
    ),
    ({"zero_optimization": {"reduce_bucket_size": -1}}, "zero_optimization.reduce_bucket_size"),
]


@pytest.mark.train
def test_a_plan_asks_the_trainer_and_deepspeed(playground) -> None:
    """`plan --ask-program` asks transformers' trainer and DeepSpeed about runs of `hf_gpt.py`.

    The plan shows the keys of a DeepSpeed configuration that these two programs refuse.
    """
    pytest.importorskip("transformers", reason="needs the hf extra")
    pytest.importorskip("deepspeed.utils", reason="needs the train extra", exc_type=ImportError)
    runs = [{"seed": seed, "deepspeed": extra} for seed, (extra, _) in enumerate(TRAINER, 1)]
    campaign = CAMPAIGN.partition("defaults:")[0] + (
        "defaults:\n"
        "  framework: hf_deepspeed\n"
        "  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512,"
        " seq_length: 64}\n"
        "  gpus_per_node: 2\n"
        f"include: {json.dumps(runs)}\n"
    )
    (playground.path / "box.yaml").write_text(f"{PROFILE}python: {sys.executable}\n")
    (playground.path / "campaign.yaml").write_text(campaign)
    done = playground.teralog("plan", "campaign.yaml", "--ask-program", "--json")
    refused = {run["seed"]: run["problems"] for run in json.loads(done.stdout)}
    for seed, (_, key) in enumerate(TRAINER, 1):
        expected = [] if key is None else [f"the program refuses {key}:"]
        assert [problem[: len(expected[0])] for problem in refused[seed]] == expected, seed


@pytest.mark.train
def test_a_rehearsal_ends_with_the_words_of_deepspeed(playground) -> None:
    pytest.importorskip("deepspeed.utils", reason="needs the train extra", exc_type=ImportError)
    campaign = CAMPAIGN.partition("defaults:")[0] + (
        "defaults:\n"
        "  framework: gpt\n"
        "  strategy: zero2\n"
        "  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512,"
        " seq_length: 64}\n"
        "  deepspeed: {communication_data_type: fp12}\n"
    )
    profile = PROFILE.replace("gpu: H100-SXM-80GB\n", "")
    (playground.path / "box.yaml").write_text(f"{profile}python: {sys.executable}\n")
    (playground.path / "campaign.yaml").write_text(campaign)
    done = playground.teralog("submit", "campaign.yaml", "--rehearse")
    assert done.returncode == 1
    words = "error: argument communication_data_type: Invalid communication_data_type."
    assert words in done.stderr
