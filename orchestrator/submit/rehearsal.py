"""Make the input of a rehearsal: what each rank checks instead of training."""

from collections.abc import Sequence
from typing import Any

from orchestrator.frameworks.accepted_options import accepted_options
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.run.model import Run
from orchestrator.submit.asking.programs import asker_file, order_of
from orchestrator.submit.imports import module_extras, needed_modules


def rehearsal_order(
    run: Run, cluster: Cluster, paths: dict[str, str], written: Sequence[str]
) -> dict[str, Any]:
    """Return the instructions for `workloads/rehearsal.py`.

    paths: the absolute paths of the files and folders that the run's options name, by option.
    written: the absolute paths of the configuration files in the run's folder.

    These keys of the instructions need an explanation:
    accepted: the options that the program accepts; None if unknown.
    refuses: whether the rehearsal fails if an option of the run is not in `accepted`. False if
    `accepted` was not read from the program's own source, or if the run allows unknown arguments.
    imports: the modules that the program and its launcher need, as far as known.
    extras: for each module, the extra of teralog that installs it.
    ask: the Python file that asks the program about its arguments; None if there is no such file.
    order: facts about the run for the file in `ask`, e.g. the number of ranks.
    """
    framework = FRAMEWORKS[run.framework]
    record = accepted_options(run, paths)
    asks = framework.start.asks(run)
    return {
        "ask": None if asks is None else str(asker_file(asks)),
        "order": order_of(run, cluster, written),
        "program": run.framework if record is None else record.program,
        "launcher": run.options.launcher,
        "nodes": run.resources.nodes,
        "ranks_per_node": run.resources.gpus_per_node,
        "files": [*framework.start.files(paths), *written],
        "imports": needed_modules(run),
        "extras": module_extras(),
        "accepted": None if record is None else record.options,
        "refuses": record is not None and record.own and _is_checked(run),
    }


def _is_checked(run: Run) -> bool:
    return not getattr(run.options, "allow_unknown_arguments", False)
