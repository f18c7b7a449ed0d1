"""Record the job script of every run of the campaigns in tests/scripts; `make record` runs this.

The first script of each framework and launcher is recorded whole, in NAME.sh. Every other script is
recorded in NAME.diff, as a difference from its base. The base is the earlier script of the same
framework that gives the shortest difference. A test fails if a script is rendered differently from
its record. Check `git diff` after recording, because only a person can judge whether the new text
is better.

The first line of a difference names the base, and the second line is the title of the script. To
rebuild a script from its base, replace the campaign and the run id of the base by those in the
script's title. Then apply the hunks in order. The hunks are those of a unified diff, but without
line numbers. So search for the old lines of a hunk below the place of the previous hunk. The first
match is the place of the hunk.
"""

import difflib
import re
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from orchestrator.campaign.campaign import load_campaign
from orchestrator.common.version import version
from orchestrator.submit.scripts import job_script

RECORDS = Path(__file__).parent.parent / "tests" / "scripts"
SUFFIXES = (".sh", ".diff")

# For example: # Campaign gpt-v100, run 3d5a90c1e2f4: 'launcher=srun nodes=16'
TITLE = re.compile(r"^# Campaign (?P<campaign>.+), run (?P<run>\w+): .*$", re.MULTILINE)


@dataclass(frozen=True)
class Script:
    """A job script, and the framework and launcher of its run.

    Scripts with the same framework and launcher are very similar. So only the first of them is
    recorded whole.
    """

    framework: str
    launcher: str
    text: str


def scripts() -> dict[str, Script]:
    """Render the job scripts of all campaigns in tests/scripts, and return them by name.

    The scripts use /results as results folder, and do not contain teralog's version.
    """
    rendered = {}
    # Campaigns on the V100 cluster come first: their scripts have the most lines, so the
    # differences of other scripts mostly remove lines.
    for path in sorted(RECORDS.glob("*.yaml"), key=lambda path: (path.stem[-5:] != "-v100", path)):
        campaign = load_campaign(path)
        for planned in campaign.runs:
            name = re.sub(r"[^\w.-]+", "-", f"{campaign.name} {planned.label}")
            text = job_script(planned, campaign, Path("/results") / campaign.name / planned.run_id)
            rendered[name] = Script(
                planned.run.framework,
                planned.run.options.launcher,
                text.replace(f"teralog {version()}", "teralog VERSION"),
            )
    return rendered


def names() -> list[str]:
    """Return the names of the job scripts that are recorded in tests/scripts."""
    return sorted(path.stem for path in RECORDS.iterdir() if path.suffix in SUFFIXES)


def recorded(name: str) -> str:
    """Return a recorded script, rebuilt from its base if its record is a difference."""
    whole = RECORDS / f"{name}.sh"
    if whole.exists():
        return whole.read_text(encoding="utf-8")
    difference = whole.with_suffix(".diff").read_text(encoding="utf-8")
    return rebuilt(recorded(difference.splitlines()[0].removeprefix("--- ")), difference)


def rebuilt(base: str, difference: str) -> str:
    """Return the script that results from applying a recorded difference to its base script.

    Raises ValueError if lines that the difference replaces are not in the base.
    """
    head, *hunks = re.split("^@@\n", difference, flags=re.MULTILINE)
    done, rest = "", retitled(base, head.splitlines()[1].removeprefix("+++ "))
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] != "+")
        start = rest.index(old)
        done += rest[:start] + "".join(line[1:] for line in lines if line[0] != "-")
        rest = rest[start + len(old) :]
    return done + rest


def retitled(text: str, title: str) -> str:
    """Return a script with the title line `title`.

    The campaign and the run id in this title replace the script's earlier campaign and run id
    everywhere in the script.
    """
    old, new = TITLE.search(text), TITLE.search(title)
    for part in ("campaign", "run"):
        text = text.replace(old[part], new[part])
    return TITLE.sub(lambda _: title, text, count=1)


def difference_from(name: str, base: str, text: str) -> str:
    """Return the difference between the script `base` and the later script `text`.

    name: the name of the base. The difference contains as few unchanged lines as possible.
    """
    title = TITLE.search(text)[0]
    before = retitled(base, title).splitlines(keepends=True)
    for context in count():
        lines = difflib.unified_diff(before, text.splitlines(keepends=True), n=context)
        hunks = "".join("@@\n" if line.startswith("@@") else line for line in list(lines)[2:])
        difference = f"--- {name}\n+++ {title}\n{hunks}"
        if rebuilt(base, difference) == text:
            break
    return difference


def records() -> dict[str, str]:
    """Return the texts of the files NAME.sh and NAME.diff that record job scripts, by file name."""
    rendered = scripts()
    bases = {}
    for name, script in rendered.items():
        bases.setdefault((script.framework, script.launcher), name)
    files = {f"{name}.sh": rendered[name].text for name in bases.values()}
    earlier = list(bases.values())
    for name, script in rendered.items():
        if name not in bases.values():
            differences = (
                difference_from(base, rendered[base].text, script.text)
                for base in earlier
                if rendered[base].framework == script.framework
            )
            files[f"{name}.diff"] = min(differences, key=lambda text: text.count("\n"))
            earlier.append(name)
    return files


def main() -> None:
    """Write the file that records each job script; remove files of runs that no longer exist."""
    files = records()
    for path in RECORDS.iterdir():
        if path.suffix in SUFFIXES and path.name not in files:
            path.unlink()
    for name, text in files.items():
        (RECORDS / name).write_text(text, encoding="utf-8")
    print(f"wrote {len(files)} records", file=sys.stderr)


if __name__ == "__main__":
    main()
