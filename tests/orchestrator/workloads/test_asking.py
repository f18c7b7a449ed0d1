"""Ask programs whether they accept a run, and find the argument that they refuse."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.workloads import asking
from orchestrator.workloads.asking import ProgramRefusal

WORKLOADS = Path(asking.__file__).parent


def answer_of(name, folder, *, program=None, arguments=(), config=None, world_size=64, **facts):
    """Run the program `ask_<name>.py` for one run, and return its answer.

    folder: where the files for the program are written. program: the training program. arguments:
    the run's arguments, in which DS stands for the path of the DeepSpeed configuration `config`.
    facts: further facts about the run, e.g. has_gpus.
    """
    file = folder / "ds.json"
    if config is not None:
        file.write_text(json.dumps(config))
    order = {
        "program": None if program is None else str(program),
        "arguments": [word.replace("DS", str(file)) for word in arguments],
        "world_size": world_size,
        "gpus_per_node": 4,
        "deepspeed_config": None if config is None else str(file),
        **facts,
    }
    (folder / "order.json").write_text(json.dumps(order))
    command = [sys.executable, WORKLOADS / f"ask_{name}.py", folder / "order.json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def blamed(answer):
    """Return a dict of the arguments that the program refuses.

    It maps each argument to the message about it.
    """
    return {problem["argument"]: problem["message"] for problem in answer["problems"]}


def test_each_cause_is_found_by_leaving_it_out():
    def ask(things):
        if "b" in things:
            return [ProgramRefusal("no b here")]
        return [ProgramRefusal("something else")] if "d" in things else []

    refusals = list(asking.problems_of("abcd", ask, str))
    assert refusals == [ProgramRefusal("no b here", "b"), ProgramRefusal("something else", "d")]


def test_a_refusal_without_a_cause_is_reported_once():
    refusals = list(asking.problems_of("ab", lambda things: [ProgramRefusal("never")], str))
    assert refusals == [ProgramRefusal("never")]


def test_what_is_refused_only_without_the_cause_is_not_reported():
    def ask(things):
        if "b" in things:
            return [ProgramRefusal("no b here")]
        return [ProgramRefusal("there must be a b")]

    assert list(asking.problems_of("ab", ask, str)) == [ProgramRefusal("no b here", "b")]


def test_an_argument_that_the_program_needs_is_not_the_cause():
    def ask(things):
        for needed in ("--micro-batch-size", "--hidden-size"):
            if needed not in things:
                return [ProgramRefusal(f"assert args.{needed[2:].replace('-', '_')}")]
        if "--expert-model-parallel-size" in things:
            return [ProgramRefusal("there must be experts to use expert model parallelism")]
        return [ProgramRefusal("something without a cause")]

    things = ["--micro-batch-size", "--hidden-size", "--lr", "--expert-model-parallel-size"]
    (first, *_) = asking.problems_of(things, ask, str)
    assert first.argument == "--expert-model-parallel-size"


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("argument --n/--N: invalid int value: 'x'", ["--n"]),
        ("unrecognized arguments: --a 3 --b=4", ["--a", "--b"]),
        ("the following arguments are required: --c", [None]),
    ],
)
def test_arguments_are_read_from_the_words_of_argparse(message, arguments):
    assert [refusal.argument for refusal in asking.argparse_refusals(message)] == arguments


PARSER = """
import argparse
import torch
from colossalai.nn import Layer
import choices

class Own(Layer):
    pass

@torch.no_grad()
def train(): ...

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", choices=choices.STRATEGIES)
    parser.add_argument("--batch", type=int)
    args = parser.parse_args()
    open(__file__ + ".trained", "w").close()
