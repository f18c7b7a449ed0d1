"""Record the command line options of a program from its source, without running it.

Use this tool for programs that Python cannot import here. For programs that it can import, use
record_options_of_parsers.py.

    python tools/record_options_of_source.py NAME --program TEXT --source URL SCRIPT

writes orchestrator/frameworks/known_options/NAME.json.
"""

import argparse
import sys
from pathlib import Path

from orchestrator.frameworks.options.describe import record_text
from orchestrator.frameworks.options.source import read_options

RECORDS = Path(__file__).parent.parent / "orchestrator" / "frameworks" / "known_options"


def main() -> None:
    """Read the script named on the command line, and write the record of its options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--program", required=True, help="the program and its version, for people")
    parser.add_argument("--source", required=True, help="the address of the parser's source")
    parser.add_argument("--note", help="how it was read, if the source was changed first")
    parser.add_argument("script", type=Path, help="the program's file in its checkout")
    asked = parser.parse_args()
    options = read_options(asked.script).options
    note = {"note": asked.note} if asked.note else {}
    record = {"program": asked.program, "source": asked.source, **note, "options": options}
    (RECORDS / f"{asked.name}.json").write_text(record_text(record))
    print(f"wrote {len(options)} options", file=sys.stderr)


if __name__ == "__main__":
    main()
