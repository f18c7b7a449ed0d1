"""Return teralog's own version."""

from functools import cache
from importlib import metadata


@cache
def version() -> str:
    """Return the version that is installed."""
    return metadata.version("teralog")
