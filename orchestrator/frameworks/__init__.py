"""The frameworks teralog knows, in one table."""

from orchestrator.errors import UserError, did_you_mean
from orchestrator.frameworks.base import Framework
from orchestrator.frameworks.deepspeed import DEEPSPEED
from orchestrator.frameworks.gpt import GPT
from orchestrator.frameworks.hf_deepspeed import HF_DEEPSPEED

FRAMEWORKS: dict[str, Framework] = {f.name: f for f in (GPT, DEEPSPEED, HF_DEEPSPEED)}


def framework(name: str) -> Framework:
    """Return the framework called `name`; UserError, with the nearest name, where there is none."""
    if name not in FRAMEWORKS:
        raise UserError(f"there is no framework {name!r}{did_you_mean(name, FRAMEWORKS)}")
    return FRAMEWORKS[name]
