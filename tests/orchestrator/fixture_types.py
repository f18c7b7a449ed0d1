"""Types of the functions that shared fixtures return."""

from collections.abc import Callable

from orchestrator.campaign.campaign import Campaign
from orchestrator.run.model import Run
from orchestrator.store.records import Attempt

RunOf = Callable[..., Run]
CampaignOf = Callable[[str], Campaign]
ProblemsOf = Callable[[str], list[str]]
AttemptIn = Callable[..., Attempt]
