"""Parse the published logs of BigScience's GPT-2 experiments, if they are available."""

from pathlib import Path

import pytest

from parsers.formats.deepspeed import DEEPSPEED_PIPELINE
from parsers.formats.environment import ENVIRONMENT
from parsers.formats.megatron.iterations import MEGATRON
from parsers.formats.megatron.memory import MEGATRON_MEMORY
from parsers.formats.megatron.timers import TIMERS
from parsers.formats.settings import SETTINGS
from parsers.records import Setting, Step, Usage
from parsers.scan.reader import LogFormat, read_records

LOGS = Path(__file__).parents[3] / "shared" / "logs"
pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not at hand")

N4 = "gpt2-meg/meg_gpt2_base_n4_dp1_tp4_pp4-1809579.out"
N16 = "gpt2-meg/meg_gpt2_base_n16_dp1_tp4_pp16-1809577.out"
N64 = "gpt2-meg/meg_gpt2_base_n64_dp1_tp4_pp64-1809655.out"
PERF = "gpt2-meg/meg_gpt2_perf_n16.out"
PIPELINE = "gpt2-meg-ds-3d-old/meg_ds_3d_gpt2_perf_n16.out"
ZERO = "gpt2-meg-ds-zero/meg_ds_zero_gpt2_perf_n16_nbs48_ms48.out"
HF = "gpt2-hf-ds/hf_ds_gpt2_base_n4-1832555.out"


def records(name: str, *formats: LogFormat) -> list[object]:
    """Return the records that these formats read in a log, in the order of the log."""
    return list(read_records(LOGS / name, formats))


def settings(name: str, *sources: str) -> dict[str, set[str]]:
    """Return the values of each setting in a log.

    sources: if given, only settings from these kinds of text count, e.g. "echo".
    """
    values: dict[str, set[str]] = {}
    for record in records(name, *SETTINGS, *ENVIRONMENT):
        if isinstance(record, Setting) and (not sources or record.source in sources):
            values.setdefault(record.name, set()).add(record.value)
    return values


@pytest.mark.parametrize(
    ("name", "reports", "highest_mib"),
    [(N4, 16, 30806), (N16, 64, 30346), (N64, 256, 27196), (PIPELINE, 1, 23330), (ZERO, 1, 28234)],
)
def test_memory_reports_are_counted_not_lines(name: str, reports: int, highest_mib: int) -> None:
    """The number of memory reports is the number of ranks that report, not the number of lines.

    In some logs every rank reports its memory, in others only the first rank.
    """
    usages = [record for record in records(name, MEGATRON_MEMORY) if isinstance(record, Usage)]
    assert len(usages) == reports
    assert len({usage.rank for usage in usages}) == reports
    peaks = [usage.max_memory_reserved_gib or 0 for usage in usages]
    assert max(peaks) * 1024 == highest_mib


def test_deepspeed_s_line_repeats_megatron_s() -> None:
    """DeepSpeed's lines repeat the iterations and step times of Megatron's lines.

    They also have samples per second, which Megatron's lines do not have.
    """
    ours = [step for step in records(PIPELINE, MEGATRON) if isinstance(step, Step)]
    theirs = [step for step in records(PIPELINE, DEEPSPEED_PIPELINE) if isinstance(step, Step)]
    assert [step.iteration for step in theirs] == [step.iteration for step in ours] == [1, 2]
    for our, their in zip(ours, theirs, strict=True):
        assert their.step_seconds == pytest.approx(our.step_seconds, abs=0.002)
        assert their.samples_per_second == pytest.approx(1024 / (our.step_seconds or 0), abs=0.002)


@pytest.mark.parametrize(("name", "lines"), [(N4, 22), (N16, 11), (N64, 8), (PERF, 5), (ZERO, 4)])
def test_timers_are_below_each_report(name: str, lines: int) -> None:
    """Timers follow each report; one or two timers are also printed before the first report."""
    assert len(records(name, TIMERS)) == lines


@pytest.mark.parametrize(
    ("name", "nodes", "layers", "hidden", "pipeline", "world"),
    [(N4, 4, 40, 6144, 4, 16), (N16, 16, 64, 9216, 16, 64), (N64, 64, 64, 16384, 64, 256)],
)
def test_script_arguments_and_sentences_show_the_same_configuration(
    name: str, nodes: int, layers: int, hidden: int, pipeline: int, world: int
) -> None:
    """A setting has the same name and value in a script, in an argument and in a sentence."""
    expected = {
        "num_layers": {str(layers)},
        "hidden_size": {str(hidden)},
        "micro_batch_size": {"1"},
        "global_batch_size": {"4"},
        "num_microbatches": {"4"},
        "tensor_parallel_size": {"4"},
        "pipeline_parallel_size": {str(pipeline)},
        "data_parallel_size": {"1"},
        "world_size": {str(world)},
    }
    configuration = settings(name)
    assert {key: configuration[key] for key in expected} == expected
    assert configuration["nodes"] == {str(nodes)}
    assert configuration["gpu"] == {"Tesla V100-SXM2"}
    ranks = [key for key in configuration if key.startswith("parameters_on_rank_")]
    assert len(ranks) == world


def test_deepspeed_s_words_are_megatron_s() -> None:
    """DeepSpeed's settings are converted to Megatron's meaning.

    What DeepSpeed calls world size is the data-parallel size. What it calls micro-batch is
    `batch_size` in Megatron 1.1.5.
    """
    configuration = settings(ZERO)
    assert configuration["micro_batch_size"] == {"48"}
    assert configuration["global_batch_size"] == {"768"}
    assert configuration["data_parallel_size"] == {"16"}
    assert configuration["world_size"] == {"64"}
    assert configuration["zero_stage"] == {"3"}
    assert configuration["parameters"] == {"52005000000"}
    assert configuration["deepspeed_version"] == {"0.3.17+unknown"}
    configuration = settings(PIPELINE)
    assert configuration["num_microbatches"] == {"256"}
    assert configuration["nccl_version"] == {"2.7.8+cuda10.2"}
    assert len(configuration["host"]) == 16


def test_a_trainer_of_hugging_face_shows_its_batch() -> None:
    """The three sources of the batch size give the same value in a log of Hugging Face's Trainer.

    These are the Trainer's first lines, the script's commands and DeepSpeed's JSON.
    """
    configuration = settings(HF)
    assert configuration["global_batch_size"] == {"64"}
    assert configuration["micro_batch_size"] == {"4"}
    assert configuration["train_iters"] == {"16"}
    assert settings(HF, "echo")["hidden_size"] == {"7168"}
