"""Check `import teralog`: four functions, which return what commands print."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_overloads

import pytest
from click.testing import CliRunner

import parsers
import teralog
from orchestrator import frames
from orchestrator.cli.estimate import estimate as estimate_command
from orchestrator.cli.main import main
from orchestrator.common.validation import field_types
from orchestrator.estimate.records import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "docs" / "recorded" / "zero-stages"
LOG = next(RECORDED.glob("*/attempt-1/output.log"))
CAMPAIGN = ROOT / "examples" / "zero-stages.yaml"


def in_new_process(code: str, *path: Path) -> str:
    """Return what Python prints for this code, with these folders first on its path."""
    start = f"import sys; sys.path[:0] = {[str(folder) for folder in path]!r}\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", start + code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_four_functions_are_public() -> None:
    """Each of teralog's four public functions has a docstring and an annotation of its result."""
    assert teralog.__all__ == ["estimate", "read", "runs", "steps"]
    for name in teralog.__all__:
        function = getattr(teralog, name)
        assert function.__doc__
        assert "return" in function.__annotations__


def test_import_loads_the_standard_library_alone() -> None:
    """`import teralog` loads only teralog and the standard library, for example not pandas."""
    loaded = set(in_new_process("import teralog; print(*sys.modules)").split())
    before = set(in_new_process("print(*sys.modules)").split())
    roots = {name.partition(".")[0] for name in loaded - before}
    assert roots - sys.stdlib_module_names == {"teralog"}


def test_read_returns_the_runs_of_a_log() -> None:
    """`teralog.read` and `parsers.read` return equal runs; the path may be a string or a Path."""
    assert teralog.read(LOG) == teralog.read(str(LOG)) == parsers.read(LOG)
    assert teralog.read(LOG)[0].steps


def test_runs_and_steps_are_the_frames_of_a_campaign(tmp_path: Path) -> None:
    """`runs` and `steps` accept a results folder, or a campaign file and a results folder."""
    assert teralog.runs(RECORDED).equals(frames.runs(RECORDED))
    assert teralog.steps(str(RECORDED)).equals(frames.steps(RECORDED))
    file = tmp_path / "zero-stages.yaml"
    file.write_text(CAMPAIGN.read_text())
    assert set(teralog.runs(file)["state"]) == {"NOT_STARTED"}
    assert "COMPLETED" in set(teralog.runs(file, results=RECORDED.parent)["state"])
    assert len(teralog.steps(file, RECORDED.parent)) > len(teralog.steps(file)) == 0


@pytest.mark.parametrize("what", OPTIONS)
def test_estimate_has_the_options_of_the_command(what: str) -> None:
    """`teralog.estimate` accepts options with the same names as the command `teralog estimate`."""
    names = {param.name for param in estimate_command.commands[what].params if param.expose_value}
    assert field_types(OPTIONS[what]).keys() == names - {"campaign", "layout"}


def test_a_type_checker_sees_the_options_of_each_estimate() -> None:
    """Each overload of `estimate` has the options that are accepted when it is called."""
    declared = {
        (each.__annotations__["what"], each.__annotations__["options"])
        for each in get_overloads(teralog.estimate)
    }
    assert declared == {
        (f"Literal[{what!r}]", f"Unpack[{options.__name__}]") for what, options in OPTIONS.items()
    }


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("params", {"model": "52B", "num_layers": 3, "position_table": False, "biases": "none"}),
        ("flops", {"model": "xl", "global_batch_size": 8, "activation_checkpointing": True}),
        ("flops", {"model": "l", "global_batch_size": 8, "world_size": 4, "step_seconds": 0.5}),
        ("memory", {"model": "52B", "zero_stage": 3, "world_size": 64, "offload_optimizer": True}),
        ("time", {"parameters": 10**9, "tokens": 10**10, "tflops_per_gpu": 50, "world_size": 8}),
        ("time", {"train_iters": 100, "step_seconds": 0.25}),
    ],
)
def test_estimate_returns_what_the_command_prints(what: Any, options: dict[str, Any]) -> None:
    """`estimate` returns the same dictionaries as `teralog estimate --json` prints."""
    words = [what, "--json"]
    for name, value in options.items():
        option = name.replace("_", "-")
        flag = {True: [f"--{option}"], False: [f"--no-{option}"]}
        words += flag[value] if isinstance(value, bool) else [f"--{option}", str(value)]
    printed = json.loads(CliRunner().invoke(main, ["estimate", *words]).stdout)
    assert json.loads(json.dumps(teralog.estimate(what, **options))) in (printed, [printed])


