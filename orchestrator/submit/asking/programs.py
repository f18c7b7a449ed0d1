"""Ask the training programs of a campaign whether they accept their arguments.

The programs run on this machine, with the Python of the runs, and stop before the training begins.
"""

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator import workloads
from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.campaign.user_paths import missing_files
from orchestrator.common.ask import ask
from orchestrator.common.files import json_text
from orchestrator.common.text import counted
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.hardware.gpus import compute_capability
from orchestrator.run.model import Run
from orchestrator.submit.asking.handed_words import handed_words
from orchestrator.submit.scripts import job_script

# Imports of torch on a network file system take up to a minute; each run then takes a moment.
_START_SECONDS = 300.0
_SECONDS_PER_RUN = 60.0


@dataclass(frozen=True, slots=True)
class ProgramAnswers:
    """What the training programs of a campaign answered about their arguments.

    problems: for each run whose program answered, by run id, the problems that the program reports.
    remarks: sentences about runs whose program could not be asked, or could not check everything.
    """

    problems: Mapping[str, tuple[str, ...]]
    remarks: tuple[str, ...]


def with_answers(campaign: Campaign, answers: ProgramAnswers) -> Campaign:
    """Return the campaign, with the problems that the programs report added to its runs."""
    runs = tuple(
        replace(planned, problems=(*planned.problems, *answers.problems.get(planned.run_id, ())))
        for planned in campaign.runs
    )
    return replace(campaign, runs=runs)


def ask_programs(campaign: Campaign) -> ProgramAnswers:
    """Ask the program of each run whether the program accepts the run's arguments.

    Runs for which other checks have already found problems are left out.
    """
    problems: dict[str, tuple[str, ...]] = {}
    remarks: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="teralog-ask-") as folder:
        for asker, runs in _by_asker(campaign, remarks).items():
            orders = [_order(campaign, planned, Path(folder)) for planned in runs]
            for program, indices in _by_program(orders).items():
                asked = [orders[index] for index in indices]
                answers = _answers(campaign.cluster, asker, asked, Path(folder))
                if isinstance(answers, str):
                    remarks.setdefault(
                        f"{program}: could not check its arguments: {answers}", []
                    ).extend(runs[index].label for index in indices)
                    continue
                for index, answer in zip(indices, answers, strict=True):
                    planned = runs[index]
                    problems[planned.run_id] = tuple(_sentences(answer))
                    for remark in _remarks(answer):
                        remarks.setdefault(remark, []).append(planned.label)
    everyone = len(campaign.runs)
    return ProgramAnswers(
        problems,
        tuple(_remark_line(remark, labels, everyone) for remark, labels in remarks.items()),
    )


def _by_asker(campaign: Campaign, remarks: dict[str, list[str]]) -> dict[Path, list[PlannedRun]]:
    """Return the runs, grouped by the Python file that asks their program about its arguments.

    Runs with problems, and runs whose program cannot be asked, are in no group.
    remarks: changed in place. A key is the reason why a program cannot be asked. The function
    adds the label of each such run to the list of the run's reason.
    """
    runs_by_program: dict[Path, list[PlannedRun]] = {}
    for planned in campaign.runs:
        if planned.problems:
            continue
        reason = _reason(campaign, planned)
        name = FRAMEWORKS[planned.run.framework].start.asks(planned.run)
        if reason is not None or name is None:
            remarks.setdefault(reason or _unaskable(planned.run), []).append(planned.label)
        else:
            runs_by_program.setdefault(asker_file(name), []).append(planned)
    return runs_by_program


def asker_file(name: str) -> Path:
    """Return the path of the module in `orchestrator/workloads` that asks a training program.

    name: the name of the module.
    """
    return Path(workloads.__path__[0]) / f"{name}.py"


def _unaskable(run: Run) -> str:
    return (
        f"arguments not checked: the program of framework {run.framework} checks them only while "
        "it trains"
    )


def _reason(campaign: Campaign, planned: PlannedRun) -> str | None:
    """Return why a run's program cannot check its arguments on this machine; None if it can."""
    cluster = campaign.cluster
    if cluster.modules or cluster.setup:
        return (
            f"arguments not checked: the modules and set-up lines of cluster {cluster.name} are "
            "not loaded here; check the arguments with `teralog submit --rehearse`"
        )
    missing = next(missing_files(planned.run, campaign.path.parent), None)
    if missing is not None:
        return (
            f"arguments not checked: {missing} on this machine; check the arguments with "
            "`teralog submit --rehearse`"
        )
    return None


def _order(campaign: Campaign, planned: PlannedRun, folder: Path) -> dict[str, Any]:
    """Return the input for the module that asks a run's program about its arguments.

    The input contains the program, its arguments, and the facts that `order_of` returns. The
    function also writes the run's configuration files into a new folder in `folder`.
    """
    place = folder / planned.run_id
    place.mkdir()
    start = FRAMEWORKS[planned.run.framework].start
    files = start.files_on(planned.run, gpus=campaign.cluster.has_gpus)
    for name, content in files.items():
        (place / name).write_text(json_text(content), encoding="utf-8")
    program, arguments = handed_words(job_script(planned, campaign, place))
    configs = [str(place / name) for name in files]
    return {
        **order_of(planned.run, campaign.cluster, configs),
        "program": program[0] if len(program) == 1 else f"-m {program[-1]}",
        "arguments": arguments,
    }


def order_of(run: Run, cluster: Cluster, configs: Sequence[str]) -> dict[str, Any]:
    """Return facts about a run that the program's command line lacks, e.g. the number of ranks.

    The module that asks the program about its arguments needs these facts. configs: the paths of
    the run's configuration files.
    """
    capability = None if cluster.gpu is None else compute_capability(cluster.gpu)
    return {
        "world_size": run.world_size,
        "gpus_per_node": run.resources.gpus_per_node,
        "compute_capability": capability,
        "has_gpus": cluster.has_gpus,
        "deepspeed_config": next(iter(configs), None),
    }


def _by_program(orders: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    indices: dict[str, list[int]] = {}
    for index, order in enumerate(orders):
        indices.setdefault(order["program"], []).append(index)
    return indices


def _answers(
    cluster: Cluster, asker: Path, orders: Sequence[Mapping[str, Any]], folder: Path
) -> list[dict[str, Any]] | str:
    """Return the answers of a program, one for each run; or the reason, if it gave no answers.

    cluster: its Python starts the file `asker`. asker: the Python file that asks the program.
    orders: the input of that file, one entry per run. folder: the folder into which the
    function writes `orders` as a JSON file.
    """
    file = folder / "orders.json"
    file.write_text(json.dumps(orders), encoding="utf-8")
    python = cluster.python or sys.executable
    limit = _START_SECONDS + _SECONDS_PER_RUN * len(orders)
    answer = ask((python, str(asker), str(file)), limit)
    if answer is None:
        return f"{python} does not exist"
    if answer.problem or not answer.lines:
        return answer.problem or "no answer"
    answers: list[dict[str, Any]] = json.loads(answer.lines[-1])
    return answers


def _sentences(answer: Mapping[str, Any]) -> Iterator[str]:
    for problem in answer["problems"]:
        cause = problem["argument"]
        yield f"the program refuses {cause or 'its arguments'}: {problem['message']}"


def _remarks(answer: Mapping[str, Any]) -> Iterator[str]:
    if answer["error"] is not None:
        yield f"arguments not checked: {answer['error']}"
    else:
        yield from answer["not_asked"]


def _remark_line(remark: str, labels: Sequence[str], everyone: int) -> str:
    return remark if len(labels) == everyone else f"{remark} ({counted(len(labels), 'run')})"
