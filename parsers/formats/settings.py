"""Parse a run's configuration from its log: argument dumps, shell echoes, sentences.

Programs and scripts have different names for the same value; here they become one name.

A Setting's value is text, as printed up to the end of its line. Only counts are rewritten: the
2.048000e+03 of DeepSpeed's configuration becomes 2048. If a program prints None, the option is not
set and there is no Setting. Every rank or node may print the same setting again.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial

from parsers.fields import COUNT, NUMBER_ENDS, line_parts, matches
from parsers.labels import after_labels
from parsers.records import Setting
from parsers.scan.reader import NEVER, LogFormat, ParseLine

# Megatron, Megatron-DeepSpeed, gpt-neox and DeepSpeed's configuration.
_ARGUMENTS: Mapping[str, str] = {
    "tensor_model_parallel_size": "tensor_parallel_size",
    "model_parallel_size": "tensor_parallel_size",  # Megatron up to 1.1.5, gpt-neox
    "pipeline_model_parallel_size": "pipeline_parallel_size",
    "pipe_parallel_size": "pipeline_parallel_size",
    "expert_model_parallel_size": "expert_parallel_size",
    "batch_size": "micro_batch_size",  # Megatron up to 1.1.5, gpt-neox
    "train_micro_batch_size_per_gpu": "micro_batch_size",
    "train_batch_size": "global_batch_size",
    "gradient_accumulation_steps": "num_microbatches",
    "gas": "num_microbatches",
    "zero_optimization_stage": "zero_stage",
    "stage": "zero_stage",
    "global_num_gpus": "world_size",  # gpt-neox
    "num_nodes": "nodes",  # OneFlow
    "num_gpus_per_node": "gpus_per_node",
}

# The variables of the scripts in use at BigScience and of Megatron's examples.
_VARIABLES: Mapping[str, str] = {
    "NLAYERS": "num_layers",
    "NUM_LAYERS": "num_layers",
    "NHIDDEN": "hidden_size",
    "HIDDEN_SIZE": "hidden_size",
    "NHEADS": "num_attention_heads",
    "NUM_HEADS": "num_attention_heads",
    "SEQ_LEN": "seq_length",
    "SEQ_LENGTH": "seq_length",
    "VOCAB_SIZE": "vocab_size",
    "MICRO_BATCH_SIZE": "micro_batch_size",
    "GLOBAL_BATCH_SIZE": "global_batch_size",
    "GAS": "num_microbatches",
    "PP_CHUNKS": "num_microbatches",
    "TP_SIZE": "tensor_parallel_size",
    "PP_SIZE": "pipeline_parallel_size",
    "DP_SIZE": "data_parallel_size",
    "ZERO_STAGE": "zero_stage",
    "WORLD_SIZE": "world_size",
    "NNODES": "nodes",
    "GPUS_PER_NODE": "gpus_per_node",
}


def argument_name(name: str) -> str:
    """Return teralog's name for a program's argument.

    If teralog has none, returns the argument's name with underscores instead of hyphens.
    """
    name = name.replace("-", "_")
    return _ARGUMENTS.get(name, name)


#   micro_batch_size ................................ 1                             Megatron
#   train_batch_size ................ 128.........................updated           gpt-neox
# [2021-05-27 19:49:22,949] [INFO] [config.py:904:print]   train_batch_size ............. 1024
_ROW = re.compile(
    r"(?<!\s) {2,8}(?P<name>[A-Za-z_]\w{0,80}) \.{3,} (?P<value>\S.*?)"
    r"(?=  [A-Za-z_]\w{0,80} \.{3,} |$)"
)
_NEOX_ORIGINS = (".default", ".updated")
_DEEPSPEED_ROW = "[config.py:"


def _arguments(offset: int, line: str) -> Iterator[Setting]:
    for part in line_parts(line):
        for row in _ROW.finditer(part.rstrip()):
            name, value = argument_name(row["name"]), row["value"].rstrip()
            if value.endswith(_NEOX_ORIGINS):
                value = value[: -len(_NEOX_ORIGINS[0])].rstrip(".")
            if name == "world_size" and _DEEPSPEED_ROW in part:
                name = "data_parallel_size"  # the number of ranks among which it shares the data
            if value not in {"", "None"} and not value.endswith("{"):
                yield Setting(name=name, value=value, source="arguments", offset=offset)


# + MICRO_BATCH_SIZE=48
_ECHO_BEGINS = rf"\+ (?P<name>{'|'.join(_VARIABLES)})="
_ECHO = rf"{_ECHO_BEGINS}(?P<value>'[^']+'|[^\s']+)$"


def _echoes(offset: int, line: str) -> Iterator[Setting]:
    echo = after_labels(_ECHO).search(line.rstrip())
    if echo and (value := echo["value"].strip("'").strip()):
        yield Setting(name=_VARIABLES[echo["name"]], value=value, source="echo", offset=offset)


# In DeepSpeed's dump, of JSON:     "train_batch_size": 2.048000e+03,
# Hugging Face's trainer_state.json calls the batch of a device so, two columns from the left and
# above `trial_name`.
_OF_TRAINER_STATE = re.compile(r'  "train_batch_size": [0-9]+,\s+"trial_name": ')
_JSON = (
    r'\s*"(?P<name>train_batch_size|train_micro_batch_size_per_gpu'
    rf'|gradient_accumulation_steps|stage)":'
    rf" (?P<value>{COUNT}|[0-9]\.[0-9]{{6}}e\+[0-9]{{2}}),?$"
)


def _json(offset: int, text: str) -> Iterator[Setting]:
    line = text.partition("\n")[0]
    match = None if _OF_TRAINER_STATE.match(text) else after_labels(_JSON).search(line.rstrip())
    if match and (value := Decimal(match["value"])) == int(value):
        name = argument_name(match["name"])
        yield Setting(name=name, value=str(int(value)), source="arguments", offset=offset)


# using world size: 64 and model-parallel size: 4                       Megatron up to 1.1.5
# using world size: 64, data-parallel-size: 1, tensor-model-parallel size: 4, …
_SIZES = re.compile(r"using world size: [^\r]*")
_SIZE = re.compile(
    r"(?P<name>world|(?:encoder-)?(?:data|sequence|context|expert-model|(?:tensor-|pipeline-)?model)"
    rf"-parallel)[ -]size: (?P<size>{COUNT})"
)


def _sizes(offset: int, line: str) -> Iterator[Setting]:
    for sizes in matches(_SIZES, line):
        for size in _SIZE.finditer(sizes[0]):
            name = argument_name(f"{size['name']}_size")
            yield Setting(name=name, value=size["size"], source="report", offset=offset)


#  > number of parameters on (tensor, pipeline) model parallel rank (1, 8): 1019501568
#  > number of parameters on model parallel rank 0: 805560320          Megatron up to 1.1.5
#  > number of parameters on model parallel rank 3            52.005 Billion     (of the model)
_ON_RANK = re.compile(
    rf"number of parameters on .{{0,24}}model parallel rank"
    rf" (?P<rank>\({COUNT}, {COUNT}\)|{COUNT})"
    rf"(?:: (?P<count>{COUNT})| +(?P<billions>[0-9]{{1,9}}\.[0-9]{{1,9}}) Billion)"
)
# Number of parameters in transformer layers in billions:  6.02             core
# Total number of parameters in billions: 6.24
_IN_BILLIONS = re.compile(
    r"(?:Number of parameters in (?P<part>transformer|embedding) (?:layers|block)"
    r"|Total number of parameters) in billions: +"
    rf"(?P<billions>[0-9]{{1,9}}\.[0-9]{{2}}){NUMBER_ENDS}"
)


def _parameters(offset: int, line: str) -> Iterator[Setting]:
    for match in matches(_ON_RANK, line):
        name, value = "parameters", match["count"]
        if value:
            name += "_on_rank_" + match["rank"].strip("()").replace(", ", "_")
        else:
            value = _from_billions(match["billions"])
        yield Setting(name=name, value=value, source="report", offset=offset)
    for match in matches(_IN_BILLIONS, line):
        name = f"{match['part']}_parameters" if match["part"] else "parameters"
        value = _from_billions(match["billions"])
        yield Setting(name=name, value=value, source="report", offset=offset)


def _from_billions(text: str) -> str:
    return str(int(Decimal(text) * 10**9))


# Building device mesh with parallelism: pp=4, dp_replicate=1, dp_shard=2, cp=1, tp=1, ep=1, etp=1
# Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]                    torchtitan until 2025
_AXIS = "([0-9]{1,6})"
_MESH = re.compile(
    # The axes of experts (ep, etp) divide the same GPUs once more. Without the comma after it, the
    # last number may be cut off.
    rf"Building device mesh with parallelism: pp={_AXIS}, dp_replicate={_AXIS}, dp_shard={_AXIS}, "
    rf"cp={_AXIS}, tp={_AXIS}, "
)
_MESH_2025 = re.compile(
    r"Building (?P<count>[0-9])-D device mesh with \[[^\[\]]*\], "
    r"\[(?P<sizes>[0-9]{1,6}(?:, [0-9]{1,6})*|)\]"
)


def _mesh(offset: int, line: str) -> Iterator[Setting]:
    meshes = [match.groups() for match in matches(_MESH, line)]
    for match in matches(_MESH_2025, line):
        sizes = [size for size in match["sizes"].split(", ") if size]
        if len(sizes) == int(match["count"]):
            meshes.append((*sizes,))
    for mesh in meshes:
        if gpus := math.prod(map(int, mesh)):
            yield Setting(name="world_size", value=str(gpus), source="report", offset=offset)


# > padded vocab (size: 50257) with 431 dummy tokens (new size: 50688)        Megatron and similar
_VOCABULARY = re.compile(
    rf"padded vocab \(size: (?P<vocab_size>{COUNT})\) with {COUNT} dummy tokens "
    rf"\(new size: (?P<padded_vocab_size>{COUNT})\)"
)

_NUMBER = r"[0-9][0-9,]{0,20}"
_COUNTS = (
    re.compile(
        r"(?:micro-batches to constant |Gradient Accumulation steps = )"
        rf"(?P<num_microbatches>{_NUMBER})"
    ),
    re.compile(rf"Total optimization steps = (?P<train_iters>{_NUMBER})"),
    re.compile(rf"Total train batch size \([^()]{{0,80}}\) = (?P<global_batch_size>{_NUMBER})"),
    re.compile(rf"Instantaneous batch size per (?:device|GPU) = (?P<micro_batch_size>{_NUMBER})"),
    re.compile(rf"\bdist_world_size=(?P<world_size>{_NUMBER})"),
    # Training starts at step 1, with local batch size 1, global batch size 8, sequence length 8192,
    #     total steps 100 (warmup 200)                                    torchtitan of 2025
    re.compile(
        rf"\bwith local batch size (?P<micro_batch_size>{_NUMBER})"
        rf", global batch size (?P<global_batch_size>{_NUMBER})(?:, [a-z ]+[0-9]+)?"
        rf", sequence length (?P<seq_length>{_NUMBER}), total steps (?P<train_iters>{_NUMBER})"
    ),
    # nanochat and programs made from it: a batch is a number of tokens
    re.compile(
        rf"Total batch size (?P<tokens_per_iteration>{_NUMBER}) =>"
        r" gradient accumulation steps: [0-9]"
    ),
    re.compile(
        rf"Tokens / micro-batch / rank: [0-9]+ x [0-9]+ = (?P<micro_batch_rank_tokens>{_NUMBER})"
    ),
    re.compile(rf"Tokens / micro-batch: (?P<micro_batch_tokens>{_NUMBER})"),
    re.compile(r"Estimated FLOPs per token: (?P<flops_per_token>[0-9]\.[0-9]{6}e\+[0-9]{2})(?!\w)"),
    re.compile(rf"Distributed world size: (?P<world_size>{_NUMBER})(?![\w.])"),
)


#   Num examples = 1,000                                    Hugging Face's Trainer, before training
#   Num Epochs = 3
_EPOCHS = re.compile(
    rf"Num examples = (?P<num_examples>{_NUMBER})\s*\n"
    r"(?:(?!.*(?:Running|Batch size)).*\n){0,7}?"  # the same lines of other ranks, no evaluation
    r".*Num Epochs = (?P<num_epochs>[0-9][0-9,]{0,24})\s*\n"  # 2**63 - 1, if they are unknown
)


def _epochs(offset: int, text: str) -> Iterator[Setting]:
    if match := _EPOCHS.search(text):
        for name, count in match.groupdict().items():
            value = count.replace(",", "")
            yield Setting(name=name, value=value, source="report", offset=offset)


def named_settings(*patterns: re.Pattern[str]) -> ParseLine:
    """Return a function that reads settings from the sentences of a program.

    patterns: each of their groups matches the value of a setting, and has the setting's name.
    """
    return partial(_named_settings, patterns)


def _named_settings(
    patterns: Sequence[re.Pattern[str]], offset: int, line: str
) -> Iterator[Setting]:
    for pattern in patterns:
        for match in matches(pattern, line):
            for name, text in match.groupdict().items():
                digits = text.replace(",", "")
                value = digits if digits.isdigit() else text
                yield Setting(name=name, value=value, source="report", offset=offset)


def setting_format(
    name: str,
    parse: ParseLine,
    *anchors: bytes,
    only: bytes | None = None,
    following: int = 0,
) -> LogFormat:
    """Return a format whose records are settings.

    Its lines are not counted as reports that could not be parsed. parse: takes the offset and the
    text of a line. anchors: byte strings; each line contains at least one. only: a pattern; a
    line is parsed only if it matches the pattern, or contains a terminal's escape codes. following:
    how many further lines `parse` gets with a line.
    """
    pattern = None if only is None else re.compile(only + rb"|\x1b")
    return LogFormat(
        name=name,
        anchors=anchors,
        parse=parse,
        only=pattern,
        report=NEVER,
        following=following,
    )


ARGUMENTS = setting_format(
    "argument dump", _arguments, b" ....", only=rb" {2}[A-Za-z_][^ ]{0,320} \.{3,} \S"
)
SHELL_ECHO = setting_format(
    "shell echo",
    _echoes,
    # `+ ` alone is short, and on every line that a script prints with `set -x`
    *sorted({f"+ {name[0]}".encode() for name in _VARIABLES}),
    only=_ECHO_BEGINS.encode(),
)
DEEPSPEED_CONFIG = setting_format(
    "DeepSpeed configuration",
    _json,
    b'"train_batch_size"',
    b'"train_micro_batch_size_per_gpu"',
    b'"gradient_accumulation_steps"',
    b'"stage": ',
    following=1,
)
PARALLEL_SIZES = setting_format("parallel sizes", _sizes, b"using world size: ")
PARAMETER_COUNTS = setting_format("parameter counts", _parameters, b"umber of parameters ")
BATCH_COUNTS = setting_format(
    "counts of micro-batches and steps",
    named_settings(*_COUNTS),
    b"micro-batches to constant ",
    b"ation steps = ",
    b" batch size ",
    b"dist_world_size=",
    b"FLOPs per token: ",
    b"istributed world size: ",
    b"Tokens / micro-batch",
)
EPOCHS = setting_format("the Trainer's epochs", _epochs, b"Num examples = ", following=9)
MESH = setting_format("torchtitan's device mesh", _mesh, b" device mesh with ")
VOCABULARY = setting_format("vocabulary", named_settings(_VOCABULARY), b" dummy tokens (new size: ")
SETTINGS = (
    ARGUMENTS,
    SHELL_ECHO,
    DEEPSPEED_CONFIG,
    PARALLEL_SIZES,
    PARAMETER_COUNTS,
    BATCH_COUNTS,
    EPOCHS,
    MESH,
    VOCABULARY,
)
