"""What the training programs accept on their command lines, as recorded in `known_options`."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def accepted_options(program: str) -> dict[str, dict[str, Any]]:
    """Return what each option of a program takes, by the name of its record."""
    record = files("orchestrator") / "known_options" / f"{program}.json"
    options: dict[str, dict[str, Any]] = json.loads(record.read_text(encoding="utf-8"))["options"]
    return options
