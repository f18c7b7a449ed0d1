"""Table of all frameworks that teralog knows."""

from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.frameworks.base import Framework
from orchestrator.frameworks.colossalai.gpt import COLOSSALAI_GPT
from orchestrator.frameworks.colossalai.opt_lora import COLOSSALAI_OPT_LORA
from orchestrator.frameworks.deepspeed.hf import HF_DEEPSPEED
from orchestrator.frameworks.deepspeed.script import DEEPSPEED
from orchestrator.frameworks.gpt import GPT
from orchestrator.frameworks.megatron.deepspeed_3d import MEGATRON_DEEPSPEED_3D
from orchestrator.frameworks.megatron.deepspeed_zero import MEGATRON_DEEPSPEED_ZERO
from orchestrator.frameworks.megatron.lm import MEGATRON
from orchestrator.frameworks.oneflow_gpt import ONEFLOW_GPT

FRAMEWORKS: dict[str, Framework] = {
    framework.name: framework
    for framework in (
        GPT,
        DEEPSPEED,
        HF_DEEPSPEED,
        MEGATRON,
        MEGATRON_DEEPSPEED_3D,
        MEGATRON_DEEPSPEED_ZERO,
        COLOSSALAI_GPT,
        COLOSSALAI_OPT_LORA,
        ONEFLOW_GPT,
    )
}


def framework(name: str) -> Framework:
    """Return the framework called `name`.

    Raises UserError, with similar names as a hint, if there is no such framework.
    """
    if name not in FRAMEWORKS:
        raise UserError(f"there is no framework {name!r}{did_you_mean(name, FRAMEWORKS)}")
    return FRAMEWORKS[name]
