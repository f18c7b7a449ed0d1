"""Check the keys of a DeepSpeed configuration against teralog's record of valid keys.

The record also has old names of keys, and keys that only earlier versions have.
"""

import importlib.util
import json
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fixture_types import RunOf

from orchestrator.frameworks.deepspeed.known_keys import (
    renamed_keys,
    unknown_keys,
    with_todays_names,
)
from orchestrator.frameworks.table import FRAMEWORKS

RECORDER = Path(__file__).parents[3] / "tools" / "record_deepspeed_keys.py"
RECORD = json.loads((files("orchestrator.frameworks.deepspeed") / "known_keys.json").read_text())


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    """Return tools/record_deepspeed_keys.py as a module; it records DeepSpeed's keys."""
    spec = importlib.util.spec_from_file_location("record_deepspeed_keys", RECORDER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


UNKNOWN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "known ones": (
        {
            "train_batch_size": 8,
            "zero_optimization": {"stage3_param_persistence_threshold": 10, "overlap_comm": True},
            "fp16": {"enabled": True, "loss_scale": 0},
        },
        [],
    ),
    "the misspelt key of 2021": (
        {"zero_optimization": {"stage3_param_persitence_threshold": 10}},
        [
            (
                "DeepSpeed 0.19.8 has no key "
                "'zero_optimization.stage3_param_persitence_threshold'; did "
                "you mean 'stage3_param_persistence_threshold'?"
            )
        ],
    ),
    "at the top": (
        {"zero_optimisation": {"stage": 3}},
        ["DeepSpeed 0.19.8 has no key 'zero_optimisation'; did you mean 'zero_optimization'?"],
    ),
    "a key of 2021 that is near one with a new name": (
        {"zero_optimization": {"cpu_offload_params": True}},
        [
            (
                "DeepSpeed 0.19.8 has no key 'zero_optimization.cpu_offload_params'; did you mean "
                "'offload_param'?"
            )
        ],
    ),
    "two levels down": (
        {"zero_optimization": {"offload_param": {"devise": "cpu", "pin_memory": True}}},
        [
            (
                "DeepSpeed 0.19.8 has no key 'zero_optimization.offload_param.devise'; did you "
                "mean 'device'?"
            )
        ],
    ),
    "several": (
        {"steps_per_prnt": 1, "bf16": {"enable": True}, "optimizer": {"kind": "Adam"}},
        [
            "DeepSpeed 0.19.8 has no key 'steps_per_prnt'; did you mean 'steps_per_print'?",
            "DeepSpeed 0.19.8 has no key 'bf16.enable'; did you mean 'enabled'?",
            (
                "DeepSpeed 0.19.8 has no key 'optimizer.kind'; choose one of legacy_fusion, "
                "params, type"
            ),
        ],
    ),
    "a value where a section belongs": ({"fp16": True, "zero_optimization": None}, []),
    "what no list is known for": ({"optimizer": {"params": {"anything": 1}}}, []),
}


