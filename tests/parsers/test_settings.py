"""Read the configuration in a log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.formats.settings import EPOCHS, SETTINGS
from parsers.records import Setting
from parsers.scan.reader import decode


def parse(line: str) -> list[tuple[str, str, str]]:
    """Return name, value and source of each setting that any format reads in a line."""
    records = [
        record
        for log_format in SETTINGS
        if any(anchor.decode() in line for anchor in log_format.anchors)
        for record in log_format.parse(7, line)
    ]
    assert all(isinstance(record, Setting) and record.offset == 7 for record in records)
    return [
        (record.name, record.value, record.source)
        for record in records
        if isinstance(record, Setting)
    ]


def row(name: str, value: object, width: int = 48) -> str:
    """Return a line of Megatron's list of arguments."""
    return f"  {name} {'.' * (width - len(name))} {value}"


DEEPSPEED = "[2023-05-27 19:49:22,949] [INFO] [config.py:904:print] "
ARGUMENTS = {
    "Megatron": (row("hidden_size", 8192), [("hidden_size", "8192")]),
    "its word is not ours": (
        row("pipeline_model_parallel_size", 16),
        [("pipeline_parallel_size", "16")],
    ),
    "1.1.5": (row("batch_size", 48, 32), [("micro_batch_size", "48")]),
    "a value with spaces": (
        row("betas", "(0.9, 0.95)  and more"),
        [("betas", "(0.9, 0.95)  and more")],
    ),
    "not set": (row("rampup_batch_size", None), []),
    "two glued": (row("gas", 4) + row("seed", 1234), [("num_microbatches", "4"), ("seed", "1234")]),
    "gpt-neox": (
        f"{row('train_batch_size', 128, 32):.<64}updated",
        [("global_batch_size", "128")],
    ),
    "DeepSpeed": (
        DEEPSPEED + row("zero_optimization_stage", 3, 28),
        [("zero_stage", "3")],
    ),
    "DeepSpeed's world are the ranks that share the data": (
        DEEPSPEED + row("world_size", 16, 28),
        [("data_parallel_size", "16")],
    ),
    "Megatron's world are all": (row("world_size", 64), [("world_size", "64")]),
    "a block opens": (DEEPSPEED + row("zero_config", "{", 28), []),
    "a title": ("------------------------ arguments ------------------------ ....", []),
    "quoted in a script": ("#" + row("seed", 1), []),
    "a timer": ("    forward-backward ..................: (210.40, 221.30)", []),
    "progress of something": ("Loading checkpoint ....... done", []),
    "an operator": ("async_io ............... [NO] ....... [OKAY]", []),
}
ECHOES = {
    "BigScience's script": ("+ NHIDDEN=6144", [("hidden_size", "6144")]),
    "quotes": ("+ NNODES=' 4 '", [("nodes", "4")]),
    "another variable": ("+ NNODES_MAX=18", []),
    "a screen cleared": ("\x1b[H\x1b[2J\x1b[3J+ PP_CHUNKS=4", [("num_microbatches", "4")]),
    "nothing": ("+ IFS=' '", []),
    "of a subshell": ("++ NNODES=4", []),
    "a command": ("+ cd /home", []),
    "a lower-case name": ("+ config_json=./ds.json", []),
    "an open quote": ("+ GPT_ARGS='     --num-layers 40", []),
    "a command's own variable": ("+ NNODES=4 python train.py", []),
    "in a sentence": ("echo + NNODES=4", []),
}
REPORTS = {
    "parallel sizes": (
        (
            "using world size: 64, data-parallel-size: 2, tensor-model-parallel size: 4,"
            " pipeline-model-parallel size: 8 "
        ),
        [
            ("world_size", "64"),
            ("data_parallel_size", "2"),
            ("tensor_parallel_size", "4"),
            ("pipeline_parallel_size", "8"),
        ],
    ),
    "parallel sizes, 1.1.5": (
        "using world size: 64 and model-parallel size: 4",
        [("world_size", "64"), ("tensor_parallel_size", "4")],
    ),
    "parallel sizes, core": (
        (
            "using world size: 8, data-parallel size: 1, context-parallel size: 2, hierarchical"
            " context-parallel sizes: Nonetensor-model-parallel size: 4,"
            " encoder-tensor-model-parallel size: 3, pipeline-model-parallel size: 1"
        ),
        [
            ("world_size", "8"),
            ("data_parallel_size", "1"),
            ("context_parallel_size", "2"),
            ("tensor_parallel_size", "4"),
            ("encoder_tensor_model_parallel_size", "3"),
            ("pipeline_parallel_size", "1"),
        ],
    ),
    "sizes in a traceback": ('    print("using world size: {}, data-parallel-size: {}")', []),
    "parameters of a rank": (
        " > number of parameters on (tensor, pipeline) model parallel rank (1, 8): 1019501568",
        [("parameters_on_rank_1_8", "1019501568")],
    ),
    "parameters of two ranks, 1.1.5": (
        (
            " > number of parameters on model parallel rank 2: 805560320"
            " > number of parameters on model parallel rank 3: 805560321"
        ),
        [("parameters_on_rank_2", "805560320"), ("parameters_on_rank_3", "805560321")],
    ),
    "parameters of the model": (
        " > number of parameters on model parallel rank 3            52.005 Billion",
        [("parameters", "52005000000")],
    ),
    "parameters of the layers": (
        "Number of parameters in transformer layers in billions:  6.02",
        [("transformer_parameters", "6020000000")],
    ),
    "parameters in all": (
        "Total number of parameters in billions: 6.24",
        [("parameters", "6240000000")],
    ),
    "micro-batches": (
        "setting number of micro-batches to constant 256",
        [("num_microbatches", "256")],
    ),
    "batch of the HF Trainer": (
        (
            "[INFO|trainer.py:1147] 2021-05-25 06:45:27,011 >>   Total train batch size"
            " (w. parallel, distributed & accumulation) = 1,024"
        ),
        [("global_batch_size", "1024")],
    ),
    "batch of a GPU": (
        "  Instantaneous batch size per device = 8",
        [("micro_batch_size", "8")],
    ),
    "batches and length of torchtitan": (
        (
            "[titan] 2025-06-01 03:04:05,678 - root - INFO - Training starts at step 1, with local"
            " batch size 2, global batch size 64, gradient accumulation steps 4, sequence length"
            " 8192, total steps 1000 (warmup 200)"
        ),
        [
            ("micro_batch_size", "2"),
            ("global_batch_size", "64"),
            ("seq_length", "8192"),
            ("train_iters", "1000"),
        ],
    ),
    "steps, spaces collapsed": ("INFO Total optimization steps = 4", [("train_iters", "4")]),
    "steps of the HF Trainer": ("  Total optimization steps = 4", [("train_iters", "4")]),
    "accumulation": ("  Gradient Accumulation steps = 2", [("num_microbatches", "2")]),
    "DeepSpeed's launcher": (
        "[INFO] [launch.py:164:main] dist_world_size=2",
        [("world_size", "2")],
    ),
    "batch of nanochat": (
        "Total batch size 524,288 => gradient accumulation steps: 4",
        [("tokens_per_iteration", "524288")],
    ),
    "FLOPs of nanochat": (
        "Estimated FLOPs per token: 1.207960e+10",
        [("flops_per_token", "1.207960e+10")],
    ),
    "ranks of nanochat": (
        "2025-10-13 10:00:00,000 - nanochat.common - INFO - Distributed world size: 16",
        [("world_size", "16")],
    ),
    "tokens of nanochat's ranks": (
        "Tokens / micro-batch / rank: 8 x 2048 = 16,384",
        [("micro_batch_rank_tokens", "16384")],
    ),
    "tokens of nanochat's micro-batches": (
        "Tokens / micro-batch: 131,072",
        [("micro_batch_tokens", "131072")],
    ),
    "another total batch": ("Total batch size 524,288 tokens", []),
    "quoted": ("# setting number of micro-batches to constant 256", []),
}
JSON = {
    '    "train_batch_size": 2.048000e+03, ': [("global_batch_size", "2048")],
    '    "train_micro_batch_size_per_gpu": 32,': [("micro_batch_size", "32")],
    '    "gradient_accumulation_steps": 256,': [("num_microbatches", "256")],
    '        "stage": 3': [("zero_stage", "3")],
    'node2:     "train_batch_size": 512,': [("global_batch_size", "512")],
    '    "train_batch_size": "auto",': [],
    '    "train_batch_size": 2.0480': [],
    '    "train_batch_size": 9.730080e+03,': [],  # no whole number
    'ValueError: {"train_batch_size": 2048, "fp16": 1}': [],
    '    "stage3_max_live_parameters": 1.000000e+09,': [],
}
CASES = [
    *((line, "arguments", settings) for line, settings in ARGUMENTS.values()),
    *((line, "arguments", settings) for line, settings in JSON.items()),
    *((line, "echo", settings) for line, settings in ECHOES.values()),
    *((line, "report", settings) for line, settings in REPORTS.values()),
]
UNCOLOURED = st.sampled_from([case for case in CASES if "\x1b" not in case[0]])
LABELS = st.sampled_from(["", "0: ", "127: ", "[rank0]: ", "[default7]:", "node2: ", "> "])


