"""Build the text of an HTML page from its data: one file that needs no other file."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from html import escape
from importlib import resources
from string import Template
from typing import Any

from isal import isal_zlib

from orchestrator.report.html.detail import Detail
from orchestrator.report.html.page import Page
from orchestrator.report.html.tables_page import RowDetail
from orchestrator.report.report import json_number

_SCRIPTS = (
    "elements.js",
    "filters.js",
    "table.js",
    "plots.js",
    "configuration_plots.js",
    "campaign_plots.js",
    "run.js",
    "row.js",
    "page.js",
)
# Escapes for JSON that neither ends nor opens an HTML element. These characters occur only in
# texts, in which JSON allows escapes.
_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def json_in_html(value: object) -> str:
    """Return a value as JSON text that cannot end the HTML script element that contains it.

    The characters <, > and & are escaped. The value may contain dataclasses with slots,
    which become JSON objects. nan and inf become texts, because JSON has neither.
    """
    return _json(value).translate(_ESCAPED)


def packed(value: object) -> str:
    """Return a value as JSON, compressed with zlib, in base64: letters, digits, +, / and =."""
    return base64.b64encode(isal_zlib.compress(_json(value).encode())).decode()


def document(page: Page, details: Iterable[Detail | RowDetail], plotly: str) -> str:
    """Return the HTML text of a page.

    details: the data for the view of each run or row. plotly: the JavaScript source of
    plotly.js.
    """
    files = resources.files("orchestrator.report.html")
    parts = (files.joinpath(name).read_text("utf-8") for name in _SCRIPTS)
    # In a separate block, so that its names cannot collide with others.
    ours = _in_element('"use strict";\n{\n' + "\n".join(parts) + "}\n")
    theirs = _in_element(plotly)
    return Template(files.joinpath("page.html").read_text("utf-8")).substitute(
        title=escape(page.title),
        noun=escape(page.noun),
        nouns=escape(f"{page.noun}s"),
        heading=escape(f"{page.noun}s".capitalize()),
        beside=escape(page.beside),
        policy=_policy(ours, theirs),
        style=files.joinpath("page.css").read_text("utf-8"),
        page=json_in_html(page),
        script=ours,
        details="\n".join(map(_detail_element, details)),
        plotly=theirs,
    )


def _json(value: object) -> str:
    # Separators without blanks, for ten thousand runs.
    try:
        return json.dumps(value, default=_fields, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with slots, by name.

    A field that contains another dataclass is not converted; the callers do this.
    """
    return {name: getattr(value, name) for name in value.__slots__}


def _finite(value: Any) -> Any:
    """Return a value with nan and inf replaced by texts, at any depth."""
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return _finite(_fields(value)) if is_dataclass(value) else json_number(value)


def _detail_element(detail: Detail | RowDetail) -> str:
    # A type that no browser runs: the content is text, and is read when the user opens the run.
    return f'<script type="text/plain" id="detail-{detail.run_id}">{packed(detail)}</script>'


def _in_element(script: str) -> str:
    """Return a script that can be the text of an HTML script element.

    In `</script` and `<!--`, a backslash is added, so that they cannot end the element or
    begin a comment. JavaScript strings keep their values. All line ends become newlines,
    because browsers convert them to newlines before they compute the checksum of a script.
    """
    script = script.replace("\r\n", "\n").replace("\r", "\n")
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(*scripts: str) -> str:
    """Return a Content-Security-Policy that allows only these scripts and no requests.

    A script is allowed by its SHA-256 hash.
    """
    hashes = (
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    )
    sources = {
        "default-src": ("'none'",),
        "script-src": [f"'sha256-{digest}'" for digest in hashes],
        "style-src": ("'unsafe-inline'",),
        "img-src": ("data:", "blob:"),
        "base-uri": ("'none'",),
        "form-action": ("'none'",),
    }
    return "; ".join(" ".join((name, *allowed)) for name, allowed in sources.items())
