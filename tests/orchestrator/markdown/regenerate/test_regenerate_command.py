"""`teralog regenerate-tflops` on files and standard input, and its error messages."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.markdown.meaning.settings import FACTORS, KEYS, MOST_DECIMALS, Formula
from orchestrator.markdown.regenerate.columns import COMPUTED

RIGHT = (Path(__file__).parents[3] / "data" / "benchmarks.md").read_bytes()
STALE = RIGHT.replace(b"   24.9 |", b"    9.9 |")
DOCUMENT = Path(__file__).parents[4] / "docs" / "how-to" / "regenerate-tflops.md"
TERALOG = Path(sys.executable).parent / "teralog"


def run(*arguments: str | Path, page: bytes = b"") -> Result:
    """Run `teralog regenerate-tflops` in this process."""
    return CliRunner().invoke(main, ["regenerate-tflops", *map(str, arguments)], input=page)


@pytest.fixture
def stale(tmp_path: Path) -> Path:
    """Return a page with one wrong cell."""
    file = tmp_path / "page.md"
    file.write_bytes(STALE)
    return file


def test_the_new_page_goes_to_standard_output(stale: Path) -> None:
    """By default, the new page is printed on stdout, and the file stays unchanged."""
    done = run(stale)
    assert (done.exit_code, done.stdout_bytes) == (0, RIGHT)
    assert stale.read_bytes() == STALE


def test_standard_input_is_a_file_too() -> None:
    """The file name `-` means standard input.

    The wrong cell is corrected, and all other bytes of the page are printed unchanged.
    """
    done = run("-", page=b"\xef\xbb\xbf" + STALE.replace(b"\n", b"\r\n") + b"\xff")
    assert done.stdout_bytes == b"\xef\xbb\xbf" + RIGHT.replace(b"\n", b"\r\n") + b"\xff"


def test_in_place_writes_the_file(stale: Path) -> None:
    """`--in-place` writes the new page into the file, and reports how many cells changed.

    If no cell changes, the file is not written.
    """
    done = run("--in-place", stale)
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"{stale}: rows computed: 9, cells changed: 1\n" in done.stderr
    assert stale.read_bytes() == RIGHT
    before = stale.stat()
    assert "cells changed: 0" in run("--in-place", stale).stderr
    assert stale.stat() == before


def test_check_names_the_cells_and_exits_with_1(stale: Path) -> None:
    """`--check` prints the cells that would change, and exits with 1 if anything would change."""
    done = run("--check", stale)
    assert done.exit_code == 1
    assert done.stdout == f"{stale}:17: TFlops is 9.9, should be 24.9\n"
    assert stale.read_bytes() == STALE
    assert run("--check", "-", page=RIGHT).exit_code == 0
    new = run("--check", "-", "--add", "hfu", "--gpu", "V100-SXM2", page=RIGHT)
    assert new.exit_code == 1
    assert "rows computed: 9, cells to change: 0, new columns: 3" in new.stderr


def test_diff_shows_the_lines(stale: Path) -> None:
    """`--diff` prints the changed lines and exits with 0; with --check as well, it exits with 1."""
    done = run("--diff", stale)
    assert done.exit_code == 0
    assert [line[:1] for line in done.stdout.splitlines()] == list("-+@   -+   ")
    assert run("--diff", "--check", stale).exit_code == 1


def test_all_files_are_read_and_all_problems_reported(stale: Path, tmp_path: Path) -> None:
    """If a file is unreadable or invalid, a message reports it; the other files are rewritten."""
    wrong = tmp_path / "wrong.md"
    wrong.write_bytes(b"<!-- teralog: factr=3 -->\n")
    done = run("--in-place", tmp_path / "none.md", wrong, tmp_path, stale)
    assert done.exit_code == 1
    assert stale.read_bytes() == RIGHT
    lines = done.stderr.splitlines()
    assert f"teralog: {tmp_path / 'none.md'}: No such file or directory" in lines
    assert f"teralog: {wrong}:1: factr: is not a setting; did you mean 'factor'?" in lines
    assert f"teralog: {tmp_path}: Is a directory" in lines


def test_rows_that_are_not_understood_are_listed(tmp_path: Path) -> None:
    """For a row that cannot be parsed, stderr has the file, the line and the reason.

    The exit code is still 0.
    """
    page = RIGHT.replace(b"1.103s ", b"1-2s   ")
    done = run("-", page=page)
    assert (done.exit_code, done.stdout_bytes) == (0, page)
    assert "-:17: Throughput: '1-2s' is a range; one number is needed\n" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--in-place", "--check", "x.md"], "--in-place: cannot be used with --diff or --check"),
        (["--in-place", "-"], "--in-place: cannot write to standard input"),
        (["--add", "mfuu", "-"], "'mfuu' is not a column that can be added; did you mean 'mfu'?"),
        (["--factor", "5", "-"], "'5' is not one of"),
        (["--decimals", "9", "-"], "0<=x<=6"),
        ([], "Missing argument 'FILE...'"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(arguments: list[str], message: str) -> None:
    """Invalid options, and options that contradict each other, exit with code 2."""
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_gpu_that_is_not_known_is_reported() -> None:
    """If the GPU for an MFU is unknown, a message reports it, and no page is printed."""
    done = run("--add", "mfu", "--gpu", "Voodoo 2", "-", page=RIGHT)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "'Voodoo 2' is not in the table of GPUs" in done.stderr


def test_options_are_those_of_the_settings() -> None:
    """The valid values of the options are those of the settings in a page's comments.

    The command line repeats them in its own code, so that --help need not import the settings.
    """
    options = {option.name: option.type for option in main.commands["regenerate-tflops"].params}
    assert options["formula"].choices == tuple(Formula)
    assert options["factor"].choices == tuple(map(str, FACTORS))
    assert options["decimals"].max == MOST_DECIMALS


def test_text_from_a_file_does_not_control_the_terminal(tmp_path: Path) -> None:
    """The file's name and cells are shown without control characters."""
    page = RIGHT.replace(b"1.103s ", b"1-2\x1b[31ms")
    done = run("--check", "-", page=page)
    assert "\x1b" not in done.stdout + done.stderr


