"""Rendered scripts pass only arguments that their programs accept."""

import argparse
import json
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from orchestrator.campaign.campaign import load_campaign
from orchestrator.frameworks.arguments import known_program
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.submit.scripts import job_script
from orchestrator.workloads.rehearsal import given_options, option_problems

ROOT = Path(__file__).parents[3]
RECORDS = ROOT / "orchestrator" / "frameworks" / "known_options"
CAMPAIGNS = sorted(
    (*(ROOT / "tests" / "scripts").glob("*.yaml"), *(ROOT / "examples").glob("[!_]*.yaml"))
)

ACCEPTED = {
    "--num-layers": {"type": "int", "required": True},
    "--lr": {"type": "float"},
    "--fp16": {"values": 0},
    "--betas": {"values": 2, "type": "float"},
    "--data-path": {"values": "*"},
    "--split": {},
    "--backend": {"choices": ["nccl", "gloo"]},
    "--stage": {"type": "int", "choices": [1, 2]},
    "--weights": {"values": "+"},
}


@pytest.mark.parametrize(
    "words",
    [
        "--num-layers 4",
        "--num-layers=4 --lr 1e-4 --fp16",
        "--num-layers 4 --betas 0.9 -0.95 --data-path",
        "--num-layers 4 --data-path a b c --split 949,50,1 --backend gloo",
    ],
)
def test_options_that_a_program_accepts_are_not_reported(words: str):
    assert not list(option_problems(words.split(), ACCEPTED))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--num-layer 4 --num-layers 4", "unrecognized arguments: --num-layer 4"),
        ("stray --num-layers 4", "unrecognized arguments: stray"),
        ("--num-layers four", "argument --num-layers: invalid int value: 'four'"),
        ("--num-layers", "argument --num-layers: expected one argument"),
        ("--num-layers 4 5", "unrecognized arguments: 5"),
        ("--num-layers 4 --fp16 yes", "unrecognized arguments: yes"),
        ("--num-layers 4 --betas 0.9", "argument --betas: expected 2 arguments"),
        ("--num-layers 4 --betas 0.9 0.95 x", "unrecognized arguments: x"),
        ("--num-layers 4 --weights", "argument --weights: expected at least one argument"),
        (
            "--num-layers 4 --backend mpi",
            "argument --backend: invalid choice: 'mpi' (choose from 'nccl', 'gloo')",
        ),
        ("--num-layers 4 --stage 4", "argument --stage: invalid choice: 4 (choose from 1, 2)"),
        ("--lr 1", "the following arguments are required: --num-layers"),
    ],
)
def test_what_a_program_refuses_is_reported_in_argparse_s_words(words: str, problem: str):
    assert list(option_problems(words.split(), ACCEPTED)) == [problem]


@pytest.mark.parametrize(
    "word", ["-1", "-1.5", "-.5", "-1.", "-1e-5", "-inf", "-nan", "-", "-a b", "1"]
)
def test_options_and_values_are_told_apart_as_argparse_does(word: str):
    """A word is an option if argparse takes it for one, and otherwise a value.

    Which negative numbers argparse takes for values depends on the version of Python.
    """
    program = argparse.ArgumentParser()
    program.add_argument("--values", nargs="*")
    given, unknown = program.parse_known_args(["--values", word])
    options = given_options(["--values", word])
    assert (options[0][1], len(options) > 1) == (given.values, bool(unknown))


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_a_record_names_its_program_and_the_source(path: Path):
    record = json.loads(path.read_text())
    assert record["program"]
    assert record["source"].startswith("https://") or (ROOT / record["source"]).is_file()
    for option, takes in record["options"].items():
        assert option.startswith("-")
        assert takes.keys() <= {"values", "type", "choices", "required", "default", "action"}


# Names that a program prints for flags that switch off, and values that it computes itself.
NEGATED = {
    "masked_softmax_fusion": "--no-masked-softmax-fusion",
    "bias_gelu_fusion": "--no-bias-gelu-fusion",
    "bias_dropout_fusion": "--no-bias-dropout-fusion",
    "apply_query_key_layer_scaling": "--no-query-key-layer-scaling",
    "scatter_gather_tensors_in_pipeline": "--no-scatter-gather-tensors-in-pipeline",
    "bert_binary_head": "--bert-no-binary-head",
    "log_learning_rate_to_tensorboard": "--no-log-learnig-rate-to-tensorboard",
    "log_loss_scale_to_tensorboard": "--no-log-loss-scale-to-tensorboard",
}
WORKED_OUT = {
    "consumed_train_samples",
    "consumed_valid_samples",
    "data_parallel_size",
    "dynamic_loss_scale",
    "params_dtype",
    "rank",
    "virtual_pipeline_model_parallel_size",
    "world_size",
}
PRINTED = {
    "megatron-lm-2.4": "gpt2-meg/meg_gpt2_perf_n16.out",
    "megatron-lm-1.1.5-3d": "gpt2-meg-ds-3d-old/meg_ds_3d_gpt2_perf_n16.out",
    "megatron-lm-1.1.5-zero3": "gpt2-meg-ds-zero/meg_ds_zero_gpt2_perf_n16_nbs48_ms48.out",
}
LOGS = ROOT.parent / "shared" / "logs"


@pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not here")
@pytest.mark.parametrize(("program", "log"), PRINTED.items(), ids=PRINTED)
def test_a_record_names_every_argument_that_a_run_printed_of_itself(program: str, log: str):
    text = (LOGS / log).read_text(errors="replace")
    listed = text[text.index("- arguments -") : text.index("end of arguments")]
    named = set(re.findall(r"^  (\w+) \.*", listed, re.MULTILINE)) - WORKED_OUT
    options = {
        option.removeprefix("--").replace("-", "_") for option in known_program(program)["options"]
    }
    negated = {
        name for name, option in NEGATED.items() if option in known_program(program)["options"]
    }
    assert not named - options - negated
    assert len(named) > 100


# The options that two runs on DSE's branch megatron-2.4-ds-pipe (June 2021) print in addition to
# 2.4's: meg_ds_3d_gpt2_perf_n16-ds-on.out and -ds-off.out of bigscience-workshop/bigscience.
PRINTED_BY_THE_BRANCH = {
    "checkpoint_in_cpu",
    "contigious_checkpointing",
    "cpu_optimizer",
    "deepscale",
    "deepscale_config",
    "deepspeed",
    "deepspeed_activation_checkpointing",
    "deepspeed_config",
    "deepspeed_mpi",
    "partition_activations",
    "profile_backward",
    "remote_device",
    "synchronize_each_layer",
    "zero_stage",
}


def test_the_branch_for_deepspeed_has_what_its_runs_print_next_to_the_options_of_2_4():
    of_2_4 = known_program("megatron-lm-2.4")["options"]
    of_the_branch = known_program("megatron-deepspeed-2.4")["options"]
    assert of_2_4.items() <= of_the_branch.items()
    beside = of_the_branch.keys() - of_2_4.keys()
    assert {option.removeprefix("--").replace("-", "_") for option in beside} == (
        PRINTED_BY_THE_BRANCH
    )


def handed(script: str) -> str:
    """Return the part of a job script that builds its program's arguments: the array `args`."""
    text = script[script.index("\nargs=(") :]
    return text[: text.index("\n)\n") + 3]


@cache
def arguments(array: str) -> list[str]:
    """Return the arguments that a script passes to its program, after bash has expanded them.

    array: the part of the script that builds the array `args`.
    """
    environment = {"MASTER_ADDR": "host", "node_ips": "10.0.0.1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", f"{array}printf '%s\\0' \"${{args[@]}}\""],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_every_rendered_option_is_one_that_the_program_has(path: Path):
    campaign = load_campaign(path)
    for planned in campaign.runs:
        program = FRAMEWORKS[planned.run.framework].start.program(planned.run)
        if program is None:
            continue
        script = job_script(planned, campaign, Path("/results/campaign") / planned.run_id)
        words = arguments(handed(script))
        assert not list(option_problems(words, known_program(program)["options"])), planned.label


@pytest.mark.train
@pytest.mark.parametrize("name", ["gpt", "hf-gpt"])
def test_the_records_of_our_own_programs_equal_their_parsers(name: str):
    """The recorded options of teralog's own programs equal those of their parsers."""
    pytest.importorskip("torch", reason="needs the train extra")
    from record_options_of_parsers import PROGRAMS

    assert json.loads((RECORDS / f"{name}.json").read_text()) == PROGRAMS[name]()


@pytest.mark.train
def test_the_record_of_run_clm_equals_transformers_parser():
    """The recorded options of run_clm equal those of its parser.

    This is tested only if the installed transformers has the recorded version.
    """
    pytest.importorskip("transformers", reason="needs the hf extra")
    pytest.importorskip("accelerate", reason="needs the hf extra")
    from record_options_of_parsers import PROGRAMS

    recorded, current = (
        json.loads((RECORDS / "hf-run-clm.json").read_text()),
        PROGRAMS["hf-run-clm"](),
    )
    if current["program"] != recorded["program"]:
        pytest.skip(f"options of {recorded['program']} are recorded, not of {current['program']}")
    assert current == recorded
