"""Find the line of a log at which the job's last start begins; Slurm can requeue a job."""

from pathlib import Path

import pytest

from orchestrator.collect import restarts
from orchestrator.collect.restarts import last_start

AGAIN = "[teralog] job 7 starts again: restart {}\n"


@pytest.mark.parametrize(
    ("log", "rest"),
    [
        ("", ""),
        ("one\ntwo\n", "one\ntwo\n"),
        (f"one\n{AGAIN.format(1)}two\n", f"{AGAIN.format(1)}two\n"),
        (f"one\n{AGAIN.format(1)}two\n{AGAIN.format(2)}", AGAIN.format(2)),
        (AGAIN.format(1), AGAIN.format(1)),
        (f"one {AGAIN.format(1)}two\n", f"one {AGAIN.format(1)}two\n"),
        (f"one\n{AGAIN.format('x')}two\n", f"one\n{AGAIN.format('x')}two\n"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_a_log_is_read_from_the_line_of_its_last_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, rest: str, chunk: int
) -> None:
    """A log is read from the line at which the job's last start begins.

    A log with only one start is read from its first line.
    """
    monkeypatch.setattr(restarts, "_CHUNK_BYTES", chunk)
    path = tmp_path / "output.log"
    path.write_text(log)
    assert path.read_text()[last_start(path) :] == rest