@pytest.mark.parametrize("what", OPTIONS)
def test_estimate_takes_a_campaign_as_the_command_does(what: Any) -> None:
    """With a campaign, `estimate` returns the same dictionaries for each run as the command."""
    more = {"flops": {}, "time": {"step_seconds": 2.0}}.get(what, {})
    words = [word for name, value in more.items() for word in (f"--{name}", str(value))]
    command = ["estimate", what, str(CAMPAIGN), "--json", *(w.replace("_", "-") for w in words)]
    printed = json.loads(CliRunner().invoke(main, command).stdout)
    records = teralog.estimate(what, CAMPAIGN, **more)
    assert json.loads(json.dumps(records)) == printed


@pytest.mark.parametrize(
    ("what", "campaign", "options", "message"),
    [
        ("memry", None, {}, "'memry': cannot be estimated; did you mean 'memory'?"),
        ("params", None, {"layers": 3}, "layers: unknown option of params"),
        ("params", None, {"num_layers": 0}, "num_layers: 0 is too small; the minimum is 1"),
        ("params", None, {"num_layers": 2.5}, "num_layers: 2.5 is not a whole number"),
        ("params", None, {"model": "huge"}, "'huge'"),
        ("memory", None, {"model": "s", "zero_stage": 4}, "zero_stage: 4 is too large"),
        ("time", None, {"step_seconds": float("inf")}, "step_seconds: inf"),
        ("flops", CAMPAIGN, {"hidden_size": 8}, "hidden_size: cannot be used with a campaign"),
        ("params", Path("none.yaml"), {}, "none.yaml"),
    ],
)
def test_mistakes_are_value_errors(
    what: Any, campaign: Path | None, options: dict[str, Any], message: str
) -> None:
    """If an argument is wrong, `estimate` raises a ValueError whose message names the mistake."""
    with pytest.raises(ValueError, match=re.escape(message)):
        teralog.estimate(what, campaign, **options)


@pytest.mark.parametrize("first", [True, False])
def test_packages_of_the_user_stay_theirs(tmp_path: Path, first: bool) -> None:
    """A user can import their own packages with the names of teralog's packages, e.g. `parsers`.

    The user may import them before or after `import teralog`.
    """
    for name in ("orchestrator", "parsers"):
        (tmp_path / name / "runs").mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("mine = True\n")
        (tmp_path / name / "runs" / "__init__.py").write_text("mine = True\n")
    theirs = "import orchestrator, parsers, parsers.runs, orchestrator.runs\n"
    printed = in_new_process(
        (theirs if first else "")
        + "import teralog\n"
        + f"runs = teralog.read({str(LOG)!r})\n"
        + theirs
        + f"frame = teralog.runs({str(RECORDED)!r})\n"
        + "again = teralog.read(runs[0].path) == runs\n"
        + "import parsers.runs as late\n"
        + "print(parsers.mine, late.mine, orchestrator.runs.mine, len(runs[0].steps), len(frame))\n"
        + "print(again)\n",
        tmp_path,
    )
    steps, rows = len(teralog.read(LOG)[0].steps), len(teralog.runs(RECORDED))
    assert printed == f"True True True {steps} {rows}\nTrue\n"


def test_without_such_packages_names_stay_ours() -> None:
    """If the user has no package `parsers`, then `import parsers` imports teralog's package.

    So the objects that teralog returns can be pickled, and their class is the class that the user
    imports, e.g. `parsers.runs.run.LogRun`.
    """
    printed = in_new_process(
        f"import pickle, teralog; runs = teralog.read({str(LOG)!r})\n"
        "from parsers.runs.run import LogRun\n"
        "print(type(pickle.loads(pickle.dumps(runs[0]))) is LogRun)"
    )
    assert printed == "True\n"
