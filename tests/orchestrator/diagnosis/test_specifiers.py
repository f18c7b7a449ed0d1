"""What is required, and which versions are allowed."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from orchestrator import diagnosis
from orchestrator.installed import Requirement, parse_requirement, requirements
from orchestrator.specifiers import Version, satisfies

ROOT = Path(diagnosis.__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("click>=8.1", Requirement("click", ">=8.1", None)),
        ("submitit<1.6,>=1.5.4", Requirement("submitit", "<1.6,>=1.5.4", None)),
        ("pandas-stubs; extra == 'dev'", Requirement("pandas-stubs", "", "dev")),
        ('torch>=2.2 ; extra == "train"', Requirement("torch", ">=2.2", "train")),
        ("zope.interface", Requirement("zope.interface", "", None)),
        ("rich[jupyter] (>=13,<15)", Requirement("rich", ">=13,<15", None)),
        ("here @ file:///there/a.whl ; extra == 'hf'", Requirement("here", "", "hf")),
    ],
)
def test_a_requirement_is_a_name_a_specifier_and_an_extra(line: str, expected: Requirement) -> None:
    """Every way that metadata writes it."""
    assert parse_requirement(line) == expected


@pytest.mark.parametrize("line", ["", ">=2", "two words", "-x>=1"])
def test_what_is_no_requirement_is_refused(line: str) -> None:
    """The line is in the message."""
    with pytest.raises(ValueError, match="is no requirement"):
        parse_requirement(line)


def test_the_projects_own_requirements_are_all_read() -> None:
    """What pip wrote is what pyproject.toml says, extra by extra."""
    found = requirements()
    assert found is not None
    extras = {each.extra for each in found}
    assert {None, *diagnosis.EXTRAS} <= extras
    path = ROOT / "pyproject.toml"
    if path.exists():  # not beside an installed wheel
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for extra in extras:
            lines = project["optional-dependencies"][extra] if extra else project["dependencies"]
            asked = {parse_requirement(line).name.lower() for line in lines}
            assert {each.name.lower() for each in found if each.extra == extra} == asked


numbers = st.integers(0, 3)
releases = st.lists(numbers, min_size=1, max_size=3).map(lambda each: ".".join(map(str, each)))
suffixes = st.tuples(
    st.sampled_from(["", "", "a1", "b2", "rc1", "rc2"]),
    st.sampled_from(["", "", ".post0", ".post1"]),
    st.sampled_from(["", "", ".dev0", ".dev2"]),
).map("".join)
epochs = st.sampled_from(["", "", "", "1!"])
public_versions = st.builds("{}{}{}".format, epochs, releases, suffixes)
versions = st.builds("{}{}".format, public_versions, st.sampled_from(["", "", "+cpu", "+cu12.4"]))
compatible = st.builds("~={}{}.{}".format, epochs, releases, numbers)
prefixes = st.builds("{}{}{}.*".format, st.sampled_from(["==", "!="]), epochs, releases)
compared = st.builds(
    "{}{}".format, st.sampled_from([">=", "<=", "<", ">", "==", "!="]), public_versions
)
clauses = st.one_of(compared, compatible, prefixes)
specifiers = st.lists(clauses, max_size=2).map(", ".join)


@given(version=versions, specifier=specifiers)
def test_a_version_is_allowed_exactly_where_packaging_allows_it(
    version: str, specifier: str
) -> None:
    """The judge is the library that pip itself uses."""
    assert satisfies(version, specifier) == SpecifierSet(specifier).contains(
        version, prereleases=True
    )


@given(text=st.text(alphabet="0123.!abrcdevpost+-", max_size=12), specifier=specifiers)
def test_no_text_is_too_strange_to_be_judged(text: str, specifier: str) -> None:
    """What is no version is not allowed, and raises nothing."""
    assert Version.parse(text) is not None or not satisfies(text, specifier)


@pytest.mark.parametrize("specifier", ["=>1", "===1", ">=1.x", "1.0", ">=", "~=1.2,huh", "~=1"])
def test_a_clause_that_is_not_understood_allows_nothing(specifier: str) -> None:
    """What is unknown is not called fine."""
    assert not satisfies("1.2", specifier)
