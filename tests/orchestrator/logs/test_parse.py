"""`teralog parse`: any log, without a campaign."""

import csv
import errno
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main

LOGS = Path(__file__).parents[4] / "shared" / "logs"


def line(iteration: int, ms: float, *, skipped: int = 0) -> str:
    """Return a step report as Megatron writes it."""
    return (
        f" iteration {iteration:8d}/       3 | consumed samples: {16 * iteration:12d} | "
        f"elapsed time per iteration (ms): {ms:.1f} | learning rate: 1.500E-04 | "
        "global batch size:    16 | lm loss: 2.500000E+00 | loss scale: 1.0 | "
        f"number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |\n"
    )


RUN = line(1, 9000) + line(2, 1000) + line(3, 1500)
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with the log of a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.log").write_text(RUN)
    return tmp_path


def parse(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """Run `teralog parse`."""
    return CliRunner().invoke(main, ["parse", *arguments], input=stdin)


def objects(*arguments: str, stdin: str | bytes | None = None) -> list[dict[str, Any]]:
    """Return the JSON output of `teralog parse`."""
    result = parse("--format", "json", *arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    record: list[dict[str, object]] = json.loads(result.stdout)
    return record


@pytest.mark.parametrize("damaged", ["campaign.json", "abc123/run.json"])
def test_damaged_records_of_a_campaign_are_reported(folder: Path, damaged: str) -> None:
    """If a file that describes the run of a log is damaged, a message names it.

    The log is read nevertheless, with the default warm-up. Without these files, there is no
    message.
    """
    attempt = folder / "results" / "mine" / "abc123" / "attempt-1"
    attempt.mkdir(parents=True)
    (attempt / "output.log").write_text(RUN)
    assert parse("results").exit_code == 0
    campaign = folder / "results" / "mine"
    (campaign / "campaign.json").write_text('{"name": "mine", "warmup": 0, "runs": {}}')
    (campaign / "abc123" / "run.json").write_text('{"train_iters": 3}')
    assert "warm-up none (by campaign mine" in parse("results").stderr
    (campaign / damaged).write_text("{")
    result = parse("results")
    assert result.exit_code == 1
    assert "was read without the warm-up and the settings of its campaign" in result.stderr
    assert f"{damaged}: is damaged" in result.stderr
    assert "warm-up first (1 report left out)" in result.stderr


def test_a_log_is_summarised_in_a_row(folder: Path) -> None:
    """`parse` prints one row per log; messages on stderr state which reports were left out."""
    result = parse("run.log")
    assert result.exit_code == 0
    title, unit, _, row = result.stdout.splitlines()
    assert title.split()[:4] == ["log", "format", "global", "batch"]
    assert "(s)" in unit
    assert row.split()[:6] == ["run.log", "Megatron", "16", "2", "1.250", "1.250"]
    assert row.endswith("completed (line 3)")
    assert "warm-up first (1 report left out)" in result.stderr
    assert "3 lines parsed" in result.stderr


@pytest.mark.parametrize("source", ["file", "stdin", "gzip"])
def test_the_numbers_do_not_depend_on_where_the_log_comes_from(folder: Path, source: str) -> None:
    """A file, standard input and a compressed file give the same numbers."""
    (folder / "run.log.gz").write_bytes(gzip.compress(RUN.encode()))
    path, stdin = {
        "file": ("run.log", None),
        "stdin": ("-", RUN),
        "gzip": ("run.log.gz", None),
    }[source]
    (run,) = objects(path, stdin=stdin)
    assert run["path"] == path
    assert run["steps"] == 3
    assert run["step_seconds"] == {
        "n": 2,
        "mean": 1.25,
        "median": 1.25,
        "min": 1.0,
        "max": 1.5,
        "first": 1.0,
        "std": pytest.approx(0.125**0.5),
    }


def test_the_options_choose_which_reports_count(folder: Path) -> None:
    """`--warmup` and `--skipped` choose the step reports that count.

    The JSON has the warm-up, and how many reports were left out because of each option.
    """

    def left_out(run: dict[str, Any]) -> tuple[object, ...]:
        warmup = run["warmup"]
        assert (warmup["covered"], warmup["steady"]) == (0, True)
        return warmup["policy"], warmup["dropped"], warmup["skipped"]

    (folder / "run.log").write_text(line(1, 9000, skipped=1) + line(2, 1000) + line(3, 1500))
    (run,) = objects("run.log", "--warmup", "none", "--skipped", "keep")
    assert left_out(run) == ("none", 0, 0)
    (run,) = objects("run.log", "--warmup", "none")
    assert left_out(run) == ("none", 0, 1)
    (run,) = objects("run.log", "--warmup", "2")
    assert left_out(run) == ("2", 2, 0)
    (run,) = objects("run.log", "--warmup", "auto")
    assert left_out(run) == ("auto", 0, 1)


def test_means_over_steps_that_other_reports_cover_are_left_out(folder: Path) -> None:
    """MLPerf's mean between two validations is a report, but the run's numbers do not use it."""
    report = (
        ':::MLLOG {{"key": "tracked_stats", "value": {{"train_step_time": {}}}, "metadata": {}}}'
    )
    lines = [
        *(
            report.format(seconds, f'{{"step": {step}, "samples_count": {step}}}')
            for step, seconds in ((16, 8.0), (32, 9.0))
        ),
        report.format(8.25, '{"samples_count": 32}'),
        report.format(9.5, '{"step": 48, "samples_count": 48}'),
    ]
    (folder / "run.log").write_text("\n".join(lines))
    (run,) = objects("run.log")
    assert (run["steps"], run["warmup"]["dropped"], run["warmup"]["covered"]) == (4, 1, 1)
    assert (run["step_seconds"]["n"], run["step_seconds"]["mean"]) == (2, 9.25)
    rows = objects("run.log", "--steps")
    assert [(row["iteration"], row["covered"], row["counted"]) for row in rows] == [
        (16, None, False),
        (32, None, True),
        (32, True, False),
        (48, None, True),
    ]
    assert (
        "run.log: 1 mean over several steps is left out, because other reports cover these steps"
        in parse("run.log").stderr
    )


@pytest.mark.parametrize("first", [0, 100])
def test_the_first_steps_of_maxtext_are_its_warm_up(folder: Path, first: int) -> None:
    """By default, the first three steps of MaxText do not count, also after a checkpoint."""
    seconds = ["20.410", "0.007", "0.007", *["3.449"] * 4]
    (folder / "run.log").write_text(
        "".join(
            f"completed step: {step}, seconds: {time}, TFLOP/s/device: 412.001, loss: 2.250\n"
            for step, time in enumerate(seconds, start=first)
        )
    )
    (run,) = objects("run.log")
    assert run["step_seconds"] == {
        **dict.fromkeys(("mean", "median", "min", "max", "first"), 3.449),
        "n": 4,
        "std": 0,
    }
    left_out = {"policy": "3", "dropped": 3, "skipped": 0, "covered": 0, "steady": True}
    assert run["warmup"] == left_out


def test_an_invalid_warm_up_is_a_mistake_of_usage(folder: Path) -> None:
    """An invalid warm-up exits with code 2, and the message shows every way to write a warm-up."""
    result = parse("run.log", "--warmup", "10 %")
    assert result.exit_code == 2
    assert (
        "give a number of iterations (5), a percentage below 100 (10%), `first` or `auto`"
        in result.stderr
    )


def test_every_step_report_is_given_on_request(folder: Path) -> None:
    """`--steps` prints every step report, and whether it counts in the run's numbers."""
    rows = objects("run.log", "--steps")
    assert [(row["iteration"], row["step_seconds"], row["counted"]) for row in rows] == [
        (1, 9.0, False),
        (2, 1.0, True),
        (3, 1.5, True),
    ]
    text = parse("run.log", "--steps", "--format", "csv").stdout
    assert [row["iteration"] for row in csv.DictReader(io.StringIO(text))] == ["1", "2", "3"]
    assert "tokens_per_second" not in parse("run.log", "--steps").stdout


def test_a_loss_of_nan_is_text_in_json(folder: Path) -> None:
    """JSON has no NaN, so such a loss is written as text."""
    (folder / "run.log").write_text(RUN.replace("2.500000E+00", "nan"))
    assert {row["loss"] for row in objects("run.log", "--steps")} == {"nan"}


def test_the_table_is_also_markdown_and_csv(folder: Path) -> None:
    """`--format md` prints the table as markdown, and `--format csv` prints it as CSV.

    CSV is for programs, so its numbers are not rounded as in the table.
    """
    assert parse("run.log", "--format", "md").stdout.startswith("| log")
    (row,) = csv.DictReader(io.StringIO(parse("run.log", "--format", "csv").stdout))
    assert (row["steps"], row["step_seconds_mean"], row["outcome_kind"]) == (
        *("3", "1.25"),
        "completed",
    )


@pytest.mark.parametrize("steps", [(), ("--steps",)])
def test_a_table_without_rows_has_its_header(folder: Path, steps: tuple[str, ...]) -> None:
    """If no log has a row, CSV and Parquet output still have all columns."""
    header = parse("run.log", "--format", "csv", *steps).stdout.splitlines()[0]
    (folder / "empty.log").touch()
    assert parse("empty.log", "--format", "csv", *steps).stdout == f"{header}\n"
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    result = parse("empty.log", "--format", "parquet", *steps)
    frame = pandas.read_parquet(io.BytesIO(result.stdout_bytes))
    assert list(frame.columns) == header.split(",")


def test_a_parquet_file_comes_out_whole(folder: Path) -> None:
    """`--format parquet` prints a complete Parquet file, here with one row per step report."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    result = parse("run.log", "--steps", "--format", "parquet")
    assert result.exit_code == 0
    frame = pandas.read_parquet(io.BytesIO(result.stdout_bytes))
    assert list(frame["step_seconds"]) == [9.0, 1.0, 1.5]


def test_a_problem_of_a_log_is_reported_and_the_others_are_read(folder: Path) -> None:
    """Each log with a problem gets one sentence, and the other logs are still read.

    The exit code is 1.
    """
    (folder / "empty.log").touch()
    (folder / "binary.log").write_bytes(b"\x7fELF\0\0\0\1" * 100)
    (folder / "prose.txt").write_text("Dear diary,\n")
    (folder / "dialect.txt").write_text(line(1, 9000).partition("| number")[0] + "\n")
    (folder / "damaged.log.gz").write_bytes(gzip.compress(RUN.encode() * 99)[:60])
    (folder / "bare").mkdir()
    (folder / "loop.log").symlink_to("loop.log")
    paths = ("missing.log", "empty.log", "binary.log", "prose.txt", "damaged.log.gz", "loop.log")
    result = parse(*paths, "dialect.txt", "bare", "*.nothing", "", "run.log")
    assert result.exit_code == 1
    assert "run.log" in result.stdout
    assert "Traceback" not in result.output
    for sentence in (
        "missing.log: cannot be read: No such file or directory",
        "empty.log: is empty",
        "binary.log: contains NUL bytes: it may not be text",
        "prose.txt: contains no training output",
        "damaged.log.gz: is cut off",
        "loop.log: cannot be read: Too many levels of symbolic links",
        "bare: contains no log",
        "dialect.txt: could not parse 1 possible step report; `--unparsed` prints them",
        "*.nothing: there is no file or folder with this name",
        "'': there is no file or folder with this name",
    ):
        assert f"teralog: {sentence}" in result.stderr


def test_a_log_without_read_permission_is_reported(folder: Path) -> None:
    """If the user may not read a log, a message reports that, and the other logs are read.

    The test has no effect for root, who may read all files.
    """
    (folder / "secret.log").write_text(RUN)
    (folder / "secret.log").chmod(0)
    try:
        (folder / "secret.log").read_bytes()
    except PermissionError:
        result = parse("secret.log", "run.log")
        assert result.exit_code == 1
        assert "secret.log: cannot be read: Permission denied" in result.stderr
        assert "run.log" in result.stdout


def test_a_folder_without_read_permission_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the user may not list a folder, a message reports that, and the other logs are read.

    The test refuses the permission by a function of its own, because root may list all folders.
    """
    (folder / "logs" / "secret").mkdir(parents=True)
    (folder / "logs" / "run.log").write_text(RUN)
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if Path(path).name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    result = parse("logs")
    assert result.exit_code == 1
    assert "logs/secret: cannot be read: Permission denied" in result.stderr
    assert "run.log" in result.stdout
    alone = parse("logs/secret")
    assert "logs/secret: cannot be read: Permission denied" in alone.stderr
    assert "contains no log" not in alone.stderr


def test_files_of_a_folder_that_are_not_logs_are_not_reported(folder: Path) -> None:
    """If the user gives a folder, its files without training output are no error.

    A message states only their number.
    """
    (folder / "requirements.txt").write_text("torch\n")
    result = parse(".")
    assert result.exit_code == 0
    assert "no training output in 1 file" in result.stderr


def test_a_folder_whose_logs_contain_nothing_is_a_problem(folder: Path) -> None:
    """If no log of a folder contains training output, the exit code is 1."""
    (folder / "old").mkdir()
    (folder / "old" / "letter.txt").write_text("Dear Ada,\n")
    (folder / "old" / "prose.txt").write_text("Dear diary,\n")
    result = parse("old")
    assert result.exit_code == 1
    assert result.stderr == "teralog: no training output in 2 logs found in folders\n"


def test_empty_and_binary_logs_of_a_folder_are_named(folder: Path) -> None:
    """A few empty and binary logs of a folder are named, and the others counted."""
    (folder / "binary.log").write_bytes(b"\0" * 100)
    for number in range(5):
        (folder / f"empty-{number}.log").touch()
    (folder / "run.err").touch()
    result = parse(".")
    assert result.exit_code == 1
    assert "run.log" in result.stdout
    assert result.stderr.endswith(
        "teralog: binary.log: contains NUL bytes: it may not be text\n"
        "teralog: empty-0.log: is empty\n"
        "teralog: empty-1.log: is empty\n"
        "teralog: empty-2.log: is empty\n"
        "teralog: 3 other logs with the same problem: is empty\n"
    )
    assert "no training output" not in result.stderr


SETTINGS = "  checkpoint_activations .......................... True\n"


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        ("unparsed", 1),
        (SETTINGS + "unparsed", 1),
        (SETTINGS + "unparsed" + "Killed\n", 1),
        (RUN + "unparsed", 0),
        (SETTINGS, 0),
    ],
)
def test_a_log_of_which_no_report_can_be_parsed_is_a_problem(
    folder: Path, text: str, exit_code: int
) -> None:
    """The exit code is 1 if no step report is parsed, whatever else the log contains."""
    unparsed = line(1, 9000).partition("| number")[0] + "\n"
    (folder / "dialect.txt").write_text(text.replace("unparsed", unparsed))
    result = parse("dialect.txt")
    assert result.exit_code == exit_code
    message = "teralog: dialect.txt: could not parse 1 possible step report; `--unparsed` prints"
    assert (message in result.stderr) is bool(exit_code)


