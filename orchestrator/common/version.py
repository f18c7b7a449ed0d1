"""Return teralog's own version."""

from functools import cache
from importlib import metadata


@cache
def version() -> str:
    """Return the installed version of teralog."""
    return metadata.version("teralog")