@pytest.mark.parametrize(("line", "source", "settings"), CASES)
def test_a_setting_has_the_project_s_name_and_the_line_s_value(
    line: str, source: str, settings: list[tuple[str, str]]
) -> None:
    """A setting has teralog's name for it, the value that the line contains, and the line's offset.

    Other text gives no setting.
    """
    assert parse(decode(line.encode())) == [(*setting, source) for setting in settings]


@given(case=UNCOLOURED, label=LABELS, colour=st.integers(0, 200), end=st.booleans())
def test_a_setting_is_read_whatever_its_label_and_colour(
    case: tuple[str, str, list[tuple[str, str]]], label: str, colour: int, end: bool
) -> None:
    """A setting is read with any rank label and colour, and with a carriage return."""
    line, source, settings = case
    coloured = label + line[:colour] + "\x1b[92m" + line[colour:] + "\r" * end
    assert parse(decode(coloured.encode())) == [(*setting, source) for setting in settings]


@given(case=st.sampled_from([case for case in CASES if case[2]]), end=st.integers(0, 300))
def test_a_torn_line_shows_no_other_number(
    case: tuple[str, str, list[tuple[str, str]]], end: int
) -> None:
    """A torn line may give a setting with a shortened text, but never with another number."""
    line, _, settings = case
    settings_by_name = dict(settings)
    for name, value, _ in parse(line[:end]):
        assert settings_by_name[name].startswith(value) or value.startswith(settings_by_name[name])


