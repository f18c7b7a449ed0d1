"""Read the record of a campaign's last submission: campaign.json."""

from pathlib import Path

from orchestrator.common.files import read_json
from parsers.summary.warmup import Warmup

SUBMISSION = "campaign.json"


def submitted_warmup(campaign: Path) -> Warmup | None:
    """Return the warm-up in the campaign.json of a campaign's folder.

    Returns None if the file does not exist, or contains no warm-up. Raises UserError if the
    file is damaged, and ValueError if the warm-up is not valid.
    """
    written = (read_json(campaign / SUBMISSION) or {}).get("warmup")
    return None if written is None else Warmup.parse(written)
