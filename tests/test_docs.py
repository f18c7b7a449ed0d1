"""The documents are true: commands print what the README shows, links lead somewhere."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import readme
import record_frameworks
import yaml
from click.testing import CliRunner

from orchestrator.campaign.starter import STARTER
from orchestrator.cli.main import SECTIONS, main
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.hardware.cluster import Cluster, load_cluster
from orchestrator.run.presets import PRESETS

ROOT = Path(__file__).parent.parent
# Not in .venv and caches, which have thousands of files.
FOLDERS = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for one in FOLDERS for path in one.rglob("*.md"))])
README = (ROOT / "README.md").read_text()

_LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#]+)")
_NUMBER = re.compile(r"\d[\d.,]*(e[-+]\d+)?")


def masked(text: str) -> list[str]:
    """Return the lines of an output without what is measured: numbers, checksums, order."""
    without = re.sub(r"sha256 [0-9a-f]+", "sha256 #", text)
    without = re.sub(r"\d{4}-\d\d-\d\d", "#", without)
    lines = (re.sub(r"[ -]+", " ", _NUMBER.sub("#", line)) for line in without.splitlines())
    return sorted(lines)


@pytest.mark.train
@pytest.mark.timeout(1200)
def test_the_readme_s_commands_print_what_it_shows() -> None:
    """Every command in the README is run, in order, in an empty folder: training and all."""
    pytest.importorskip("deepspeed")
    shown = readme.outputs(README)
    for command, printed in readme.run_commands(readme.commands(README)):
        if command.startswith(("teralog plan", "teralog init", "teralog render")):
            assert printed == shown[command]
        else:
            assert masked(printed) == masked(shown[command])


def test_the_demo_is_what_the_readme_runs() -> None:
    """`make demo` submits and reports the campaign of the README, whose commands are run here."""
    command = ["make", "--dry-run", "demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    demo = [
        " ".join(words) for words in re.findall(r"(teralog) (\w+ examples/\S+\.yaml)", done.stdout)
    ]
    assert len(demo) == 2
    assert {*demo} <= {*readme.commands(README)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_relative_link_leads_to_a_file(path: Path) -> None:
    """No document points at what is not there."""
    for link in _LINK.finditer(path.read_text()):
        assert (path.parent / link["target"]).exists(), link["target"]


def test_every_command_has_help_and_stands_in_the_readme() -> None:
    """A command that nobody can find does not exist."""
    assert {one for commands in SECTIONS.values() for one in commands} == {*main.commands.values()}
    for name, command in main.commands.items():
        assert command.help
        assert f"`teralog {name}`" in README
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


def test_every_preset_stands_in_the_campaign_file_s_document() -> None:
    """The list of presets is whole."""
    document = (ROOT / "docs" / "reference" / "campaign-file.md").read_text()
    assert all(f"`{key}`" in document or f"`opt-{key}`" in document for key in PRESETS)


def test_every_common_parameter_is_in_the_campaign_file_s_document() -> None:
    """Those of one framework are in docs/reference/frameworks.md."""
    from orchestrator.campaign.parameters import COMMON

    document = (ROOT / "docs" / "reference" / "campaign-file.md").read_text()
    assert {name for name in COMMON if f"`{name}`" not in document} == set()


def test_every_key_of_a_cluster_profile_is_in_the_campaign_file_s_document(tmp_path: Path) -> None:
    """The profile that the document shows has them all, and is a good one."""
    document = (ROOT / "docs" / "reference" / "campaign-file.md").read_text()
    shown = document.partition("## Cluster profiles\n\n```yaml\n")[2].partition("```")[0]
    assert {*yaml.safe_load(shown)} == {field.name for field in fields(Cluster)}
    # Of these two a profile has one.
    (tmp_path / "v100.yaml").write_text(shown.replace("memory_per_gpu: 40G\n", ""))
    load_cluster("v100.yaml", tmp_path)


def test_frameworks_are_documented_as_the_table_has_them() -> None:
    """`make record` writes the page of their parameters, and their table in the README."""
    document = record_frameworks.document()
    assert record_frameworks.DOCUMENT.read_text() == document
    assert record_frameworks.with_table(README) == README
    for name, known in FRAMEWORKS.items():
        assert f"| `{name}` | {known.description} |" in README
        for option in fields(known.options):
            assert f"| `{option.name}` |" in document


def test_what_is_said_of_a_log_stands_in_its_document() -> None:
    """Kinds of ends, names of the JSON, options."""
    from parsers.records import OutcomeKind
    from parsers.summary.rows import RUN_NAMES

    document = (ROOT / "docs" / "reference" / "parse.md").read_text()
    kinds = {kind.value for kind in OutcomeKind}
    parts = ("step_seconds_", "warmup_", "outcome_", "lines_")
    names = {name.removeprefix(part) for name in RUN_NAMES for part in parts if part in name}
    names |= {name for name in RUN_NAMES if not name.startswith(parts)}
    options = {option.opts[0] for option in main.commands["parse"].params if option.name != "paths"}
    assert {one for one in kinds | names | options if f"`{one}`" not in document} == set()


def test_the_python_of_the_document_on_logs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands there."""
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "reference" / "parse.md").read_text(), re.DOTALL
    )
    report = (
        "[teralog] iteration 1/2 | step_seconds 0.5 | samples_per_second 32 | loss 6.5"
        " | memory_allocated_gib 0.1 | max_memory_allocated_gib 0.2\n"
    )
    (tmp_path / "slurm-123.out").write_text(report + report.replace("1/2", "2/2"))
    monkeypatch.chdir(tmp_path)
    exec(code)
    assert "[0.5, 0.5]" in capsys.readouterr().out


def test_the_starter_and_the_examples_plan_without_a_problem(tmp_path: Path) -> None:
    """What we give people to start from works."""
    starter = tmp_path / "campaign.yaml"
    starter.write_text(STARTER.format(file=starter.name, schema="teralog.schema.json"))
    for path in (starter, *sorted((ROOT / "examples").glob("*.yaml"))):
        # Rows of a page that cannot be run are planned as they stand, and the file says so.
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


def test_the_version_is_told() -> None:
    """`teralog --version` names program and version."""
    done = subprocess.run(
        [Path(sys.executable).parent / "teralog", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert re.fullmatch(r"teralog \d+\.\d+\.\d+\n", done.stdout)
