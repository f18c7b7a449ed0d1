"""Logs made of a few lines."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from parsers.records import Outcome
from parsers.runs.outcome import read_outcome

# The folder of printers that several tests use; tests are not a package.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def outcome(tmp_path: Path) -> Callable[..., Outcome | None]:
    """Return a function that returns the outcome of a log with some text, in `tmp_path/log`."""

    def outcome_of(log: str, *, complete: bool = True) -> Outcome | None:
        path = tmp_path / "log"
        path.write_bytes(log.encode())
        return read_outcome(path, complete=complete)

    return outcome_of