def test_the_document_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The examples in the docs are what the commands print.

    The docs contain an example page and two commands. The first command must print exactly the
    output in the docs. The output of the second command must contain the table in the docs.
    """
    monkeypatch.chdir(tmp_path)
    first, second = re.findall(r"```text\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    _, page, printed = re.split(r"^\$ .*\n", first, flags=re.MULTILINE)
    Path("page.md").write_text(page)
    commands = re.findall(r"^\$ teralog regenerate-tflops (.*)", first + second, re.MULTILINE)
    assert run(*commands[0].split()).output == printed
    table = second.partition("…\n")[2]
    assert len(table.splitlines()) == 3
    assert table in run(*commands[1].split()).stdout


def test_every_setting_and_column_is_in_the_document() -> None:
    """The docs describe every setting of a comment, and every column that can be added."""
    document = DOCUMENT.read_text()
    assert all(f"`{key}`" in document for key in KEYS)
    assert all(re.search(rf"`{name}`|--add [a-z,_]*{name}", document) for name in COMPUTED)


def test_only_the_standard_library_and_click_are_loaded(stale: Path) -> None:
    """The command imports only the standard library and click, so it starts as fast as --help."""
    code = (
        "import sys, click; before = set(sys.modules); from orchestrator.cli.main import main\n"
        "try: main(['regenerate-tflops', '--check', sys.argv[1]])\n"
        "except SystemExit: print(*{*sys.modules} - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, stale], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert loaded - sys.stdlib_module_names <= {"click", "orchestrator"}


@pytest.mark.parametrize(
    ("redirection", "which"), [("<&-", "standard input"), ("</dev/null >&-", "standard output")]
)
def test_a_closed_stream_is_reported(redirection: str, which: str) -> None:
    """If stdout or stdin is closed, one sentence names it, and the exit code is 1."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$1" regenerate-tflops - {redirection}', "sh", TERALOG],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"teralog: -: {which} is closed\n"


@pytest.mark.parametrize("peak", ["nan", "inf", "0", "-1"])
def test_a_peak_that_is_no_number_above_zero_is_refused(peak: str, stale: Path) -> None:
    """The option --gpu-peak-tflops refuses 0, negative numbers, NaN and infinity."""
    done = run("--add", "mfu", "--gpu-peak-tflops", peak, str(stale))
    assert (done.exit_code, done.stdout) == (2, "")


ODD = b"""\
| Kind | Cards | Bsz | Dur (ms) | TFLOPs |
|---|---|---|---|---|
| 1.3B | 8 | 16 | 2500 | 1 |
"""
COLUMNS = ("--column=Kind=parameters", "--column=**cards** = world_size", "--seq-length=2048")
GIVEN: dict[str, tuple[tuple[str, ...], float]] = {
    "a time with its unit": (
        ("--column=Bsz=global_batch_size", "--column=Dur (ms)=step_seconds"),
        2.5,
    ),
    "a rate": (
        ("--column=Bsz=global_batch_size", "--column=Dur (ms)=samples_per_second"),
        16 / 2500,
    ),
}


@pytest.mark.parametrize(("columns", "seconds"), GIVEN.values(), ids=GIVEN)
def test_a_column_holds_what_the_user_says(columns: tuple[str, ...], seconds: float) -> None:
    """With --column, the user gives the meaning of a column that teralog does not recognize."""
    assert run("-", "--seq-length=2048", page=ODD).stdout_bytes == ODD
    done = run("-", *COLUMNS, *columns, "--decimals=3", page=ODD)
    expected = 1.3e9 * 4 * 2 * 2048 * 16 / (seconds * 8 * 1e12)
    assert f"| {expected:.3f} |" in done.stdout
    assert done.exit_code == 0


MISUSED: dict[str, tuple[str, int, str]] = {
    "no such title": ("Sort=notes", 1, "--column: no table has a column 'Sort'"),
    "no such name": ("Bsz=micro_batch", 2, "did you mean 'micro_batch_size'?"),
    "no title": ("=notes", 2, "'=notes' is not TITLE=NAME"),
    "no name": ("Bsz", 2, "'Bsz' is not TITLE=NAME"),
}


@pytest.mark.parametrize(("column", "code", "sentence"), MISUSED.values(), ids=MISUSED)
def test_a_column_that_is_not_understood_is_refused(column: str, code: int, sentence: str) -> None:
    """The message about an unknown meaning of a column lists the valid ones."""
    done = run("-", f"--column={column}", page=ODD)
    assert done.exit_code == code
    assert sentence in " ".join(done.stderr.split())


def test_check_has_json(stale: Path) -> None:
    """`--check --json` prints one object per cell that would change.

    `--json` without `--check` is refused.
    """
    done = run("--check", "--json", stale)
    assert done.exit_code == 1
    (cell,) = json.loads(done.stdout)
    assert (cell["file"], cell["before"], cell["after"]) == (str(stale), "9.9", "24.9")
    assert run("--json", stale).exit_code == 2
    stale.write_bytes(RIGHT)
    assert json.loads(run("--check", "--json", stale).stdout) == []
