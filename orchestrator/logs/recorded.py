"""Read what a results folder records about the run of a log, e.g. the campaign's warm-up."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from orchestrator.common.errors import UserError
from orchestrator.common.files import read_json
from orchestrator.store.submission import SUBMISSION, submitted_warmup
from parsers.summary.launches import Configured
from parsers.summary.warmup import Warmup

# <results>/<campaign>/<run>/attempt-<number>/output.log
_IN_RESULTS = re.compile(r"(?P<run>(?P<campaign>.+)/[^/]+)/attempt-[1-9][0-9]*/output\.log")

_SETTINGS = (
    "num_layers",
    "hidden_size",
    "num_attention_heads",
    "ffn_hidden_size",
    "vocab_size",
    "padded_vocab_size",
    "seq_length",
    "world_size",
    "precision",
    "activation_checkpointing",
)


@dataclass(frozen=True, slots=True)
class RecordedReading:
    """The content of run.json and campaign.json that helps to read the log of a run.

    campaign: the campaign's name. warmup: the campaign's warm-up. configured: the run's number of
    iterations and global batch size. config: other sizes and settings of the run, with the names
    that logs give them.
    """

    campaign: str
    warmup: Warmup
    configured: Configured
    config: Mapping[str, str]


def record_files(log: Path | str) -> tuple[Path, ...]:
    """Return the two files that decide how a log in a results folder is read.

    These are the run.json of the log's run and the campaign.json of its campaign. They need not
    exist. For a log outside a results folder, the result is empty.
    """
    match = _IN_RESULTS.fullmatch(os.path.abspath(log))  # noqa: PTH100  (removes `..`, too)
    if match is None:
        return ()
    return Path(match["run"], "run.json"), Path(match["campaign"], SUBMISSION)


def recorded_reading(log: Path | str) -> RecordedReading | None:
    """Return what run.json and campaign.json record about the run of a log.

    Returns None for a log outside a results folder. Also returns None if a file is missing, or if
    campaign.json lacks the warm-up. Raises UserError if a file is damaged or cannot be read.
    """
    files = record_files(log)
    if not files:
        return None
    run_file, campaign_file = files
    try:
        record = read_json(run_file)
        warmup = _warmup(campaign_file.parent, campaign_file.stat().st_mtime_ns)
        if record is None or warmup is None:
            return None
        configured = Configured(record.get("train_iters"), record.get("global_batch_size"))
        config = {
            name: str(record[name]) for name in _SETTINGS if record.get(name) not in (None, "")
        }
        return RecordedReading(campaign_file.parent.name, warmup, configured, config)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{campaign_file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{campaign_file}: warmup: {error}") from error


# A campaign of thousands of runs has one file; it is read again only after it was written again.
@lru_cache(maxsize=256)
def _warmup(campaign: Path, written_at: int) -> Warmup | None:
    return submitted_warmup(campaign)
