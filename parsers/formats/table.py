"""All log formats, in one table."""

from parsers.formats.colossalai import COLOSSALAI_EXAMPLES, COLOSSALAI_MODELS, COLOSSALAI_THROUGHPUT
from parsers.formats.declared.fine_tuners import (
    LIBAI,
    LITGPT,
    LITGPT_2023,
    LITGPT_MEMORY,
    MISTRAL,
    MLX,
    MMENGINE,
    XTUNER,
)
from parsers.formats.declared.json_lines import JSON_LINES
from parsers.formats.declared.maxtext import MAXTEXT
from parsers.formats.declared.metric_blocks import COMPOSER, FMS_FSDP, OLMO_CORE
from parsers.formats.declared.mlperf import (
    MLPERF,
    MLPERF_RUN_TIME,
    MLPERF_THROUGHPUT,
)
from parsers.formats.declared.nanogpt import (
    BUILD_NANOGPT,
    LLM_C,
    LLM_C_LOSSES,
    LLM_C_PYTORCH,
    MODDED_NANOGPT,
    MODDED_NANOGPT_RESULT,
    NANOCHAT,
    NANOGPT,
    NANOGPT_MEMORY,
    PARAMETER_GOLF,
)
from parsers.formats.declared.nemo import MEGATRON_BRIDGE, NEMO, NEMO_1
from parsers.formats.declared.paddle import PADDLE, PADDLE_GPT
from parsers.formats.declared.reinforcement import OPENRLHF, SLIME, VERL, VERL_SFT
from parsers.formats.declared.scripts import (
    FAIRSEQ,
    FAIRSEQ_JSON,
    INTERNEVO,
    LLAMA2_C,
    NEMO_RL,
    TORCHTUNE,
    TORCHTUNE_BAR,
    TRANSFORMER_XL,
)
from parsers.formats.declared.small_trainers import AUTOMODEL_CONSOLE, PICOTRON, PRIME, PRIME_RL
from parsers.formats.declared.torchtitan import TORCHTITAN, TORCHTITAN_2024
from parsers.formats.deepspeed import DEEPSPEED_OVERFLOW, DEEPSPEED_PIPELINE, DEEPSPEED_TIMER
from parsers.formats.deepspeed_chat import DEEPSPEED_CHAT
from parsers.formats.deepspeed_memory import DEEPSPEED_MEMORY
from parsers.formats.deepspeed_profiler import DEEPSPEED_PROFILER
from parsers.formats.environment import ENVIRONMENT
from parsers.formats.gpt_workload import GPT_WORKLOAD
from parsers.formats.hf_trainer import HF_TRAINER_METRICS, HF_TRAINER_REPORTS, HF_TRAINER_RESULT
from parsers.formats.megatron.iterations import MEGATRON, NANOTRON, NANOTRON_2025
from parsers.formats.megatron.iterations_2019 import MEGATRON_2019
from parsers.formats.megatron.memory import BRIDGE_MEMORY, MEGATRON_MEMORY
from parsers.formats.megatron.timers import MEGATRON_RANK_TIMERS, MEGATRON_TIMERS, TIMERS
from parsers.formats.nvidia_smi import (
    NVIDIA_SMI_CSV,
    NVIDIA_SMI_DMON,
    NVIDIA_SMI_MEMORY_CSV,
    NVIDIA_SMI_TABLE,
)
from parsers.formats.oneflow import ONEFLOW_ARGUMENTS, ONEFLOW_MEMORY, ONEFLOW_STEP, ONEFLOW_TABLE
from parsers.formats.settings import SETTINGS
from parsers.formats.trainer_state import TRAINER_RESULT, TRAINER_STATE, TRAINER_STATE_SETTINGS
from parsers.scan.reader import AnyFormat, LogFormat

