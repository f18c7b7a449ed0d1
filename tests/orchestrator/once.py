"""Share slow results, mainly trainings, among test processes, so that each is made once."""

import fcntl
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

Made = TypeVar("Made")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> Made:
    """Return the result of `make` for a folder; only one test process calls `make`.

    name: what is made; equal names share one result. make: takes the folder, and returns a value
    that can be pickled. The other processes wait, and then read the pickled value. If `make` fails
    in one process, the next process calls it again.
    """
    # The folder of a pytest-xdist process is inside the folder of the whole run.
    root = factory.getbasetemp()
    folder = (root.parent if root.name.startswith("popen-") else root) / f"once-{name}"
    folder.mkdir(exist_ok=True)
    made = folder / "made.pickle"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            value = make(folder)
            made.write_bytes(pickle.dumps(value))
        return pickle.loads(made.read_bytes())  # type: ignore[no-any-return]
