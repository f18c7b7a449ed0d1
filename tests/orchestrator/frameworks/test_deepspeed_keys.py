"""Keys of DeepSpeed's configuration: which it knows, has renamed, and refuses, as recorded."""

import importlib.util
import json
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.frameworks.deepspeed.known_keys import (
    renamed_keys,
    unknown_keys,
)

RECORDER = Path(__file__).parents[3] / "tools" / "record_deepspeed_keys.py"
RECORD = json.loads((files("orchestrator.frameworks.deepspeed") / "known_keys.json").read_text())


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    """Return the tool that records DeepSpeed's keys."""
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
                "DeepSpeed knows no key 'zero_optimization.stage3_param_persitence_threshold'; "
                "did you mean 'stage3_param_persistence_threshold'?"
            )
        ],
    ),
    "at the top": (
        {"zero_optimisation": {"stage": 3}},
        ["DeepSpeed knows no key 'zero_optimisation'; did you mean 'zero_optimization'?"],
    ),
    "a key of 2021 that is near one with a new name": (
        {"zero_optimization": {"cpu_offload_params": True}},
        [
            (
                "DeepSpeed knows no key 'zero_optimization.cpu_offload_params'; "
                "did you mean 'offload_param'?"
            )
        ],
    ),
    "two levels down": (
        {"zero_optimization": {"offload_param": {"devise": "cpu", "pin_memory": True}}},
        ["DeepSpeed knows no key 'zero_optimization.offload_param.devise'; did you mean 'device'?"],
    ),
    "several": (
        {"steps_per_prnt": 1, "bf16": {"enable": True}, "optimizer": {"kind": "Adam"}},
        [
            "DeepSpeed knows no key 'steps_per_prnt'; did you mean 'steps_per_print'?",
            "DeepSpeed knows no key 'bf16.enable'; did you mean 'enabled'?",
            "DeepSpeed knows no key 'optimizer.kind'; choose one of legacy_fusion, params, type",
        ],
    ),
    "a value where a section belongs": ({"fp16": True, "zero_optimization": None}, []),
    "what no list is known for": ({"optimizer": {"params": {"anything": 1}}}, []),
}


@pytest.mark.parametrize(("written", "problems"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_key_that_deepspeed_would_ignore_is_refused(written: dict[str, Any], problems: list[str]):
    """With its path and the nearest known key."""
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
                "DeepSpeed calls 'zero_optimization.stage3_gather_fp16_weights_on_model_save' "
                f"{GATHERED!r} today; write that"
            )
        ],
    ),
    "a short name": (
        {"zero_optimization": {"max_live_parameters": 1}},
        [
            (
                "DeepSpeed calls 'zero_optimization.max_live_parameters' "
                "'stage3_max_live_parameters' today; write that"
            )
        ],
    ),
    "a section": ({"bfloat16": {}}, ["DeepSpeed calls 'bfloat16' 'bf16' today; write that"]),
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
                "deepspeed: zero_optimization.cpu_offload is what the run's offload_optimizer "
                "says; take it out"
            ),
            (
                "deepspeed: zero_optimization.cpu_offload_param is what the run's offload_param "
                "says; take it out"
            ),
            (
                "deepspeed: zero_optimization.cpu_offload_use_pin_memory is what the run's "
                "offload_param or offload_optimizer says; take it out"
            ),
        ],
    ),
    "a value where a section belongs": ({"zero_optimization": None}, []),
}


@pytest.mark.parametrize(("written", "problems"), RENAMED.values(), ids=RENAMED)
def test_a_key_that_has_a_new_name_is_refused(written: dict[str, Any], problems: list[str]):
    """A parameter or what teralog writes goes by the new one; DeepSpeed takes no two of them."""
    assert list(renamed_keys(written)) == problems


def test_a_name_that_an_early_deepspeed_goes_by_is_kept():
    """No other is."""
    written = {"zero_optimization": {"stage3_gather_fp16_weights_on_model_save": False}}
    kept = ["zero_optimization.stage3_gather_fp16_weights_on_model_save"]
    assert not list(renamed_keys(written, kept))
    assert list(renamed_keys({"bfloat16": {}}, kept))


@pytest.mark.train
def test_deepspeed_itself_refuses_two_names_of_one_key():
    """The user's name of a key would be added to teralog's."""
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
    """The installed DeepSpeed is asked again, if it has the recorded version."""
    pytest.importorskip("deepspeed", reason="needs the train extra")
    installed = metadata.version("deepspeed")
    if installed != RECORD["deepspeed"]:
        pytest.skip(f"keys of DeepSpeed {RECORD['deepspeed']} are recorded, not of {installed}")
    assert recorder.known_keys() == RECORD["sections"]
    assert recorder.renamed_keys() == RECORD["renamed"]


def test_a_recording_dictionary_is_a_dictionary(recorder: ModuleType):
    """It notes every way in which a key is looked up, and nothing else changes."""
    recording = recorder.RecordingDict({"a": 1})
    assert ("a" in recording, "b" in recording) == (True, False)
    assert (recording["a"], recording.get("c"), recording.get("d", 2)) == (1, None, 2)
    with pytest.raises(KeyError):
        recording["e"]
    assert recording.asked == {"a", "b", "c", "d", "e"}


@pytest.mark.train
def test_deepspeed_itself_refuses_the_misspelt_key_today():
    """In the section it validates; ours says what was meant."""
    pytest.importorskip("deepspeed", reason="needs the train extra")
    from deepspeed.runtime.config import DeepSpeedConfig

    written = {
        "train_batch_size": 1,
        "zero_optimization": {"stage3_param_persitence_threshold": 10},
    }
    assert list(unknown_keys(written))
    with pytest.raises(ValueError, match="stage3_param_persitence_threshold"):
        DeepSpeedConfig(written)
