"""Before runs start, check that the Python of the runs has the modules that they import."""

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.common.ask import ask
from orchestrator.common.errors import UserError
from orchestrator.common.paths import unset_in
from orchestrator.doctor.packages import needed_packages
from orchestrator.frameworks.launchers import LAUNCHERS
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.model import Run
from orchestrator.workloads.rehearsal import install_line

# A first start of Python on a network file system takes seconds.
_TIMEOUT_SECONDS = 30.0
_ANSWER = "teralog: missing:"
# Without the current directory, which is on the path of -c, but not of runs.
_QUESTION = f"""\
import sys
from importlib.util import find_spec
sys.path = [folder for folder in sys.path if folder]
print("{_ANSWER}", *(name for name in sys.argv[1:] if find_spec(name) is None))
"""


def needed_modules(run: Run) -> list[str]:
    """Return the names of top-level modules that a run's launcher and program need.

    Only modules that teralog knows of are in the list.
    """
    launcher = LAUNCHERS[run.options.launcher]
    program = FRAMEWORKS[run.framework].start.imports(run)
    return list(dict.fromkeys((*launcher.imports, *program)))


def refuse_missing_modules(campaign: Campaign, runs: Sequence[PlannedRun]) -> None:
    """Raise UserError if the Python of the runs lacks modules that they import."""
    problems = list(missing_module_lines(campaign, runs))
    if problems:
        raise UserError(*problems, "nothing was started")


def missing_module_lines(campaign: Campaign, runs: Sequence[PlannedRun]) -> Iterator[str]:
    """Yield a sentence for each framework that imports modules which the Python of the runs lacks.

    The sentence contains the command that installs the modules. Some runs have their environment
    only within a job: those whose cluster profile has modules, set-up lines or a container, or
    has its own Python and uses Slurm. For them, nothing is checked here; a rehearsal can check
    their modules.
    """
    needed: dict[str, dict[str, None]] = {}
    for planned in runs:
        modules = dict.fromkeys(needed_modules(planned.run))
        needed.setdefault(planned.run.framework, {}).update(modules)
    all_modules = dict.fromkeys(module for modules in needed.values() for module in modules)
    missing = _missing(campaign, tuple(all_modules))
    python = campaign.cluster.python
    for framework, modules in needed.items():
        if lacking := [module for module in modules if module in missing]:
            yield (
                f"{campaign.path}: framework {framework} imports {', '.join(lacking)}, "
                f"which {python or sys.executable} lacks; type: "
                f"{install_line(lacking, module_extras(), python)}"
            )


def _missing(campaign: Campaign, modules: tuple[str, ...]) -> frozenset[str]:
    """Return those of `modules` that the Python of a campaign's runs lacks.

    The result is empty if this cannot be checked outside of a job.
    """
    cluster = campaign.cluster
    if cluster.modules or cluster.setup or cluster.container:
        return frozenset()
    if cluster.python is None:
        return frozenset(name for name in modules if find_spec(name) is None)
    if cluster.scheduler == "slurm" or any(unset_in("python", cluster.python)):
        return frozenset()
    answer = ask((cluster.python, "-c", _QUESTION, *modules), _TIMEOUT_SECONDS)
    lines = () if answer is None or answer.problem else answer.lines
    answers = [line.removeprefix(_ANSWER) for line in lines if line.startswith(_ANSWER)]
    return frozenset(name for line in answers for name in line.split())


@cache
def module_extras() -> dict[str, str]:
    """Return the extra of teralog that installs each module, by the name of the module.

    The extra is e.g. `X` if `pip install teralog[X]` installs the module. A module that no extra
    installs is left out.
    """
    return {
        package.name: package.extra
        for package in needed_packages() or ()
        if package.extra is not None
    }