DECLARED: tuple[LogFormat, ...] = (
    TORCHTITAN,
    TORCHTITAN_2024,
    NEMO,
    NEMO_1,
    MEGATRON_BRIDGE,
    MEGATRON_2019,
    MAXTEXT,
    VERL,
    VERL_SFT,
    SLIME,
    OPENRLHF,
    MLPERF,
    NANOGPT,
    LLM_C,
    LLM_C_LOSSES,
    LLM_C_PYTORCH,
    BUILD_NANOGPT,
    NANOCHAT,
    MODDED_NANOGPT,
    MODDED_NANOGPT_RESULT,
    PARAMETER_GOLF,
    LITGPT,
    LITGPT_2023,
    PADDLE,
    PADDLE_GPT,
    OLMO_CORE,
    COMPOSER,
    FMS_FSDP,
    LLAMA2_C,
    TORCHTUNE,
    TORCHTUNE_BAR,
    INTERNEVO,
    NEMO_RL,
    PICOTRON,
    PRIME,
    PRIME_RL,
    AUTOMODEL_CONSOLE,
    XTUNER,
    MMENGINE,
    LIBAI,
    MLX,
    MISTRAL,
    FAIRSEQ,
    FAIRSEQ_JSON,
    TRANSFORMER_XL,
    *JSON_LINES,
)
"""Formats of one line for each report."""

_CONFIGURATION = (*SETTINGS, *ENVIRONMENT, TRAINER_STATE_SETTINGS)
CONFIGURATION_FORMATS = frozenset(log_format.name for log_format in _CONFIGURATION)
"""Names of those that tell how a run was set up, and nothing of how it went."""

_OF_SPEED: tuple[AnyFormat, ...] = (
    GPT_WORKLOAD,
    MEGATRON,
    NANOTRON,
    NANOTRON_2025,
    DEEPSPEED_PIPELINE,
    DEEPSPEED_CHAT,
    DEEPSPEED_TIMER,
    HF_TRAINER_RESULT,
    HF_TRAINER_REPORTS,
    HF_TRAINER_METRICS,
    TRAINER_STATE,
    TRAINER_RESULT,
    COLOSSALAI_THROUGHPUT,
    COLOSSALAI_EXAMPLES,
    ONEFLOW_STEP,
    ONEFLOW_TABLE,
    MLPERF_THROUGHPUT,
    *DECLARED,
)

SPEED_FORMATS = tuple(log_format.name for log_format in _OF_SPEED)
"""Names of those in which programs say how fast they are, by the first of which a log is known."""

ALL_FORMATS: tuple[AnyFormat, ...] = (
    GPT_WORKLOAD,
    MEGATRON,
    NANOTRON,
    NANOTRON_2025,
    MEGATRON_MEMORY,
    BRIDGE_MEMORY,
    NANOGPT_MEMORY,
    LITGPT_MEMORY,
    TIMERS,
    MEGATRON_TIMERS,
    MEGATRON_RANK_TIMERS,
    DEEPSPEED_TIMER,
    DEEPSPEED_CHAT,
    DEEPSPEED_PIPELINE,
    DEEPSPEED_OVERFLOW,
    DEEPSPEED_MEMORY,
    DEEPSPEED_PROFILER,
    HF_TRAINER_RESULT,
    HF_TRAINER_REPORTS,
    HF_TRAINER_METRICS,
    COLOSSALAI_MODELS,
    COLOSSALAI_THROUGHPUT,
    COLOSSALAI_EXAMPLES,
    ONEFLOW_STEP,
    ONEFLOW_TABLE,
    ONEFLOW_MEMORY,
    ONEFLOW_ARGUMENTS,
    NVIDIA_SMI_TABLE,
    NVIDIA_SMI_CSV,
    NVIDIA_SMI_MEMORY_CSV,
    NVIDIA_SMI_DMON,
    TRAINER_STATE,
    TRAINER_RESULT,
    MLPERF_THROUGHPUT,
    MLPERF_RUN_TIME,
    *DECLARED,
    *_CONFIGURATION,
)
