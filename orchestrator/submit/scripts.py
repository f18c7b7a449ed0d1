"""Render the text of a run's job script."""

import re
import shlex
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.campaign.user_paths import user_paths
from orchestrator.common.errors import UserError
from orchestrator.common.version import version
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.hardware.free_lines import together
from orchestrator.hardware.time_limit import slurm_time, time_limit_seconds
from orchestrator.run.model import Run
from orchestrator.workloads import rehearsal

BIND_FILE = "bind_rank.py"


class _Raw(str):
    """Text that a template puts into a script unchanged."""

    __slots__ = ()


def _quote(value: object) -> str:
    return value if isinstance(value, _Raw) else shlex.quote(str(value))


def _directive(value: object) -> _Raw:
    """Quote a value for an #SBATCH line, so that sbatch reads exactly this value.

    A value with special characters is put in double quotes, in which only `"` and the backslash
    need an escape. Single quotes are not used, because sbatch reads a backslash within them as
    an escape; a shell does not.
    """
    text = str(value)
    if shlex.quote(text) == text:
        return _Raw(text)
    return _Raw('"' + re.sub(r'(["\\])', r"\\\1", text) + '"')


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("slurm_templates", package_path=""),
        # Templates do not change while a command is running.
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  (shell text: `finalize` quotes for the shell instead)
        # Every hole is quoted unless the template says raw: forgetting is safe.
        finalize=_quote,
    )
    environment.filters["raw"] = _Raw
    environment.filters["directive"] = _directive
    return environment


def job_script(planned: PlannedRun, campaign: Campaign, folder: Path) -> str:
    """Return the complete job script of a run with the folder `folder`, an absolute path.

    The script starts the same training by `bash job.sh`, by `sbatch job.sh` on a Slurm cluster, and
    by `teralog submit`. `teralog submit` starts the script in the attempt's folder, keeps the log
    there and assigns the devices. Raises jinja2.UndefinedError if a template uses a name that a run
    does not have. Raises UserError if a path contains a line break or a control character.
    """
    run = planned.run
    framework = FRAMEWORKS[run.framework]
    template = _environment().get_template(framework.start.template)
    paths = user_paths(run, campaign.path.parent)
    for path in (str(folder), *paths.values()):
        _require_printable(path)
    return template.render(
        run=run,
        run_id=planned.run_id,
        label=planned.label,
        campaign=campaign.name,
        cluster=campaign.cluster,
        folder=str(folder),
        python=campaign.cluster.script_python,
        build_kind=_workload("build_kind.py"),
        container=campaign.cluster.container,
        mounts=_mounts(campaign, folder),
        binding=_binding(run, campaign.cluster, folder),
        model_arguments=[_Raw(shlex.join(words)) for words in framework.model.arguments(run)],
        steps_on_cpu=framework.start.steps_on_cpu(run),
        output_pattern=_output_pattern(folder),
        paths=paths,
        rehearsal=_rehearsal(folder) if campaign.rehearsal else None,
        time_limit=slurm_time(run.resources.time_limit_seconds),
        sbatch_lines=together(campaign.cluster.sbatch, run.resources.sbatch),
        srun=_Raw(shlex.join(["srun", *_srun_options(run, campaign.cluster)])),
        version=version(),
    )


def shards_script(cluster: Cluster, folder: Path) -> str:
    """Return the script of a job array in which each task reads one shard of logs.

    folder: the folder with the shards. Raises UserError if its path contains a line break or a
    control character.
    """
    _require_printable(str(folder))
    limit = cluster.time_limit
    return (
        _environment()
        .get_template("shards.sh.j2")
        .render(
            cluster=cluster,
            folder=str(folder),
            # This Python reads logs, outside of any container.
            python=sys.executable if cluster.container else cluster.script_python,
            time_limit=None if limit is None else slurm_time(time_limit_seconds(limit)),
            sbatch_lines=cluster.sbatch or (),
            version=version(),
        )
    )


def _require_printable(path: str) -> None:
    if not path.isprintable():
        raise UserError(
            f"{path!r}: contains a line break or a control character, which a job script cannot "
            f"contain; rename the folder"
        )


def _srun_options(run: Run, cluster: Cluster) -> list[str]:
    options = together(cluster.srun, run.resources.srun)
    if cluster.binding == "numa" and not any(
        option.startswith("--cpu-bind=") for option in options
    ):
        # Each rank chooses among all cores that the job has on its node.
        return ["--cpu-bind=none", *options]
    return options


def _mounts(campaign: Campaign, folder: Path) -> list[str]:
    """Return the mounts of a run's container: the run's folder, and the mounts of the profile.

    In a rehearsal, the list also contains the file rehearsal.py. The list is empty without a
    container, and for a container whose runtime is uenv. Raises UserError if the path of the
    run's folder or of rehearsal.py contains `:` or `,`, because a container cannot mount such
    a path.
    """
    container = campaign.cluster.container
    if container is None or container.runtime == "uenv":
        return []
    ours = [str(folder), *([rehearsal.__file__] if campaign.rehearsal else ())]
    for path in ours:
        if ":" in path or "," in path:
            raise UserError(
                f"{path}: a container cannot mount a path that contains ':' or ','; rename it"
            )
    return [*(f"{path}:{path}" for path in ours), *(container.mounts or ())]


def _binding(run: Run, cluster: Cluster, folder: Path) -> dict[str, Any] | None:
    """Return how to call the program that binds ranks to cores; None if ranks are not bound.

    The result has two keys. program: the path of the program.
    words: the program's first arguments: `numa` or `custom`, and then the values that this kind
    of binding needs. The job script adds the command of the rank after these arguments.
    """
    if cluster.binding == "none":
        return None
    program = str(folder / BIND_FILE)
    if cluster.binding == "numa":
        ranks = 0 if cluster.has_gpus else run.resources.gpus_per_node
        return {"program": program, "words": ["numa", ranks]}
    command = cluster.binding_command or []
    return {"program": program, "words": ["custom", len(command), *command]}


def binding_files(cluster: Cluster) -> dict[str, str]:
    """Return the files that a run's folder needs to bind ranks to cores: their texts, by name."""
    if cluster.binding == "none":
        return {}
    return {BIND_FILE: _workload(BIND_FILE)}


@cache
def _workload(name: str) -> str:
    """Return the source of a program in `orchestrator/workloads` that runs without teralog.

    The text becomes a part of a job script, or a file in a run's folder.
    """
    return (files("orchestrator.workloads") / name).read_text(encoding="utf-8")


def _rehearsal(folder: Path) -> dict[str, str]:
    return {
        "checker": str(Path(rehearsal.__file__)),
        "order": str(folder / rehearsal.ORDER_FILE),
        # A template for mktemp.
        "meeting": str(folder / "ranks-XXXXXX"),
    }


def _output_pattern(folder: Path) -> str:
    """Return the path for the output of a Slurm job, in the form that sbatch reads.

    folder: the folder of the output. The result ends in `slurm-%j.out`; sbatch replaces `%j`
    with the job's id. Each `%` of `folder` is doubled, because sbatch reads `%%` as a plain
    `%`. If `folder` contains a backslash, sbatch replaces nothing in the path. Then the result
    ends in `slurm.out`, and only the backslashes of `folder` are doubled.
    """
    text = str(folder)
    if "\\" in text:
        return text.replace("\\", "\\\\") + "/slurm.out"
    return text.replace("%", "%%") + "/slurm-%j.out"
