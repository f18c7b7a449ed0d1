"""Parse the result that Hugging Face's Trainer prints as a dictionary."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from reports import cases, parse

from parsers.formats.hf_trainer import HF_TRAINER_RESULT
from parsers.records import Record, RunTotals

LOGS = Path(__file__).parents[3] / "shared" / "logs" / "gpt2-hf-ds"


DICTIONARY = (
    "{'train_runtime': 437.8544, 'train_samples_per_second': 25.132,"
    " 'train_steps_per_second': 3.145, 'train_loss': 0.456, 'epoch': 3.0}"
)
QUOTED = (
    "{'train_runtime': '7767', 'train_samples_per_second': '4.12',"
    " 'train_steps_per_second': '0.257', 'train_loss': '1.2e-05', 'epoch': '142.9'}"
)
TOTALS = RunTotals(
    train_seconds=437.8544,
    samples_per_second=25.132,
    steps_per_second=3.145,
    mean_loss=0.456,
    offset=7,
)
BAR = " 20%|██        | 4/20 [00:48<03:12, 12.01s/it]"

RESULTS = {
    "4.7 and later": (DICTIONARY, [TOTALS]),
    "4.7, without a loss": (
        DICTIONARY.replace(" 'train_loss': 0.456,", ""),
        [
            RunTotals(
                train_seconds=437.8544, samples_per_second=25.132, steps_per_second=3.145, offset=7
            )
        ],
    ),
    "5.0: numbers in quotes": (
        QUOTED,
        [
            RunTotals(
                train_seconds=7767,
                samples_per_second=4.12,
                steps_per_second=0.257,
                mean_loss=1.2e-05,
                offset=7,
            )
        ],
    ),
    "with axolotl's memory": (
        DICTIONARY.replace("'epoch'", "'memory/max_allocated (GiB)': 2.5, 'epoch'"),
        [replace(TOTALS, max_memory_allocated_gib=2.5)],
    ),
    "4.6 and earlier: the rate is of steps": (
        "{'train_runtime': 437.8544, 'train_samples_per_second': 3.145, 'epoch': 3.0}",
        [RunTotals(train_seconds=437.8544, offset=7)],
    ),
    "tokens are those of one device": (
        DICTIONARY.replace(" 'train_loss'", " 'train_tokens_per_second': 812.5, 'train_loss'"),
        [TOTALS, RunTotals(tokens_per_second=812.5, per_gpu=True, offset=7)],
    ),
    "memory and counts too": (
        DICTIONARY.replace("'epoch'", "'train_mem_cpu_alloc_delta': -1024, 'epoch'"),
        [TOTALS],
    ),
    "a mean loss of inf": (
        DICTIONARY.replace("0.456", "inf"),
        [
            RunTotals(
                train_seconds=437.8544,
                samples_per_second=25.132,
                steps_per_second=3.145,
                mean_loss=float("inf"),
                offset=7,
            )
        ],
    ),
    "behind a bar, after its erasure": (BAR + "\r" + " " * 60 + "\r" + DICTIONARY, [TOTALS]),
    "behind a cursor's movement": ("\r" + " " * 40 + "\r\x1b[A" + DICTIONARY, [TOTALS]),
    "two nodes on one line": (DICTIONARY + DICTIONARY, [TOTALS, TOTALS]),
    "torn by another node": (DICTIONARY[:30] + DICTIONARY, [TOTALS]),
    "a report of the way before": ("{'loss': nan, 'epoch': 3.0}" + DICTIONARY, [TOTALS]),
    "in the object that train() returns": (
        f"TrainOutput(global_step=12, training_loss=0.456, metrics={DICTIONARY})",
        [TOTALS],
    ),
}

NO_RESULTS = (
    "",
    "# " + DICTIONARY,  # quoted in a script
    "{'loss': 2.2788, 'learning_rate': 5e-05, 'epoch': 0.31}",
    "{'loss': 2.27, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.31}",
    "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 0.0, 'epoch': 0.31}",
    # with include_num_input_tokens_seen: the training so far
    "{'loss': '3.636', 'epoch': '0.25', 'train_runtime': '0.03', 'train_tokens_per_second': '97'}",
    "{'eval_loss': 3.6, 'eval_runtime': 0.01, 'eval_samples_per_second': 1404.0, 'epoch': 1.0}",
    "{'train_runtime': 437.8544, 'epoch': 3.0}",  # the clock stood still: no rates
    "{'train_runtime': nan, 'train_samples_per_second': 25.132, 'epoch': 3.0}",
    '{"train_runtime": 437.8544, "train_samples_per_second": 25.132}',
    DICTIONARY[1:],
    DICTIONARY[:-1],
    DICTIONARY.replace("'train_runtime'", "'eval_runtime'"),
    DICTIONARY.replace("437.8544", "437,8544"),
    DICTIONARY.replace("437.8544", "'437.8544"),
    DICTIONARY.replace("437.8544", "4" * 5000),
    DICTIONARY.replace(",", "{"),
    BAR,
    "Downloading: 100%|██████████| 1.04M/1.04M [00:00<00:00, 2.42MB/s] 'train_runtime': 3",
)


@cases(RESULTS, NO_RESULTS)
def test_the_result_is_read_whatever_is_around_it(text: str, records: list[Record]) -> None:
    """The result dictionary of every Trainer version is read, with any text around it.

    Dictionaries of other reports, torn dictionaries and progress bars give no record.
    """
    assert parse(HF_TRAINER_RESULT, text) == records


def test_a_mean_loss_of_nan_is_kept() -> None:
    """A mean loss of nan is kept, because it shows that the training diverged."""
    (totals,) = parse(HF_TRAINER_RESULT, DICTIONARY.replace("0.456", "nan"))
    assert isinstance(totals, RunTotals)
    assert str(totals.mean_loss) == "nan"


@pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not next to the checkout")
@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("hf_ds_gpt2_base_n4-1832555.out", {1.088: 4}),
        ("hf_ds_gpt2_perf_n16_bs4-mbs8.out", {3.663: 15, 3.664: 1}),
    ],
)
def test_published_logs_give_their_known_values(name: str, rates: dict[float, int]) -> None:
    """In the published logs, several nodes print the result; each copy has the known rate."""
    lines = (LOGS / name).read_text().split("\n")
    records = [record for line in lines for record in parse(HF_TRAINER_RESULT, line)]
    assert Counter(r.samples_per_second for r in records if isinstance(r, RunTotals)) == rates
