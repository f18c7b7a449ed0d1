"""Check the docs: commands print what pages show, links work, and pages are short."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import record_output
import record_reference
import yaml
from click.testing import CliRunner

from orchestrator.campaign.file import CampaignFile
from orchestrator.campaign.parameters import CommonParameters
from orchestrator.campaign.starter import STARTER
from orchestrator.cli.main import SECTIONS, main
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster, load_cluster
from orchestrator.run.presets import PRESETS

ROOT = Path(__file__).parent.parent
# Leave out .venv and caches, which have thousands of files.
FOLDERS = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in folder.rglob("*.md"))]
)
PAGES = [path for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")]
README = (ROOT / "README.md").read_text()
REFERENCE = ROOT / "docs" / "reference"
PROSE_WIDTH = 100
PAGE_LINES = 250
README_LINES = 120

_LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#]+)")
_NUMBER = re.compile(r"\d[\d.,]*(e[-+]\d+)?")


def masked(text: str) -> list[str]:
    """Return the lines of an output, sorted, so that outputs with other measured values are equal.

    Numbers, dates and checksums are replaced by `#`.
    """
    without = re.sub(r"sha256 [0-9a-f]+", "sha256 #", text)
    without = re.sub(r"\d{4}-\d\d-\d\d", "#", without)
    lines = (re.sub(r"[ -]+", " ", _NUMBER.sub("#", line)) for line in without.splitlines())
    return sorted(lines)


@pytest.mark.train
@pytest.mark.timeout(1800)
def test_the_commands_print_what_the_pages_show() -> None:
    """The commands on the pages of `record_output.PAGES` print the output that the pages show.

    The commands run in order, in one folder. Numbers, dates and checksums may differ, except in the
    output of plan, init, render and estimate.
    """
    pytest.importorskip("deepspeed")
    shown = [
        pair for page in record_output.PAGES for pair in record_output.outputs(page.read_text())
    ]
    printed = record_output.run_commands([command for command, _ in shown])
    for (command, expected), (_, output) in zip(shown, printed, strict=True):
        if command.startswith(
            ("teralog plan", "teralog init", "teralog render", "teralog estimate")
        ):
            assert output == expected
        else:
            assert masked(output) == masked(expected)


def test_the_demo_is_what_the_readme_runs() -> None:
    """`make demo` runs two teralog commands with an example, and the README contains both."""
    command = ["make", "--dry-run", "demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    demo = [
        " ".join(words) for words in re.findall(r"(teralog) (\w+ examples/\S+\.yaml)", done.stdout)
    ]
    assert len(demo) == 2
    assert {*demo} <= {*record_output.commands(README)}


def test_the_readme_is_short() -> None:
    """The README is short enough to read in a minute; everything else is in the docs."""
    assert len(README.splitlines()) <= README_LINES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_is_short_and_its_lines_fit(path: Path) -> None:
    """Each page is short, and no line of prose is too long; tables and output may be wider."""
    lines = path.read_text().splitlines()
    assert len(lines) <= PAGE_LINES
    assert [line for line in prose_lines(lines) if len(line) > PROSE_WIDTH] == []


def prose_lines(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a page outside code and tables."""
    in_code = False
    for line in lines:
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.lstrip().startswith("|"):
            yield line


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_relative_link_leads_to_a_file(path: Path) -> None:
    """Every relative link on a page leads to an existing file."""
    for link in _LINK.finditer(path.read_text()):
        assert (path.parent / link["target"]).exists(), link["target"]


def test_the_first_page_links_every_page() -> None:
    """The pages in the menu of the site are also links on the first page, in the same order."""
    index = (ROOT / "docs" / "index.md").read_text()
    trees = "".join(re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL))
    menu = re.findall(r"^[\w./-]+$", trees, re.MULTILINE)
    assert menu
    assert re.findall(r"^- \[.*\]\((.*)\.md\)$", index, re.MULTILINE) == menu


def test_every_command_has_help() -> None:
    """Every command has a help text."""
    assert {command for commands in SECTIONS.values() for command in commands} == {
        *main.commands.values()
    }
    for name, command in main.commands.items():
        assert command.help
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize("path", record_reference.pages(), ids=lambda path: path.name)
def test_a_generated_page_is_up_to_date(path: Path) -> None:
    """Each generated page equals what `make record` would write now."""
    assert path.read_text() == record_reference.pages()[path]


