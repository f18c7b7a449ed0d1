"""Values in HTML stay text: no value becomes markup, and no value is lost."""

import base64
import json
import math
import zlib
from html.parser import HTMLParser
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.report.html.document import document, json_in_html, packed
from orchestrator.report.html.facts import Facts
from orchestrator.report.html.page import Page

# Pieces of markup, more frequent than in random text.
MARKUP = st.sampled_from(
    ["</script>", "<script>", "<!--", "-->", "]]>", "&lt;", "\u2028", "\ud800"]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(MARKUP, st.text())).map("".join))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXTS, inner)),
)


def as_json(value: Any) -> Any:
    """Return the value that JSON can hold for this value: nan and inf become texts.

    This function does not use teralog's code.
    """
    if isinstance(value, dict):
        return {key: as_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_json(part) for part in value]
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        return str(value)
    return value


@settings(max_examples=40)
@given(VALUES)
def test_json_in_html_is_json_and_has_no_markup(value: Any):
    """JSON for an HTML page contains no markup, and any value can be read back from it."""
    text = json_in_html(value)
    assert not set("<>&") & set(text)
    assert text.isascii()
    assert json.loads(text) == as_json(value)


@settings(max_examples=40)
@given(VALUES)
def test_packed_json_is_letters_and_comes_back(value: Any):
    """Packed JSON contains no markup, and unpacking gives the same value.

    The test unpacks it in the same steps as the browser does.
    """
    text = packed(value)
    assert not set("<>&\"'") & set(text)
    assert json.loads(zlib.decompress(base64.b64decode(text))) == as_json(value)


class Elements(HTMLParser):
    """A parser that collects the start tags of elements, and the texts of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the tag."""
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        """Collect the text if it is inside a script."""
        if self.tags and self.tags[-1] == "script" and self.scripts:
            self.scripts[-1] += data


FACTS = Facts(
    labels=(),
    configuration=(),
    tflops=(),
    peak_gib=(),
    forecast=(),
    boxes=(),
    completed=(),
)


def page_called(name: str) -> Page:
    """Return a page without runs, on which every text is `name`."""
    return Page(
        title=name,
        noun=name,
        identity=name,
        about=name,
        beside=name,
        provenance=name,
        columns=(),
        runs=(),
        ended=(),
        best=None,
        plots=(),
        facts=FACTS,
        curves=True,
        memory_of=name,
        gone=(name,),
    )


def parsed(name: str) -> Elements:
    """Return the HTML elements of a page on which every text is `name`.

    The stand-in for the script of the plot library contains the name too.
    """
    elements = Elements()
    elements.feed(document(page_called(name), [], f"let text = {json.dumps(name)};"))
    elements.close()
    return elements


@given(TEXTS.filter(lambda text: "\ud800" not in text))
def test_text_never_becomes_an_element(text: str):
    """The campaign's name, file names and the source of the plot library never become markup."""
    assert parsed(text).tags == parsed("plain").tags


def test_the_page_loads_nothing_from_elsewhere():
    """Apart from the plot library, a page contains no web address; its policy forbids requests."""
    text = document(page_called("plain"), [], "")
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in text


def test_only_the_page_s_own_scripts_may_run():
    """The page's policy lists the scripts' checksums, so an injected script would not run."""
    text = document(page_called("plain"), [], "")
    policy = text.split('Content-Security-Policy" content="')[1].split('"')[0]
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert scripts.count("'sha256-") == 2
    assert "unsafe" not in scripts
