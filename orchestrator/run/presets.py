"""List model shapes by name: published sizes whose names are used in benchmarks."""

from orchestrator.common.errors import UserError, did_you_mean
from orchestrator.run.shape import ModelShape

GPT2_VOCAB_SIZE = 50257
OPT_VOCAB_SIZE = 50272


def _gpt2(hidden_size: int, num_layers: int, heads: int, seq_length: int = 1024) -> ModelShape:
    return ModelShape(num_layers, hidden_size, heads, GPT2_VOCAB_SIZE, seq_length)


def _opt(hidden_size: int, num_layers: int, heads: int) -> ModelShape:
    return ModelShape(num_layers, hidden_size, heads, OPT_VOCAB_SIZE, 2048)


def _v100(hidden_size: int, num_layers: int) -> ModelShape:
    return ModelShape(num_layers, hidden_size, 32, GPT2_VOCAB_SIZE, 1024)


# ColossalAI applications/Chat/benchmarks/benchmark_gpt_dummy.py (2023).
GPT = {
    "s": _gpt2(768, 12, 12),
    "m": _gpt2(1024, 24, 16),
    "l": _gpt2(1280, 36, 20),
    "xl": _gpt2(1600, 48, 25),
    "2b": _gpt2(2048, 40, 16),
    "4b": _gpt2(2304, 64, 16),
    "6b": _gpt2(4096, 30, 16),
    "8b": _gpt2(4096, 40, 16),
    "10b": _gpt2(4096, 50, 16),
    "12b": _gpt2(4096, 60, 16),
    "15b": _gpt2(4096, 78, 16),
    "18b": _gpt2(4096, 90, 16),
    "20b": _gpt2(8192, 25, 16),
    "24b": _gpt2(8192, 30, 16),
    "28b": _gpt2(8192, 35, 16),
    "32b": _gpt2(8192, 40, 16),
    "36b": _gpt2(8192, 45, 16),
    "40b": _gpt2(8192, 50, 16),
    "175b": _gpt2(12288, 96, 96, seq_length=2048),
}

# benchmark_opt_lora_dummy.py of the same folder. If it loads facebook/opt-*, the shape is that of
# the loaded model.
OPT = {
    "opt-125m": _opt(768, 12, 12),
    "opt-350m": _opt(1024, 24, 16),
    "opt-700m": _opt(1280, 36, 20),
    "opt-1.3b": _opt(2048, 24, 32),
    "opt-2.7b": _opt(2560, 32, 32),
    "opt-3.5b": _opt(3072, 32, 32),
    "opt-5.5b": _opt(3840, 32, 32),
    "opt-6.7b": _opt(4096, 32, 32),
    "opt-10b": _opt(5120, 32, 32),
    "opt-13b": _opt(5120, 40, 40),
}

# The two shapes of OneFlow's train_gpt2.sh (December 2020), which trains with n_vocab 50304.
ONEFLOW = {
    "small": ModelShape(12, 768, 12, 50304, 1024),
    "medium": ModelShape(24, 1024, 16, 50304, 1024),
}

# BigScience's GPT2 experiments on V100 (2021). The page calls a model 7.5B; its scripts call it 7B.
V100_PAGE = {
    "7B": _v100(4096, 36),
    "7.5B": _v100(4096, 36),
    "14B": _v100(6144, 32),
    "18B": _v100(6144, 40),
    "25B": _v100(7168, 40),
    "30B": _v100(7168, 48),
    "39B": _v100(8192, 48),
    "52B": _v100(8192, 64),
    "65B": _v100(9216, 64),
    "81B": _v100(10240, 64),
    "97B": _v100(11264, 64),
    "116B": _v100(12288, 64),
    "136B": _v100(13312, 64),
    "158B": _v100(14336, 64),
    "181B": _v100(15360, 64),
    "206B": _v100(16384, 64),
}

# The OPT keys are also valid without their prefix, except 10b, which is a key of GPT.
PRESETS: dict[str, ModelShape] = {
    **{key.removeprefix("opt-"): shape for key, shape in OPT.items()},
    **GPT,
    **OPT,
    **ONEFLOW,
    **V100_PAGE,
}


def preset(key: str) -> ModelShape:
    """Return the preset called `key`.

    If no preset has exactly this name, return the preset whose name differs only in upper and lower
    case, e.g. `52B` for `52b`. But `18b` and `18B` are two presets: `18b` is a GPT of ColossalAI's
    benchmark, and `18B` is a model of BigScience's experiments on V100. Raises UserError, with the
    most similar name, if there is no such preset.
    """
    if key in PRESETS:
        return PRESETS[key]
    for other in _in_other_case(key):
        return PRESETS[other]
    raise UserError(f"there is no model preset {key!r}{did_you_mean(key, PRESETS)}")


def is_preset(key: str) -> bool:
    """Return whether there is a preset called `key`; upper and lower case make no difference."""
    return key in PRESETS or bool(_in_other_case(key))


def other_preset_note(key: str) -> str | None:
    """Return a sentence on a preset whose name differs from `key` only in upper and lower case.

    Returns None if there is no such preset, or if both presets have the same sizes.
    """
    others = [other for other in _in_other_case(key) if PRESETS[other] != preset(key)]
    if not others:
        return None
    (other,) = others
    return (
        f"{key} has {_described(preset(key))}; the preset {other} is another model, with "
        f"{_described(preset(other))}"
    )


def _in_other_case(key: str) -> list[str]:
    return [name for name in PRESETS if name != key and name.casefold() == key.casefold()]


def _described(shape: ModelShape) -> str:
    return f"{shape.num_layers} layers of width {shape.hidden_size}"