def test_generated_pages_contain_every_key() -> None:
    """The generated pages have a row for every campaign key and every framework parameter."""
    keys = (REFERENCE / "campaign-keys.md").read_text()
    for kind in (CampaignFile, CommonParameters):
        assert {field.name for field in fields(kind) if f"| `{field.name}` |" not in keys} == set()
    assert {key for key in PRESETS if f"| `{key}` |" not in keys} == set()
    document = (REFERENCE / "frameworks.md").read_text()
    for name, framework in FRAMEWORKS.items():
        assert f"| `{name}` | {framework.description} |" in document
        for option in fields(framework.options):
            assert f"| `{option.name}` |" in document


def test_the_shown_cluster_profile_has_every_key(tmp_path: Path) -> None:
    """The cluster profile shown in the reference is valid and contains every key."""
    document = (REFERENCE / "cluster-profile.md").read_text()
    shown = document.partition("```yaml\n")[2].partition("```")[0]
    assert {*yaml.safe_load(shown)} == {field.name for field in fields(Cluster)}
    # A profile may have only one of these two keys.
    (tmp_path / "v100.yaml").write_text(shown.replace("memory_per_gpu: 40G\n", ""))
    load_cluster("v100.yaml", tmp_path)


def test_reference_has_every_outcome_name_and_option_of_parse() -> None:
    """The reference lists all outcome kinds, keys of JSON and options of `teralog parse`."""
    from parsers.records import OutcomeKind
    from parsers.summary.rows import RUN_NAMES

    document = "".join((REFERENCE / name).read_text() for name in ("parse.md", "json.md"))
    kinds = {kind.value for kind in OutcomeKind}
    parts = ("step_seconds_", "result_", "warmup_", "outcome_", "lines_")
    names = {name.removeprefix(part) for name in RUN_NAMES for part in parts if part in name}
    names |= {name for name in RUN_NAMES if not name.startswith(parts)}
    options = {option.opts[0] for option in main.commands["parse"].params if option.name != "paths"}
    assert {name for name in kinds | names | options if f"`{name}`" not in document} == set()


def test_the_python_of_the_tutorial_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Python code of the tutorial runs as shown, on a log with the name that the code uses."""
    tutorial = ROOT / "docs" / "tutorial" / "3-logs-you-have.md"
    (code,) = re.findall(r"```python\n(.*?)```", tutorial.read_text(), re.DOTALL)
    report = (
        "[teralog] iteration 1/2 | step_seconds 0.5 | samples_per_second 32 | loss 6.5"
        " | memory_allocated_gib 0.1 | max_memory_allocated_gib 0.2\n"
    )
    (tmp_path / "slurm-123.out").write_text(report + report.replace("1/2", "2/2"))
    monkeypatch.chdir(tmp_path)
    exec(code)
    assert "[0.5, 0.5]" in capsys.readouterr().out


def test_the_starter_and_the_examples_plan_without_a_problem(tmp_path: Path) -> None:
    """`teralog plan` accepts the starter campaign and all examples."""
    starter = tmp_path / "campaign.yaml"
    starter.write_text(STARTER.format(file=starter.name, schema="teralog.schema.json"))
    for path in (starter, *sorted((ROOT / "examples").glob("*.yaml"))):
        # Impossible rows of a page are planned unchanged, and the file explains it.
        says_so = "--skip-impossible" in path.read_text()
        assert CliRunner().invoke(main, ["plan", str(path)]).exit_code == says_so, path


def test_make_lists_every_target() -> None:
    """`make` alone lists all targets, in groups."""
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (\S+)", makefile, re.MULTILINE))
    lines = listed.stdout.splitlines()
    assert {line.split()[0] for line in lines if line.startswith("  ")} == targets
    groups = [line for line in lines if not line.startswith("  ")]
    assert groups == re.findall(r"^##@ (.+)", makefile, re.MULTILINE) != []
    assert targets >= {"help", "setup", "demo", "test", "check", "bench", "record", "wheel"}


def test_the_version_is_reported() -> None:
    """`teralog --version` prints the program's name and its version."""
    done = subprocess.run(
        [Path(sys.executable).parent / "teralog", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert re.fullmatch(r"teralog \d+\.\d+\.\d+\n", done.stdout)
