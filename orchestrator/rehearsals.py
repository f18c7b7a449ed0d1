"""What is asked of a rank in a rehearsal, in place of training."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from orchestrator.frameworks import FRAMEWORKS
from orchestrator.model import Run

FILE_NAME = "rehearsal.json"


def rehearsal_order(run: Run, paths: dict[str, str]) -> dict[str, Any]:
    """Return what `workloads/rehearsal.py` is to check; `paths` are the user's, absolute.

    `accepted` are the options of the run's program, None where those are not known.
    """
    framework = FRAMEWORKS[run.framework]
    launcher = getattr(run.options, "launcher", None)
    record = framework.program(run)
    return {
        "framework": run.framework,
        "program": run.framework if record is None else known_program(record)["program"],
        "launcher": launcher,
        "nodes": run.resources.nodes,
        "ranks_per_node": run.resources.gpus_per_node,
        "files": list(framework.files(paths)),
        "accepted": None if record is None else known_program(record)["options"],
    }


@cache
def known_program(record: str) -> dict[str, Any]:
    """Return the record of a training program: its name, its source, the options it accepts."""
    text = (files("orchestrator") / "known_options" / f"{record}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