"""


@pytest.fixture
def program(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "choices.py").write_text("STRATEGIES = ['ddp', 'zero2']\n")
    (folder / "train.py").write_text(PARSER)
    return folder / "train.py"


def test_a_parser_is_asked_without_the_packages_of_its_program(program, tmp_path):
    answer = answer_of("argparse", tmp_path, program=program, arguments=["--strategy", "zero2"])
    assert not answer["problems"]
    assert answer["asked"] == ["the argument parser of train.py"]
    # Nothing was trained, and nothing was written into the source.
    assert sorted(path.name for path in program.parent.iterdir()) == ["choices.py", "train.py"]


def test_all_that_a_parser_refuses_is_reported(program, tmp_path):
    arguments = ["--strategy", "zero9", "--batch", "many", "--unknown", "3"]
    reasons = blamed(answer_of("argparse", tmp_path, program=program, arguments=arguments))
    assert list(reasons) == ["--strategy", "--batch", "--unknown"]
    assert "invalid int value: 'many'" in reasons["--batch"]


@pytest.mark.parametrize(
    "change",
    [
        "open(__file__ + '.log', 'w')",
        "os.mkdir(__file__ + '.d')",
        "os.remove(__file__)",
        "os.rename(__file__, 'away.py')",
        "open('new', 'w').close(); os.rename('new', __file__)",
        "os.symlink('/', __file__ + '.link')",
        "open('new', 'w').close(); os.link('new', __file__ + '.link')",
    ],
)
def test_a_program_that_changes_its_source_is_stopped(program, tmp_path, change):
    """A program cannot create, remove or replace files in its own folder while it is asked."""
    program.write_text(f"import os\n{change}\n{PARSER}")
    answer = answer_of("argparse", tmp_path, program=program)
    assert "cannot be changed while a program checks" in (answer["error"] or "")
    assert sorted(path.name for path in program.parent.iterdir()) == ["choices.py", "train.py"]


def test_a_program_may_read_its_source_and_write_elsewhere(program, tmp_path):
    allowed = (
        "open(__file__).close(); os.symlink(__file__, 'link'); os.mkdir('a'); os.rename('a', 'b')"
    )
    program.write_text(f"import os\n{allowed}\n{PARSER}")
    assert answer_of("argparse", tmp_path, program=program)["error"] is None


@pytest.mark.parametrize("text", [None, "def broken(:\n", "print('no parser')\n"])
def test_a_program_without_a_parser_is_reported(program, tmp_path, text):
    program.unlink() if text is None else program.write_text(text)
    answer = answer_of("argparse", tmp_path, program=program)
    assert str(program) in answer["error"]


ADAMW = {"type": "AdamW", "params": {"lr": 1e-3}}
VALID = {"train_micro_batch_size_per_gpu": 1, "optimizer": ADAMW}


@pytest.mark.train
@pytest.mark.parametrize(
    ("config", "arguments"),
    [
        ({"zero_optimization": {"stage": 3}, "fp16": {"enabled": True}}, []),
        (
            {
                "checkpoint": {"tag_validation": "FOO"},
                "communication_data_type": "fp12",
                "gradient_clipping": "1.0",
                "zero_optimization": {"stage": 2, "reduce_bucket_size": -1, "foo": 1},
            },
            [
                "communication_data_type",
                "zero_optimization.reduce_bucket_size",
                "zero_optimization.foo",
                "checkpoint.tag_validation",
                "gradient_clipping",
            ],
        ),
        (
            {
                "scheduler": {"type": "StepLR", "params": {"step_size": 2}},
                "zero_optimization": {"stage": 2, "legacy_stage1": True},
            },
            ["zero_optimization.legacy_stage1", "scheduler.type"],
        ),
        ({"train_batch_size": 100, "gradient_accumulation_steps": 4}, ["train_batch_size"]),
        ({"zero_optimization": {"stage": 3, "stage3_gather_fp16_weights_on_model_save": True}}, []),
        ({"amp": {"enabled": True}}, ["amp.enabled"]),
    ],
)
def test_deepspeed_is_asked_about_its_configuration(tmp_path, config, arguments):
    answer = answer_of("deepspeed", tmp_path, config=VALID | config)
    assert sorted(blamed(answer)) == sorted(arguments)


# Each laid over a configuration that is right, and the key that DeepSpeed blames, if any.
VALUES = [
    *(({"reduce_bucket_size": value}, None) for value in (1, 5e8, "4096")),
    *(
        ({"reduce_bucket_size": value}, "zero_optimization.reduce_bucket_size")
        for value in ("abc", 0.5, 0)
    ),
    ({"overlap_comm": None, "contiguous_gradients": "yes"}, None),
    ({"overlap_comm": "maybe"}, "zero_optimization.overlap_comm"),
    ({"sub_group_size": -1}, "zero_optimization.sub_group_size"),
    (
        {"offload_optimizer": {"device": "cpu", "ratio": 2}},
        "zero_optimization.offload_optimizer.ratio",
    ),
]
SECTIONS = [
    ({"elasticity": {"enabled": True}}, "elasticity.enabled"),
    ({"optimizer": {"type": "AdmaW", "params": {"lr": 0.1}}}, "optimizer.type"),
    ({"optimizer": {"type": "SGD", "params": {"lr": 0.1}}}, "optimizer.type"),
    (
        {
            "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
            "zero_allow_untested_optimizer": True,
        },
        None,
    ),
    ({"optimizer": {"type": "Adagrad", "params": {"lr": 0.1}}}, None),
    ({"fp16": {"enabled": True, "loss_scale": "x"}}, "fp16.loss_scale"),
    ({"steps_per_print": 0}, "steps_per_print"),
    # A package that is not here, and which the run would need.
    ({"comet": {"enabled": True, "project": "x"}}, "comet.enabled"),
    ({"comet": {"enabled": False, "project": "x"}}, None),
]


@pytest.mark.train
def test_a_value_that_deepspeed_refuses_is_blamed(tmp_path):
    pytest.importorskip("deepspeed", reason="needs the train extra")
    cases = [({"zero_optimization": {"stage": 2, **section}}, key) for section, key in VALUES]
    cases += [({"zero_optimization": {"stage": 2}, **more}, key) for more, key in SECTIONS]
    orders = []
    for number, (config, _) in enumerate(cases):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps({**VALID, **config}))
        orders.append({"world_size": 4, "gpus_per_node": 4, "deepspeed_config": str(file)})
    (tmp_path / "orders.json").write_text(json.dumps(orders))
    command = [sys.executable, WORKLOADS / "ask_deepspeed.py", tmp_path / "orders.json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    answers = json.loads(ended.stdout.splitlines()[-1])
    assert [list(blamed(answer)) for answer in answers] == [
        [] if key is None else [key] for _, key in cases
    ]


@pytest.mark.train
@pytest.mark.parametrize(
    ("architectures", "has_gpus", "refused"),
    [
        ("8.0 9.0a+PTX", True, True),
        ("8.0;9.0+PTX", True, False),
        ("9.0a", False, False),
    ],
)
def test_architectures_that_deepspeed_cannot_read_are_refused(
    tmp_path, monkeypatch, architectures, has_gpus, refused
):
    """DeepSpeed itself reads TORCH_CUDA_ARCH_LIST, because its versions read it differently."""
    pytest.importorskip("deepspeed", reason="needs the train extra")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", architectures)
    answer = answer_of("deepspeed", tmp_path, config=VALID, has_gpus=has_gpus)
    assert list(blamed(answer)) == ["TORCH_CUDA_ARCH_LIST"] * refused
    assert not refused or repr(architectures) in blamed(answer)["TORCH_CUDA_ARCH_LIST"]


AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"},
    "fp16": {"enabled": "auto"},
    "bf16": {"enabled": "auto"},
}
SCRIPT = """
from dataclasses import dataclass, field
import a_package_that_is_not_here
from transformers import HfArgumentParser, TrainingArguments

