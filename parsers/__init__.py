"""Log bytes to records: what a training program's log says, with the place where it says so.

`parsers.read("slurm-123.out")` returns the runs that a log tells of.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parsers.reading import read as read

__all__ = ["read"]


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for: who imports a single format needs no reader.
    if name == "read":
        from parsers.reading import read

        return read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
