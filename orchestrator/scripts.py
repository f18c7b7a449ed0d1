"""From a run to the text of its job script."""

import shlex
import sys
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.campaign import Campaign, PlannedRun
from orchestrator.frameworks import FRAMEWORKS
from orchestrator.version import version


class _Raw(str):
    """Text that stands in a script as it is."""

    __slots__ = ()


def _quote(value: object) -> str:
    return value if isinstance(value, _Raw) else shlex.quote(str(value))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("slurm_templates", package_path=""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  (shell text: `finalize` quotes for the shell instead)
        # Every hole is quoted unless the template says raw: forgetting is safe.
        finalize=_quote,
    )
    environment.filters["raw"] = _Raw
    return environment


def job_script(planned: PlannedRun, campaign: Campaign, folder: Path) -> str:
    """Return the complete job script of a run that lives in `folder`, an absolute path.

    The script does the same by `bash job.sh`, by `sbatch job.sh` on a Slurm cluster, and by
    `teralog submit`. Raises jinja2.UndefinedError where a template names what a run does not have.
    """
    run = planned.run
    template = _environment().get_template(FRAMEWORKS[run.framework].template)
    script = getattr(run.options, "script", None)
    return template.render(
        run=run,
        run_id=planned.run_id,
        label=planned.label,
        campaign=campaign.name,
        cluster=campaign.cluster,
        folder=str(folder),
        python=campaign.cluster.python or sys.executable,
        script=script and str((campaign.path.parent / script).absolute()),
        time_limit=_slurm_time(run.resources.time_limit_seconds),
        version=version(),
    )


def _slurm_time(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