def test_output_and_errors_are_one_run(folder: Path) -> None:
    """An output file and an error file are one run.

    The run's outcome contains the name of the file with the error message.
    """
    (folder / "slurm-7.out").write_text(line(1, 9000) + line(2, 1000))
    (folder / "slurm-7.err").write_text(OOM)
    (run,) = objects("slurm-7.err", "slurm-7.out")
    assert run["steps"] == 2
    outcome = run["outcome"]
    assert isinstance(outcome, dict)
    assert (outcome["kind"], outcome["path"], outcome["requested_gib"]) == (
        *("gpu_out_of_memory", "slurm-7.err"),
        2.5,
    )
    assert "(line 1 of slurm-7.err), asked for 2.5 GiB" in parse(".").stdout


def test_control_characters_of_a_name_do_not_reach_the_terminal(folder: Path) -> None:
    """Neither the table nor a sentence prints control characters of a file's name."""
    (folder / "\x1b[2Jrun.log").write_text(RUN)
    (folder / "\x1b[2Jempty.log").touch()
    result = parse(".")
    assert "\x1b" not in result.output
    assert "\N{REPLACEMENT CHARACTER}[2Jrun.log" in result.stdout


def test_many_logs_are_shared_by_processes(folder: Path) -> None:
    """If several processes read the logs, the rows are still in the order of the logs' names."""
    noise = "some noise\n" * 100_000
    for number in range(24):
        (folder / f"{number:02d}.out").write_text(noise + line(1, 9000) + line(2, 1000 + number))
    start = "from orchestrator.cli.main import main; main()"
    command = [sys.executable, "-c", start, "parse", "--format", "json", "."]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    runs = json.loads(done.stdout)
    assert [run["step_seconds"]["mean"] for run in runs[:24]] == [
        (1000 + number) / 1000 for number in range(24)
    ]


