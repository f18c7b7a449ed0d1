"""Read a training program's log: from bytes to records, each with its line.

`parsers.read("slurm-123.out")` returns the runs in a log. `parsers.read_pair` reads two
logs at once: one with a job's output and one with its errors. `parsers.read_appended`
returns the records that were added to a log since an earlier call.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parsers.runs.pairs import read_pair as read_pair
    from parsers.runs.reading import read as read
    from parsers.scan.resume import read_appended as read_appended

__all__ = ["read", "read_appended", "read_pair"]

_MODULES = {
    "read": "parsers.runs.reading",
    "read_appended": "parsers.scan.resume",
    "read_pair": "parsers.runs.pairs",
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: importing a single format needs no reader.
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
