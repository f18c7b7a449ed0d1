"""What the training programs are and accept on their command lines, as recorded."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def known_program(record: str) -> dict[str, Any]:
    """Return the record of a training program: its name, its source, the options it accepts."""
    text = (files("orchestrator") / "known_options" / f"{record}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
