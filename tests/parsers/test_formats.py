"""Check that the table of formats contains every format of the package."""

import importlib
import pkgutil

from parsers import formats
from parsers.formats.table import ALL_FORMATS
from parsers.scan.reader import LogFormat, TableFormat


def test_every_format_is_in_the_table() -> None:
    """Every format that a module of the package defines is in the table."""
    made = {
        value.name
        for module in pkgutil.walk_packages(formats.__path__, "parsers.formats.")
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, LogFormat | TableFormat)
    }
    assert {log_format.name for log_format in ALL_FORMATS} == made


def test_names_of_formats_are_their_own() -> None:
    """No two formats have the same name, because a run counts unparsed lines per name."""
    names = [log_format.name for log_format in ALL_FORMATS]
    assert len(set(names)) == len(names)


def test_anchors_can_be_searched_for() -> None:
    """No anchor (a format's search string) is empty or contains a newline."""
    for log_format in ALL_FORMATS:
        anchors = [
            *log_format.anchors,
            *([log_format.header] if isinstance(log_format, TableFormat) else []),
        ]
        assert all(anchor and b"\n" not in anchor for anchor in anchors)
