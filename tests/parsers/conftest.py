"""Fixtures that write logs of a few lines and read them."""

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
    """Return a function that writes a text to the file `log`, and returns the log's outcome."""

    def outcome_of(log: str, *, complete: bool = True) -> Outcome | None:
        path = tmp_path / "log"
        path.write_bytes(log.encode())
        return read_outcome(path, complete=complete)

    return outcome_of
