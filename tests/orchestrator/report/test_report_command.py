"""`teralog report`: its output, its files, and updates of a user's own page."""

import csv
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.store.campaign_store import campaign_store

CAMPAIGN = """\
name: mine
defaults:
  framework: gpt
  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
  gpus_per_node: 2
  micro_batch_size: 4
  train_iters: 4
warmup: 1
matrix: {strategy: [zero1, zero3], seed: [1, 2]}
"""
LOG = "".join(
    f"[teralog] iteration {number}/4 | step_seconds {time} | samples_per_second {8 / time} "
    "| loss 6.25 | memory_allocated_gib 0.25 | max_memory_allocated_gib 0.5\n"
    for number, time in enumerate((9.0, 1.0, 2.0, 3.0), start=1)
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.26 GiB.\n"
MARKS = "<!-- teralog report mine -->\n<!-- end of teralog report -->\n"


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt_in: Callable) -> Path:
    """Return a campaign of four runs: one completed, one out of memory, two not started."""
    from orchestrator.campaign.campaign import load_campaign

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.yaml"
    path.write_text(CAMPAIGN)
    store = campaign_store(tmp_path / "results", "mine")
    done, failed, *_ = load_campaign(path).runs
    attempt_in(store.run(done.run_id), log=LOG, state="COMPLETED")
    attempt_in(store.run(failed.run_id), log=OOM, state="FAILED")
    return path


def report(*options: str, code: int = 0) -> Result:
    """Run `teralog report` on the campaign; assert that it exits with `code`."""
    result = CliRunner().invoke(main, ["report", "mine.yaml", *options])
    assert result.exit_code == code, result.output
    return result


def on_terminal(*options: str, columns: int = 60, **environment: str) -> str:
    """Return the text that `teralog report` prints to a terminal, with its control codes."""
    parent, child = pty.openpty()
    words = ["report", "mine.yaml", *options]
    code = f"from orchestrator.cli.main import main; main({words!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=child,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **environment},
    ) as process:
        os.close(child)
        parts = []
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:  # Linux reports the end of a terminal as this error
                break
            if not part:
                break
            parts.append(part)
        assert process.wait(timeout=120) == 0
    os.close(parent)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_on_a_terminal_the_table_has_colors_and_step_times(campaign: Path) -> None:
    """On a terminal, titles are bold, and a run out of memory is red.

    Step times are drawn as block characters.
    """
    sent = on_terminal("--runs", columns=200)
    assert "\x1b[1mrun id" in sent
    (red,) = [line for line in sent.splitlines() if "\x1b[31m" in line]
    assert "OOM" in red
    assert "step times" in sent
    assert "▁▅█" in sent


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_report_is_no_wider_than_the_terminal(
    campaign: Path, columns: int, environment: dict[str, str]
) -> None:
    """If the terminal is too narrow, columns are left out, but never the outcome."""
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(columns=columns, **environment))
    assert max(map(len, shown.splitlines())) <= columns
    assert "OOM" in shown


def test_without_colors_a_wide_terminal_gets_the_same_text_as_a_pipe(campaign: Path) -> None:
    """A terminal without colors and a pipe get exactly the same characters."""
    piped = report().stdout
    assert on_terminal("--wide", NO_COLOR="1") == piped
    assert "\x1b" not in piped
    assert "▁" not in piped


def test_each_format_goes_to_stdout_alone(campaign: Path) -> None:
    """Only the requested format is on stdout; --write reports the written files on stderr."""
    folder = campaign.parent / "results" / "mine"
    for layout in ("text", "markdown", "csv", "json", "latex"):
        printed = report("--format", layout, "--write")
        assert "wrote" in printed.stderr
        assert "wrote" not in printed.stdout
    assert report("--format", "csv").stdout == (folder / "report.csv").read_text()
    assert report("--format", "json").stdout == (folder / "report.json").read_text()
    table = report("--format", "markdown").stdout
    assert table.strip() in (folder / "report.md").read_text()
    assert table.count("\n\n") == 1
    latex = report("--runs", "--format", "latex").stdout.splitlines()
    assert (latex[0], latex[-2]) == (r"\begin{tabular}{lrlllrrrrrrrrrrl}", r"\end{tabular}")
    assert latex[-1].startswith("% TFLOPs per GPU: ")
    assert r"\addlinespace" in latex