@dataclass
class ModelArguments:
    model_type: str | None = field(default=None)
    config_overrides: str | None = field(default=None)

@dataclass
class DataArguments:
    block_size: int | None = None

def main():
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
"""
GIVEN = [
    "--model_type", "gpt2", "--config_overrides", "n_embd=64,n_layer=2", "--block_size", "128",
    "--output_dir", "out", "--max_steps", "5", "--per_device_train_batch_size", "4",
    "--deepspeed", "DS", "--fp16",
]  # fmt: skip


@pytest.mark.train
@pytest.mark.parametrize(
    ("more", "config", "arguments"),
    [
        ([], {}, []),
        (["--bogus", "3", "--block_size", "x"], {}, ["--bogus", "--block_size"]),
        ([], {"gradient_clipping": 0.5}, ["gradient_clipping"]),
        (["--config_overrides", "n_foo=3"], {}, ["--config_overrides"]),
        ([], {"communication_data_type": "fp12"}, ["communication_data_type"]),
    ],
)
def test_the_classes_of_transformers_are_asked_with_those_of_the_script(
    tmp_path, more, config, arguments
):
    script = tmp_path / "run_clm.py"
    script.write_text(SCRIPT)
    answer = answer_of("hf", tmp_path, program=script, arguments=GIVEN + more, config=AUTO | config)
    assert sorted(blamed(answer)) == sorted(arguments)
    assert "ModelArguments, DataArguments, TrainingArguments" in answer["asked"][0]


@pytest.mark.train
@pytest.mark.parametrize(
    ("more", "config", "arguments"),
    [
        ([], {}, []),
        (["--precision", "bf16"], {"gradient_clipping": 0.5}, ["gradient_clipping"]),
        # It trains on a GPU, which this machine need not have.
        (["--precision", "fp16"], {}, []),
        (["--precision", "fp16"], {"communication_data_type": "x"}, ["communication_data_type"]),
        (["--num-attention-heads", "5"], {}, ["--num-attention-heads"]),
    ],
)
def test_a_program_with_another_parser_is_asked_up_to_its_training_arguments(
    tmp_path, more, config, arguments
):
    given = [
        "--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4",
        "--vocab-size", "512", "--seq-length", "64", "--micro-batch-size", "2",
        "--train-iters", "5", "--deepspeed-config", "DS",
    ]  # fmt: skip
    program = WORKLOADS / "hf_gpt.py"
    config = AUTO | config
    answer = answer_of("hf", tmp_path, program=program, arguments=given + more, config=config)
    assert sorted(blamed(answer)) == sorted(arguments)
