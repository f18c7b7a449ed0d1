"""Make the text of a run's job script."""

import re
import shlex
import sys
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.campaign.user_paths import user_paths
from orchestrator.common.errors import UserError
from orchestrator.common.version import version
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster
from orchestrator.hardware.free_lines import together
from orchestrator.hardware.time_limit import slurm_time, time_limit_seconds
from orchestrator.workloads import rehearsal


class _Raw(str):
    """Text that stands in a script as it is."""

    __slots__ = ()


def _quote(value: object) -> str:
    return value if isinstance(value, _Raw) else shlex.quote(str(value))


def _directive(value: object) -> _Raw:
    """Quote a value as sbatch reads it in an #SBATCH line.

    That is not the shell's way: in single quotes, too, a backslash takes the next character as it
    is. Quotes and spaces, and `#` outside of quotes, mean the same to both.
    """
    text = str(value)
    if shlex.quote(text) == text:
        return _Raw(text)
    return _Raw('"' + re.sub(r'(["\\])', r"\\\1", text) + '"')


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("slurm_templates", package_path=""),
        # Nobody changes them while a command is at work.
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
    """Return the complete job script of a run that lives in `folder`, an absolute path.

    The script starts the same training by `bash job.sh`, by `sbatch job.sh` on a Slurm cluster, and
    by `teralog submit`, which works in the attempt's folder, keeps the log there and hands out the
    devices. Raises jinja2.UndefinedError where a template names what a run does not have, and
    UserError where a path has a line break or a control character in it.
    """
    run = planned.run
    known = FRAMEWORKS[run.framework]
    template = _environment().get_template(known.start.template)
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
        python=campaign.cluster.python or sys.executable,
        steps_on_cpu=known.start.steps_on_cpu(run),
        output_pattern=_output_pattern(folder),
        paths=paths,
        rehearsal=_rehearsal(folder) if campaign.rehearsal else None,
        time_limit=slurm_time(run.resources.time_limit_seconds),
        sbatch_lines=together(campaign.cluster.sbatch, run.resources.sbatch),
        srun=_Raw(shlex.join(["srun", *together(campaign.cluster.srun, run.resources.srun)])),
        version=version(),
    )


def shards_script(cluster: Cluster, folder: Path) -> str:
    """Return the script of an array whose tasks each read the shard that `folder` has by its index.

    Raises UserError as `job_script` does.
    """
    _require_printable(str(folder))
    limit = cluster.time_limit
    return (
        _environment()
        .get_template("shards.sh.j2")
        .render(
            cluster=cluster,
            folder=str(folder),
            python=cluster.python or sys.executable,
            time_limit=None if limit is None else slurm_time(time_limit_seconds(limit)),
            sbatch_lines=cluster.sbatch or (),
            version=version(),
        )
    )


def _require_printable(path: str) -> None:
    if not path.isprintable():
        raise UserError(
            f"{path!r}: holds a line break or a control character, which a job script cannot "
            "hold; rename the folder"
        )


def _rehearsal(folder: Path) -> dict[str, str]:
    return {
        "checker": str(Path(rehearsal.__file__)),
        "order": str(folder / rehearsal.ORDER_FILE),
        # As mktemp takes it.
        "meeting": str(folder / "ranks-XXXXXX"),
    }


def _output_pattern(folder: Path) -> str:
    """Return where a Slurm job writes its output, as sbatch's pattern, with the job's id in it.

    `%` begins a replacement; a backslash anywhere stops all replacements, so that a path with one
    in it has to do without the id.
    """
    text = str(folder)
    if "\\" in text:
        return text.replace("\\", "\\\\") + "/slurm.out"
    return text.replace("%", "%%") + "/slurm-%j.out"
