"""Record the job script of every run of the campaigns in tests/scripts; `make record` runs this.

A script that comes out differently than its record fails a test. Look at `git diff` after
recording: a person judges whether the new text is the better one.
"""

import re
import sys
from pathlib import Path

from orchestrator.campaign.campaign import load_campaign
from orchestrator.common.version import version
from orchestrator.submit.scripts import job_script

RECORDS = Path(__file__).parent.parent / "tests" / "scripts"


def scripts() -> dict[str, str]:
    """Return the scripts to be recorded: file name to text.

    Their runs would live in /results, and teralog's version is left out of them.
    """
    found = {}
    for path in sorted(RECORDS.glob("*.yaml")):
        campaign = load_campaign(path)
        for planned in campaign.runs:
            name = re.sub(r"[^\w.-]+", "-", f"{campaign.name} {planned.label}.sh")
            text = job_script(planned, campaign, Path("/results") / campaign.name / planned.run_id)
            found[name] = text.replace(f"teralog {version()}", "teralog VERSION")
    return found


def main() -> None:
    """Rewrite the records, and remove those of runs that are gone."""
    found = scripts()
    for path in RECORDS.glob("*.sh"):
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        (RECORDS / name).write_text(text, encoding="utf-8")
    print(f"wrote {len(found)} scripts", file=sys.stderr)


if __name__ == "__main__":
    main()