@given(
    case=st.sampled_from(CASES),
    changes=st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=4)), max_size=4),
)
def test_a_setting_has_only_values_of_its_line(
    case: tuple[str, str, list[tuple[str, str]]], changes: list[tuple[int, bytes]]
) -> None:
    """If bytes of a line are damaged, its settings have only values that the line contains."""
    line = bytearray(case[0].encode())
    for position, replacement in changes:
        line[position : position + len(replacement)] = replacement
    text = decode(bytes(line))
    plain = text.replace(",", "").replace(".", "")
    for _, value, _ in parse(text):
        assert value in text or value.rstrip("0") in plain


@pytest.mark.parametrize(
    ("following", "epochs"),
    [
        ("  Num Epochs = 3\n", "3"),
        ("  Num examples = 1,000\n  Num Epochs = 3\n", "3"),
        ("  Num Epochs = 3", None),  # cut off, perhaps
        ("  Batch size = 8\n***** Running training *****\n  Num Epochs = 3\n", None),
    ],
)
def test_the_examples_of_a_training_come_with_its_epochs(
    following: str, epochs: str | None
) -> None:
    """The Trainer prints the examples of an evaluation with the same words, but without epochs."""
    settings = EPOCHS.parse(7, f"[INFO|trainer.py:1144] >>   Num examples = 1,000\n{following}")
    counts = {"num_examples": "1000", "num_epochs": epochs} if epochs else {}
    assert [*settings] == [
        Setting(name=name, value=value, source="report", offset=7) for name, value in counts.items()
    ]