@pytest.mark.parametrize(("written", "problems"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_key_that_deepspeed_would_ignore_is_refused(written: dict[str, Any], problems: list[str]):
    """The message about an unknown key of DeepSpeed has its path, and the nearest known key."""
    assert list(unknown_keys(written)) == problems


GATHERED = "stage3_gather_16bit_weights_on_model_save"
RENAMED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "names of today": (
        {
            "bf16": {"enabled": True},
            "zero_optimization": {GATHERED: True, "offload_optimizer": {"pin_memory": True}},
        },
        [],
    ),
    "a key with a new name": (
        {"zero_optimization": {"stage3_gather_fp16_weights_on_model_save": False}},
        [
            (
                "DeepSpeed has renamed "
                "'zero_optimization.stage3_gather_fp16_weights_on_model_save' "
                f"to {GATHERED!r}; use the new name"
            )
        ],
    ),
    "a short name": (
        {"zero_optimization": {"max_live_parameters": 1}},
        [
            (
                "DeepSpeed has renamed 'zero_optimization.max_live_parameters' to "
                "'stage3_max_live_parameters'; use the new name"
            )
        ],
    ),
    "two names of one key": (
        {"zero_optimization": {"stage3_gather_fp16_weights_on_model_save": True, GATHERED: True}},
        [
            (
                "deepspeed: zero_optimization.stage3_gather_fp16_weights_on_model_save and "
                f"{GATHERED} are two names of one key; remove "
                "stage3_gather_fp16_weights_on_model_save"
            )
        ],
    ),
    "a section": (
        {"bfloat16": {}},
        ["DeepSpeed has renamed 'bfloat16' to 'bf16'; use the new name"],
    ),
    "offload": (
        {
            "zero_optimization": {
                "cpu_offload": False,
                "cpu_offload_param": True,
                "cpu_offload_use_pin_memory": True,
            }
        },
        [
            (
                "deepspeed: zero_optimization.cpu_offload is set by the run's offload_optimizer; "
                "remove it"
            ),
            (
                "deepspeed: zero_optimization.cpu_offload_param is set by the run's offload_param; "
                "remove it"
            ),
            (
                "deepspeed: zero_optimization.cpu_offload_use_pin_memory is set by the run's "
                "offload_param or offload_optimizer; remove it"
            ),
        ],
    ),
    "a value where a section belongs": ({"zero_optimization": None}, []),
}


@pytest.mark.parametrize(("written", "problems"), RENAMED.values(), ids=RENAMED)
def test_a_key_that_has_a_new_name_is_refused(written: dict[str, Any], problems: list[str]):
    """A configuration with an old name of a key is refused, and the message has the new name."""
    assert list(renamed_keys(written)) == problems


def test_a_name_that_an_early_deepspeed_uses_is_kept():
    """For an early version of DeepSpeed, an old name of a key is accepted if that version uses it.

    Other old names are still refused.
    """
    written = {"zero_optimization": {"stage3_gather_fp16_weights_on_model_save": False}}
    kept = ["zero_optimization.stage3_gather_fp16_weights_on_model_save"]
    assert not list(renamed_keys(written, kept))
    assert list(renamed_keys({"bfloat16": {}}, kept))


TODAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "an old name": (
        {"zero_optimization": {"stage3_gather_fp16_weights_on_model_save": True}},
        {"zero_optimization": {GATHERED: True}},
    ),
    "a field's own name": (
        {"zero_optimization": {"max_live_parameters": 1, "overlap_comm": True}},
        {"zero_optimization": {"stage3_max_live_parameters": 1, "overlap_comm": True}},
    ),
    "a section": ({"bfloat16": {"enabled": True}}, {"bf16": {"enabled": True}}),
    "a parameter of the run": (
        {"zero_optimization": {"cpu_offload": True}},
        {"zero_optimization": {"cpu_offload": True}},
    ),
    "both names": ({"bfloat16": {}, "bf16": {}}, {"bfloat16": {}, "bf16": {}}),
    "no section": ({"zero_optimization": None}, {"zero_optimization": None}),
}


@pytest.mark.parametrize(("written", "today"), TODAYS.values(), ids=TODAYS)
def test_a_key_gets_the_name_that_it_has_today(written: dict[str, Any], today: dict[str, Any]):
    """An old name of a key is replaced by today's name.

    The old name stays if today's key needs a different value, or if both names are given.
    """
    assert with_todays_names(written) == today
    assert with_todays_names(today) == today


OF_TODAY: list[dict[str, Any]] = [
    {"framework": "gpt", "strategy": "zero3"},
    {"framework": "deepspeed", "script": "a", "zero_stage": 3},
    {"framework": "hf_deepspeed", "zero_stage": 3},
]


@pytest.mark.parametrize("values", OF_TODAY, ids=str)
@pytest.mark.parametrize("name", [GATHERED, "stage3_gather_fp16_weights_on_model_save"])
def test_both_names_of_a_key_are_accepted(run_of: RunOf, values: dict[str, Any], name: str):
    """The user may give a key by its old or its new name, even if teralog writes the key itself.

    The configuration then has the key once, with the user's value.
    """
    run = run_of(**values, deepspeed={"zero_optimization": {name: True}})
    framework = FRAMEWORKS[run.framework]
    assert list(framework.checks.problems(run)) == []
    [config] = framework.start.config_files(run).values()
    section = config["zero_optimization"]
    assert [section[key] for key in section if "gather" in key] == [True]


EARLIER = [
    {"aio": {"thread_count": 2}},
    {"elasticity": {"enabled": True}},
    {"amp": {"enabled": True}},
    {"zero_optimization": {"mics_shard_size": 8}},
]


