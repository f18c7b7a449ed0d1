"""Write the folder of each run: run.json, job.sh, and its framework's files."""

from collections.abc import Sequence

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.campaign.user_paths import unset_variables, user_paths
from orchestrator.common.errors import UserError
from orchestrator.common.files import at_once, disk_errors, json_text, made_folder
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import unset_paths
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.submit.rehearsal import rehearsal_order
from orchestrator.submit.scripts import binding_files, job_script
from orchestrator.workloads.rehearsal import ORDER_FILE


def render_runs(
    campaign: Campaign, runs: Sequence[PlannedRun], store: CampaignStore
) -> dict[str, str]:
    """Write the folder of each run: run.json, job.sh, and its framework's files.

    Returns the job scripts, by the runs' ids. Each folder is written completely or not at all.
    Raises UserError if a folder cannot be written, or if a path contains a variable that is not
    set.
    """
    cluster = campaign.cluster
    unset = [f"cluster {cluster.name}: {problem}" for problem in unset_paths(cluster)]
    sentences = dict.fromkeys(
        sentence for planned in runs for sentence in unset_variables(planned.run)
    )
    unset += [f"{campaign.path}: {sentence}" for sentence in sentences]
    if unset:
        raise UserError(*unset)
    scripts = {
        planned.run_id: job_script(planned, campaign, store.run(planned.run_id).path)
        for planned in runs
    }
    # Texts are not made in threads: threads make writing faster, but not computing in Python.
    texts = [_texts(campaign, planned, store, scripts[planned.run_id]) for planned in runs]
    # This folder is made before the threads start. Otherwise, a thread that fails would remove it
    # while another thread is about to write into it.
    with disk_errors(store.path), made_folder(store.path):
        at_once(lambda run_and_text: store.save_run(*run_and_text), zip(runs, texts, strict=True))
    return scripts


def _texts(
    campaign: Campaign, planned: PlannedRun, store: CampaignStore, script: str
) -> dict[str, str]:
    """Return the texts of the files in a run's folder, by file name. script: the text of job.sh."""
    folder = store.run(planned.run_id)
    start = FRAMEWORKS[planned.run.framework].start
    files = start.files_on(planned.run, gpus=campaign.cluster.has_gpus)
    if campaign.rehearsal:
        paths = user_paths(planned.run, campaign.path.parent)
        written = [str(folder.path / name) for name in files]
        files = {
            **files,
            ORDER_FILE: rehearsal_order(planned.run, campaign.cluster, paths, written),
        }
    return {
        **store.run_record(planned, campaign),
        folder.script.name: script,
        **binding_files(campaign.cluster),
        **{name: json_text(content) for name, content in files.items()},
    }