def test_what_is_sorted_and_filtered_is_printed_and_written_so(campaign: Path) -> None:
    """--sort and --filter apply to written files too; `--sort -seed` sorts in descending order."""
    folder = campaign.parent
    for name in ("some.csv", "some.json", "some.md"):
        done = report("--sort", "-seed", "--filter", "strategy == 'zero1'", "-o", name)
        assert (done.stdout, done.stderr.splitlines()[-1]) == ("", f"wrote {name}")
    rows = list(csv.DictReader((folder / "some.csv").read_text().splitlines()))
    assert [(row["strategy"], row["seed"]) for row in rows] == [("zero1", "2"), ("zero1", "1")]
    record = json.loads((folder / "some.json").read_text())
    assert [run["seed"] for run in record["runs"]] == [2, 1]
    ending = "Shown: 2 of 4 runs: strategy == 'zero1'. Sorted by -seed."
    assert record["provenance"].endswith(ending)
    assert ending in (folder / "some.md").read_text()


def files(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Return the bytes of all files in a folder, and when each file was written."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


LOOKING = (
    [],
    ["--filter", "seed == 1"],
    ["--sort", "seed"],
    ["--format", "json"],
    ["--by-node"],
)


@pytest.mark.parametrize("options", LOOKING, ids=" ".join)
def test_looking_writes_nothing(campaign: Path, options: list[str]) -> None:
    """Only --write, -o, --update and --html write files."""
    report("--write")
    before = files(campaign.parent)
    assert report(*options).stdout
    assert files(campaign.parent) == before


@pytest.mark.parametrize("option", ["--write", "--html"])
def test_a_table_of_some_runs_never_replaces_that_of_all(campaign: Path, option: str) -> None:
    """A table of only some runs never replaces the full report.

    `report` refuses to write it into a file of the full report, and names the option for another
    file.
    """
    report("--write")
    before = files(campaign.parent)
    assert "`-o FILE." in report(option, "--filter", "seed == 1", code=2).stderr
    full = campaign.parent / "results" / "mine" / "report.csv"
    refused = report("--filter", "seed == 1", "-o", str(full), code=1)
    assert "is the file of the full report" in refused.stderr
    assert files(campaign.parent) == before


FILES = {
    "text": "t.txt",
    "markdown": "t.md",
    "csv": "t.csv",
    "json": "t.JSON",
    "latex": "t.tex",
}


@pytest.mark.parametrize(("layout", "name"), FILES.items())
def test_a_file_has_the_format_of_its_suffix(campaign: Path, layout: str, name: str) -> None:
    """--format sets the format of a written file; without it, the file's suffix does.

    The content is the same as on stdout.
    """
    printed = report("--format", layout).stdout
    report("-o", name)
    assert (campaign.parent / name).read_text() == printed
    report("-o", "other", "--format", layout)
    assert (campaign.parent / "other").read_text() == printed


WRONG_FILES = {
    "no suffix": ("table", 2, "or add --format"),
    "another suffix": ("table.docx", 2, "no format has the suffix '.docx'"),
    "no such folder": ("nosuch/t.md", 1, "cannot be written: No such file or directory"),
}


@pytest.mark.parametrize(("name", "code", "message"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_file_that_cannot_be_written_is_a_sentence(
    campaign: Path, name: str, code: int, message: str
) -> None:
    """If a file cannot be written, or its format is unknown, a message reports it.

    `report` then creates and changes no file.
    """
    before = files(campaign.parent)
    assert message in report("-o", name, code=code).stderr
    assert files(campaign.parent) == before


@pytest.mark.parametrize("layout", ["text", "markdown", "json"])
def test_a_table_does_not_overwrite_the_campaign_file(campaign: Path, layout: str) -> None:
    """`report -o` does not replace the campaign file, whatever the format."""
    before = campaign.read_text()
    refused = report("-o", campaign.name, "--format", layout, code=1).stderr
    assert f"{campaign.name}: is the campaign file; give another file" in refused
    assert campaign.read_text() == before


def test_a_table_does_not_overwrite_a_page_of_prose(campaign: Path) -> None:
    """`report -o PAGE.md` replaces a table that it wrote earlier, but no other markdown file."""
    page = campaign.parent / "README.md"
    page.write_text("# Our model\n\nprose\n")
    refused = report("-o", "README.md", code=1).stderr
    assert "README.md: exists, and teralog did not write it" in refused
    assert "--update README.md" in refused
    assert page.read_text() == "# Our model\n\nprose\n"
    for _ in range(2):
        report("-o", "table.md")
    report("--write")
    [whole] = campaign.parent.glob("results/*/report.md")
    report("-o", str(whole))


def test_values_missing_in_the_table_are_reported(campaign: Path) -> None:
    """Messages report logs without steps, missing logs, and runs removed from the campaign file."""
    assert "no step" not in report().stderr
    logs = campaign.parent.glob("results/*/*/*/*.log")
    [log] = [path for path in logs if "step" in path.read_text()]
    log.write_text("garbage\n")
    assert "1 completed run without a step report in the log: zero1 seed=1" in report().stderr
    log.unlink()
    stderr = report().stderr
    assert "no step" not in stderr
    assert "1 completed run without a log file, which may have been deleted: zero1 seed=1" in stderr
    log.write_text(LOG)
    assert "completed" not in report().stderr
    for folder in (path.parents[1] for path in campaign.parent.glob("results/*/*/*/*.log")):
        (folder / "run.json").write_text(json.dumps({"run_id": folder.name, "label": folder.name}))
    campaign.write_text(CAMPAIGN.replace("seed: [1, 2]", "seed: [3]"))
    assert (
        "2 measured runs left out of the report: no longer in mine.yaml; the results are kept"
        in report().stderr
    )


def test_a_table_names_arguments_that_its_numbers_ignore(playground) -> None:
    """A note below the table names the arguments of a run that sizes and FLOPs do not include."""
    playground.write_campaign(
        "true",
        matrix="seed: [1], extra_args: [[--swiglu]]",
        framework="megatron",
        source="here",
    )
    result = playground.teralog("report", "campaign.yaml", "--format", "markdown").stdout
    assert "model sizes and FLOPs ignore --swiglu of the runs megatron; " in result


SKIPPED = (
    " iteration {} / 3 | elapsed time per iteration (ms): {} | learning rate: 0.000E+00 | global "
    "batch size: 8 | loss scale: 2147483648.0 | number of skipped iterations: {} | number of nan "
    "iterations: 0 |"
)


@pytest.mark.parametrize(
    ("skips", "mean", "warning"),
    [
        ((1, 1, 0), 2.0, None),
        ((1, 1, 1), None, "1 completed run with a skipped update in every report after"),
    ],
)
def test_reports_with_skipped_updates_are_left_out_and_reported(
    playground, skips: tuple[int, ...], mean: float | None, warning: str | None
) -> None:
    """Step reports with skipped updates are left out of the numbers, and notes report this."""
    times = (9000.0, 1000.0, 2000.0)
    lines = [SKIPPED.format(at + 1, times[at], count) for at, count in enumerate(skips)]
    playground.write_campaign(
        "".join(f"echo '{line}'; " for line in lines),
        matrix="seed: [1]",
        framework="megatron",
        source="here",
        train_iters=3,
    )
    path = playground.path / "campaign.yaml"
    path.write_text(f"{path.read_text()}warmup: 1\n")
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    done = playground.teralog("report", "campaign.yaml", "--format", "markdown")
    [run] = json.loads((playground.path / "results/play/report.json").read_text())["runs"]
    assert run["step_seconds_mean"] == mean
    left_out = "1 report with skipped updates left out; "
    all_left_out = (
        "2 reports with skipped updates left out; "
        "all reports of megatron contain a skipped update; "
    )
    assert (all_left_out if warning else left_out) in done.stdout
    assert (warning is None) == ("skipped update" not in done.stderr)
    assert warning is None or warning in done.stderr
    every = "skipped update in every report after its warm-up"
    assert (warning is None) == (every not in playground.teralog("noise", "campaign.yaml").stdout)
    every = "every report after the warm-up contains a skipped update: megatron"
    assert (warning is None) == (every not in playground.teralog("watch", "campaign.yaml").stdout)


@pytest.mark.parametrize("warmup", [4, 500])
def test_that_the_warm_up_leaves_no_step_is_reported(campaign: Path, warmup: int) -> None:
    """If no step of a completed run remains after the warm-up, a note reports that."""
    assert "warm-up (" not in report().stderr
    campaign.write_text(CAMPAIGN.replace("warmup: 1", f"warmup: {warmup}"))
    assert report().stderr.splitlines() == [
        "results: results/mine",
        f"1 completed run has no step time after the warm-up (warmup: {warmup}): zero1 seed=1",
    ]
    for log in campaign.parent.glob("results/*/*/*/*.log"):
        log.write_text(LOG)
        ended = log.with_name("ended.json")
        ended.write_text(ended.read_text().replace("FAILED", "COMPLETED"))
    _, lines = report().stderr.splitlines()
    assert lines.startswith("2 completed runs have no step time after the warm-up (warmup: ")
    assert lines.endswith(": zero1 seed=1, zero1 seed=2")


def test_a_page_of_the_user_is_updated(campaign: Path) -> None:
    """`report --update` writes the table between two comments of the user's page.

    A second call does not write the page again.
    """
    page = campaign.parent / "page.md"
    page.write_bytes(b"# Mine\r\n" + MARKS.replace("\n", "\r\n").encode() + b"end \xff")
    assert "updated page.md" in report("--update", "page.md").stderr
    written = page.read_bytes()
    head, table, tail = re.split(rb"(?<=report mine -->)|(?=<!-- end of)", written)
    assert head == b"# Mine\r\n<!-- teralog report mine -->"
    assert tail == b"<!-- end of teralog report -->\r\nend \xff"
    printed = report("--format", "markdown").stdout
    assert table.decode().replace("\r\n", "\n").strip() == printed.strip()
    before = page.stat()
    assert "page.md: is up to date" in report("--update", "page.md").stderr
    assert page.stat().st_mtime_ns == before.st_mtime_ns
    assert page.stat().st_ino == before.st_ino


def test_a_page_without_its_place_stays_as_it_is(campaign: Path) -> None:
    """If a page lacks the two comments for the table, a message shows them.

    No file is written.
    """
    page = campaign.parent / "page.md"
    page.write_text("# Mine\n")
    result = report("--update", "page.md", code=1)
    assert result.stdout == ""
    assert result.stderr == (
        "results: results/mine\nteralog: page.md: has no comments for the report of mine; paste "
        "these two comments where you want the report, each on its own line: <!-- teralog report "
        "mine --> and <!-- end of teralog report -->\n"
    )
    assert page.read_text() == "# Mine\n"
    assert not (campaign.parent / "results" / "mine" / "report.md").exists()
    page.write_text("# Mine\n<!-- teralog report mine -->\n")
    assert "teralog: page.md:2: <!-- end of teralog" in report("--update", "page.md", code=1).stderr
    gone = report("--update", "gone.md", code=1)
    assert gone.stderr == "results: results/mine\nteralog: gone.md: No such file or directory\n"


@pytest.mark.parametrize(
    "option", ["--html", "--sort=seed", "--filter=", "--write", "-o=a.md", "--runs"]
)
def test_the_table_of_nodes_goes_with_none_of_the_others(campaign: Path, option: str) -> None:
    """With --by-node (a table of nodes), options for the table of runs are refused."""
    assert "--by-node" in report("--by-node", option, code=2).stderr