@pytest.mark.parametrize("written", EARLIER, ids=str)
@pytest.mark.parametrize("values", OF_TODAY, ids=str)
def test_a_key_of_an_earlier_deepspeed_is_only_a_warning(
    run_of: RunOf, values: dict[str, Any], written: dict[str, Any]
):
    """A key gives a warning, not an error, if only earlier versions of DeepSpeed have it.

    The cluster may have an earlier version.
    """
    framework = FRAMEWORKS[values["framework"]]
    run = run_of(**values, deepspeed=written)
    assert list(framework.checks.problems(run)) == []
    [(section, keys)] = written.items()
    name = next(iter(keys)) if section in ("aio", "zero_optimization") else None
    where = ".".join(filter(None, (section, name)))
    [warning] = framework.checks.warnings(run)
    assert warning.startswith(f"deepspeed: {where} is a key of earlier versions; DeepSpeed")
    assert list(framework.checks.warnings(run_of(**values))) == []


@pytest.mark.train
def test_deepspeed_itself_refuses_or_ignores_what_only_earlier_versions_have():
    """DeepSpeed refuses keys that it has removed, and ignores unknown keys of `aio`."""
    pytest.importorskip("deepspeed", reason="needs the train extra")
    from deepspeed.runtime.config import DeepSpeedConfig, DeepSpeedConfigError

    for name in RECORD["earlier"][""]:
        with pytest.raises(DeepSpeedConfigError, match="removed"):
            DeepSpeedConfig({"train_batch_size": 1, name: {}})
    for name in RECORD["earlier"]["zero_optimization"]:
        with pytest.raises(DeepSpeedConfigError, match="removed"):
            DeepSpeedConfig({"train_batch_size": 1, "zero_optimization": {name: 1}})
    config = DeepSpeedConfig({"train_batch_size": 1, "aio": {"thread_count": 2}})
    assert "thread_count" not in config.aio_config


@pytest.mark.train
def test_deepspeed_itself_refuses_two_names_of_one_key():
    """DeepSpeed refuses a configuration with both the old and the new name of a key.

    So if the user gives one name, teralog must not write the other.
    """
    pytest.importorskip("deepspeed", reason="needs the train extra")
    from deepspeed.runtime.config import DeepSpeedConfig

    for name, today in RECORD["renamed"]["zero_optimization"].items():
        if not today.startswith("offload_"):
            section = {"stage": 3, name: 1, today: 1}
            assert list(renamed_keys({"zero_optimization": section}))
            with pytest.raises((AssertionError, ValueError), match=name):
                DeepSpeedConfig({"train_batch_size": 1, "zero_optimization": section})


@pytest.mark.train
def test_the_record_has_the_keys_that_deepspeed_knows(recorder: ModuleType):
    """Teralog's record of keys equals the keys of DeepSpeed itself.

    This is tested only if the installed DeepSpeed has the recorded version.
    """
    pytest.importorskip("deepspeed", reason="needs the train extra")
    installed = metadata.version("deepspeed")
    if installed != RECORD["deepspeed"]:
        pytest.skip(f"keys of DeepSpeed {RECORD['deepspeed']} are recorded, not of {installed}")
    assert recorder.known_keys() == RECORD["sections"]
    assert recorder.renamed_keys() == RECORD["renamed"]
    assert recorder.earlier_keys() == RECORD["earlier"]


def test_a_recording_dictionary_is_a_dictionary(recorder: ModuleType):
    """`RecordingDict` records every key that is looked up, and otherwise behaves like a dict."""
    recording = recorder.RecordingDict({"a": 1})
    assert ("a" in recording, "b" in recording) == (True, False)
    assert (recording["a"], recording.get("c"), recording.get("d", 2)) == (1, None, 2)
    with pytest.raises(KeyError):
        recording["e"]
    assert recording.asked == {"a", "b", "c", "d", "e"}


@pytest.mark.train
def test_deepspeed_itself_refuses_the_misspelt_key_today():
    """Both teralog and DeepSpeed refuse a misspelt key of the section `zero_optimization`."""
    pytest.importorskip("deepspeed", reason="needs the train extra")
    from deepspeed.runtime.config import DeepSpeedConfig

    written = {
        "train_batch_size": 1,
        "zero_optimization": {"stage3_param_persitence_threshold": 10},
    }
    assert list(unknown_keys(written))
    with pytest.raises(ValueError, match="stage3_param_persitence_threshold"):
        DeepSpeedConfig(written)
