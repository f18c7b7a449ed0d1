"""Choose where runs are started: this machine or Slurm, behind one interface."""

from orchestrator.campaign.campaign import Campaign
from orchestrator.common.errors import UserError
from orchestrator.submit.backend import Backend


def backend(campaign: Campaign, *, here: bool = False) -> Backend:
    """Return the backend of a campaign: this machine or Slurm.

    here: start runs in the Slurm allocation in which this process runs. Raises UserError if `here`
    is true and the campaign's cluster is not a Slurm cluster.
    """
    slurm = campaign.cluster.scheduler == "slurm"
    if here and not slurm:
        raise UserError(
            f"--here: needs Slurm, but the cluster {campaign.cluster.name!r} is this machine; "
            "remove --here"
        )
    if slurm and not here:
        from orchestrator.submit.slurm import SlurmBackend

        return SlurmBackend()
    from orchestrator.submit.local import LocalBackend

    return LocalBackend(here)