@pytest.mark.parametrize(
    ("shell", "message"),
    [("exec 0<&-; teralog parse -", "standard input is closed"), ("teralog parse - < x", None)],
)
def test_standard_input_is_called_by_its_dash(
    folder: Path, shell: str, message: str | None
) -> None:
    """In the table, standard input has the name `-`, whatever its content."""
    (folder / "x").write_text(RUN)
    start = f"{sys.executable} -c 'from orchestrator.cli.main import main; main()'"
    done = subprocess.run(
        ["bash", "-c", shell.replace("teralog", start)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if message:
        assert done.returncode == 1
        assert done.stderr == f"teralog: -: cannot be read: {message}\n"
    else:
        assert done.stdout.splitlines()[-1].startswith("-    Megatron")


@pytest.mark.skipif(not LOGS.is_dir(), reason="the published logs are not here")
@pytest.mark.parametrize(
    ("name", "reports", "mean", "without_first", "kind"),
    [
        ("gpt2-meg/meg_gpt2_base_n4_dp1_tp4_pp4-1809579", 20, 1426.845, 1388.668, "cancelled"),
        ("gpt2-meg/meg_gpt2_base_n16_dp1_tp4_pp16-1809577", 9, 3089.244, 2745.662, "cancelled"),
        ("gpt2-meg/meg_gpt2_base_n64_dp1_tp4_pp64-1809655", 6, 8923.633, 6721.880, "time_limit"),
        ("gpt2-meg/meg_gpt2_perf_n16", 3, 137801.367, 128960.150, "truncated"),
        ("gpt2-meg-ds-3d-old/meg_ds_3d_gpt2_perf_n16", 2, 147839.150, 145207.0, "truncated"),
        (
            *("gpt2-meg-ds-zero/meg_ds_zero_gpt2_perf_n16_nbs48_ms48", 3),
            *(123906.667, 124910.100, "truncated"),
        ),
    ],
)
def test_the_published_means_are_those_counted_by_hand(
    name: str, reports: int, mean: float, without_first: float, kind: str
) -> None:
    """For published logs, the mean step times equal those computed by hand.

    This holds with and without the first step report.
    """
    for warmup, expected in (("none", mean), ("first", without_first)):
        (run,) = objects(str(LOGS / f"{name}.out"), "--skipped", "keep", "--warmup", warmup)
        assert run["steps"] == reports
        times = run["step_seconds"]
        assert isinstance(times, dict)
        assert 1000 * times["mean"] == pytest.approx(expected, abs=6e-4)
        outcome = run["outcome"]
        assert isinstance(outcome, dict)
        assert outcome["kind"] == kind
