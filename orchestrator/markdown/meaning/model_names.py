"""Recognize published models by the names that people give them in tables and headings."""

import re
from dataclasses import dataclass
from functools import cache

from orchestrator.markdown.meaning.columns import without_markup
from orchestrator.model.named import NamedModel, named_models

_LONGEST = 100
# As in the names of repositories: meta-llama/Llama-3.1-8B.
_OWNER = re.compile(r"\s*[\w.-]+/(?=[\w.-]+\s*$)")
_PARENTHESES = re.compile(r"\([^()]*\)")
_NODES = re.compile(r"\b\d+[- ]?nodes?\b", re.IGNORECASE)
_TITLE = re.compile(r"\s*(?:model|network)(?:\s+name)?\s*[:=]\s*", re.IGNORECASE)
# V3 and 3 are the same version.
_VERSION_SIGN = re.compile(r"(?:(?<=[a-z])|(?<![a-z0-9]))v(?=\d)")
_WORD = re.compile(
    r"(?P<size>\d+x\d+(?:\.\d+)?b|\d+(?:\.\d+)?[bmt](?![a-z0-9]))"
    r"|(?<![a-z])a(?P<active>\d+(?:\.\d+)?b)(?![a-z0-9])"
    r"|(?P<version>\d+(?:\.\d+)?)|(?P<letters>[a-z]+)"
)
# Words about how a model is trained or who made it; they do not identify the model.
_NOISE = re.compile(
    r"meta|nvidia|google|openai|mistralai|ai|instruct|chat|base|hf|it|pt|moe|model|llm|dense"
    r"|pre|fine|(?:pre)?train(?:ing)?|(?:fine)?tun(?:e|ing)|sft|q?lora|peft|full|with|without|w|o"
    r"|mtp|dropless|tokendrop|bf|mxfp|fp|nvfp"
    r"|performance|benchmarks?|results|numbers|throughput"
)
_BILLIONS = {"b": 1.0, "m": 1e-3, "t": 1e3}
# The largest relative difference between a size in a name and the published one.
_ABOUT = 0.06


@dataclass(frozen=True, slots=True)
class _Name:
    """The parts of a model's name: its letters as one word, its version, and sizes such as 70b."""

    letters: str
    versions: tuple[str, ...]
    size: str | None
    active: str | None


@cache
def model_called(text: str) -> NamedModel | None:
    """Return the model with a name such as `Llama3 70B` or `Qwen3_30B_a3B`, or None.

    Returns None if the name may mean several models, e.g. `Mixtral`. Text in parentheses is
    ignored, and so are words about the training.
    """
    name = _parts(text)
    if not name.letters:
        return None
    fitting = list(dict.fromkeys(model for model, its in _names() if _fits(name, its, model)))
    exact = [model for model in fitting if _parts(model.name).size == name.size]
    candidates = exact or fitting
    return candidates[0] if len(candidates) == 1 else None


@cache
def _names() -> tuple[tuple[NamedModel, _Name], ...]:
    models = named_models().values()
    return tuple((model, _parts(name)) for model in models for name in (model.name, *model.also))


@cache
def _parts(text: str) -> _Name:
    if len(text) > _LONGEST:
        return _Name("", (), None, None)
    named = _NODES.sub(" ", _TITLE.sub("", without_markup(text)))
    plain = _PARENTHESES.sub(" ", _OWNER.sub("", named)).lower()
    words = [match.groupdict() for match in _WORD.finditer(_VERSION_SIGN.sub("", plain))]
    sizes = [word["size"] for word in words if word["size"]]
    active = [word["active"] for word in words if word["active"]]
    letters = [word["letters"] for word in words if word["letters"]]
    return _Name(
        letters="".join(word for word in letters if not _NOISE.fullmatch(word)),
        versions=tuple(word["version"] for word in words if word["version"]),
        size=sizes[0] if sizes else None,
        active=active[0] if active else None,
    )


def _fits(name: _Name, its: _Name, model: NamedModel) -> bool:
    if name.letters != its.letters or name.versions != its.versions:
        return False
    if name.active and its.active and name.active != its.active:
        return False
    return name.size is None or name.size == its.size or _is_about(name.size, model.size)


def _is_about(size: str, billions: float) -> bool:
    if "x" in size:
        return False
    return abs(float(size[:-1]) * _BILLIONS[size[-1]] - billions) <= _ABOUT * billions
