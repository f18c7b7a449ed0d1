"""Return teralog's own version."""

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

from orchestrator.common.errors import UserError

CHECKOUT = Path(__file__).resolve().parents[2]


@cache
def version() -> str:
    """Return the version of teralog that is in use.

    If teralog is not installed, e.g. on a machine that only has a checkout on PYTHONPATH, the
    version is in the checkout's `pyproject.toml`. Raises UserError if that file is missing, too.
    """
    try:
        return metadata.version("teralog")
    except metadata.PackageNotFoundError:
        pass
    try:
        project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
        return str(project["project"]["version"])
    except (OSError, ValueError, KeyError):
        raise UserError(
            f"{CHECKOUT}: teralog's packages are here, but their version is unknown, because "
            "teralog is not installed; install it with pip"
        ) from None
