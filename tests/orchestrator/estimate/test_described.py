"""Estimates of models that are given by a name, a config.json or Megatron's arguments."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.model.counting import count_flops
from orchestrator.model.megatron_arguments import megatron_arguments
from orchestrator.model.named import named_model


def run(*arguments: str) -> Result:
    """Call `teralog estimate` in this process."""
    return CliRunner().invoke(main, ["estimate", *arguments])


DESCRIBED: dict[str, tuple[str, ...]] = {
    "named": ("--model=Mixtral 8x7B",),
    "config": ("--config=config.json",),
    "folder": ("--config=.",),
    "Megatron's arguments": ("--megatron-arguments=run.sh",),
}


@pytest.mark.parametrize("options", DESCRIBED.values(), ids=DESCRIBED)
def test_a_described_model_is_counted(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A model is given by its name, its config.json, the file's folder, or Megatron's options."""
    monkeypatch.chdir(tmp_path)
    named = named_model("mixtral-8x7b")
    Path("config.json").write_text(json.dumps(named.config))
    arguments = " ".join(word for words in megatron_arguments(named.model()) for word in words)
    Path("run.sh").write_text(
        f"# sizes\n{arguments} --padded-vocab-size 32000 \\\n --seq-length 4096 --lr 1e-4\n"
    )
    length = "--seq-length=4096"
    (record,) = [json.loads(run("params", *options, length, "--json").stdout)]
    assert record["parameters"] == sum(record["parts"].values()) == 46_702_792_704
    assert record["active_parameters"] == 12_879_925_248
    flops = json.loads(run("flops", *options, length, "--global-batch-size=2", "--json").stdout)
    model = named.model(4096)
    by_name = {record["convention"]: record for record in flops}
    assert by_name["model"]["flops"] == count_flops(model, sequences=2).model
    assert by_name["narayanan"]["flops"] is None
    text = run("flops", *options, length, "--global-batch-size=2").stdout
    assert "top-k 2" in text


@pytest.mark.parametrize("conventions", [(), ("--conventions",)], ids=["counts", "conventions"])
def test_without_a_global_batch_an_iteration_is_one_sequence(conventions: tuple[str, ...]):
    """Without a global batch, the FLOPs are those of one sequence, and a message reports it."""
    done = run("flops", "--model=llama3-8b", *conventions, "--json")
    assert done.exit_code == 0, done.output
    assert "one sequence" in done.stderr
    records = json.loads(done.stdout)
    flops = next(record["flops"] for record in records if record["convention"] == "model")
    assert flops == count_flops(named_model("llama3-8b").model(), sequences=1).model


def test_conventions_are_explained():
    """`estimate flops --conventions` compares the FLOPs of each convention with the exact FLOPs.

    It lists the reasons for the difference, each with a number of FLOPs. These numbers add up to
    the whole difference.
    """
    options = ("--model=gpt-oss-20b", "--global-batch-size=2")
    text = run("flops", *options, "--conventions").stdout
    assert "ignores attention windows" in text
    assert "does not apply to this model" in text
    records = json.loads(run("flops", *options, "--conventions", "--json").stdout)
    for record in records:
        if record["flops"] is None:
            assert record["unsuited"]
        else:
            assert record["flops"] == record["exact_flops"] + sum(record["deviations"].values())


MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "a size": (
        ("--model=llama3-8b", "--hidden-size=8"),
        "--hidden-size: cannot be used with --model",
    ),
    "two": (("--model=llama3-8b", "--config=."), "--model and --config each give a model"),
    "no file": (("--config=nowhere.json",), "nowhere.json: cannot be read"),
    "rank alone": (("--model=52B", "--lora-rank=8"), "--lora-rank: needs --config"),
    "target alone": (("--model=llama3-8b", "--lora-target=query"), "needs --lora-rank"),
    "no such target": (
        ("--model=llama3-8b", "--lora-rank=8", "--lora-target=querry"),
        "--lora-target: 'querry' is not a part that can have adapters; did you mean 'query'?",
    ),
}


@pytest.mark.parametrize(("options", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_with_a_described_model_is_a_sentence(
    options: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A mistake in the description of a model gives a sentence, not a traceback."""
    monkeypatch.chdir(tmp_path)
    result = run("params", *options)
    assert result.exit_code == 1
    assert sentence in result.stderr


def test_adapters_alone_are_trained():
    """With LoRA, `trained_parameters` counts only the weights of the adapters.

    An adapter of rank r for a matrix of m inputs and n outputs has r(m + n) weights. In this test,
    r is 16. Each of 32 layers has an adapter for the query matrix, from 4096 to 4096, and one for
    the value matrix, from 4096 to 1024.
    """
    options = ("--model=llama3-8b", "--lora-rank=16", "--json")
    record = json.loads(run("params", *options).stdout)
    assert record["trained_parameters"] == 32 * 16 * (2 * 4096 + 4096 + 1024)
