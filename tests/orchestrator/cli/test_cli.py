"""The command line: a user's mistake gives a sentence and exit code 1; results go to stdout."""

import json
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli.main import main
from orchestrator.cli.shared.terminal import told_if_slow

MODEL = "{num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}"
DEFAULTS = f"defaults: {{framework: gpt, model: {MODEL}, gpus_per_node: 2, micro_batch_size: 4}}\n"

MISTAKES = {
    "an unknown key": (f"name: x\n{DEFAULTS}matrx: {{}}\n", "did you mean 'matrix'?"),
    "an unknown parameter": (
        f"name: x\n{DEFAULTS}matrix: {{stratgy: [ddp]}}\n",
        "matrix: unknown key 'stratgy'; did you mean 'strategy'?",
    ),
    "a number as text": (
        "name: x\ndefaults: {framework: gpt, model: s, nodes: '4'}\n",
        "defaults.nodes: '4' is text; write the whole number 4 without quotes",
    ),
    "an exclude that leaves nothing": (
        f"name: x\n{DEFAULTS}matrix: {{strategy: [ddp, zero1]}}\nexclude: ['world_size > 1']\n",
        "exclude: removes all 2 runs",
    ),
    "a preset that does not exist": (
        "name: x\ndefaults: {framework: gpt, model: xxl}\n",
        "defaults.model: there is no model preset 'xxl'; did you mean 'xl'?",
    ),
    "heads that do not divide": (
        "name: x\ndefaults: {framework: gpt, model: {preset: s, hidden_size: 770}}\n",
        "hidden_size=770 is not divisible by num_attention_heads=12",
    ),
    "a batch that does not divide": (
        f"name: x\n{DEFAULTS}matrix: {{global_batch_size: [9]}}\n",
        "global_batch_size=9 is not divisible by micro_batch_size*data_parallel_size=8",
    ),
    "a name that no folder can have": (
        f"name: \"my 'run' $(rm -rf x) ../..\"\n{DEFAULTS}",
        "cannot name a folder: use up to 64 letters, digits, '.', '_' and '-'",
    ),
    "a misspelt DeepSpeed key": (
        (
            f"name: x\n{DEFAULTS}include: [{{strategy: zero3, deepspeed: {{zero_optimization: "
            f"{{stage3_param_persitence_threshold: 1}}}}}}]\n"
        ),
        "did you mean 'stage3_param_persistence_threshold'?",
    ),
    "a key that occurs twice": (f"name: x\nname: y\n{DEFAULTS}", "line 2: the key 'name' occurs"),
    "no YAML": ("name: x\n  - foo: [\n", "line 2: "),
    "an empty file": ("", "is empty; a campaign file must be a mapping"),
    "a terminal's control codes": (
        f'name: x\n{DEFAULTS}matrix: {{precision: ["\\e[2J"]}}\n',
        "matrix.precision: '\\x1b[2J' contains a control character",
    ),
    "a cluster that is not there": (f"name: x\ncluster: jz\n{DEFAULTS}", "cluster 'jz'"),
}


def run(folder: Path, *arguments: str) -> Result:
    """Call teralog in this process; runs are recorded below `folder`/results."""
    return CliRunner().invoke(main, [*arguments], env={"TERALOG_RESULTS": str(folder / "results")})


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Return a campaign of two runs."""
    path = tmp_path / "campaign.yaml"
    path.write_text(f"name: x\n{DEFAULTS}matrix: {{strategy: [ddp, zero1]}}\n")
    return path


@pytest.mark.parametrize("command", ["plan", "render", "submit"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_1(tmp_path: Path, mistake: str, command: str) -> None:
    """A mistake in a campaign file gives one sentence, and the exit code is 1.

    The sentence names the key and the problem. No traceback is shown, and no file is written.
    """
    text, sentence = MISTAKES[mistake]
    path = tmp_path / "campaign.yaml"
    path.write_text(text)
    result = run(tmp_path, command, str(path))
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert [entry.name for entry in tmp_path.iterdir()] == ["campaign.yaml"]


def test_a_key_of_another_deepspeed_is_a_warning_if_the_user_says_so(tmp_path: Path) -> None:
    """With --allow-unknown-arguments, an unknown DeepSpeed key is a warning instead of an error.

    A key is unknown if the DeepSpeed version that teralog recorded does not have it.
    """
    path = tmp_path / "campaign.yaml"
    path.write_text(
        f"name: x\n{DEFAULTS}include: [{{strategy: zero3, deepspeed: {{of_next_year: 1}}}}]\n"
    )
    refused = run(tmp_path, "render", str(path))
    assert refused.exit_code == 1
    assert "--allow-unknown-arguments if your version of the program accepts" in refused.stderr
    allowed = run(tmp_path, "plan", str(path), "--allow-unknown-arguments")
    assert allowed.exit_code == 0
    assert "has no key 'of_next_year'" in allowed.stderr


def test_all_mistakes_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    """`plan` reports all mistakes of a campaign file at once, one per line."""
    path = tmp_path / "campaign.yaml"
    path.write_text(
        "name: a b\nrepeats: 0\nwarmup: lots\nmatrix: {nodes: []}\nexclude: ['x > 1']\n"
    )
    lines = run(tmp_path, "plan", str(path)).stderr.splitlines()
    assert len(lines) == 5
    assert all(line.startswith(f"teralog: {path}: ") for line in lines)


def test_plan_writes_nothing_and_gives_one_object_per_run(campaign: Path) -> None:
    """`plan --json` prints one object per run, with full names of parameters, e.g. `world_size`.

    The command writes no file.
    """
    result = run(campaign.parent, "plan", str(campaign), "--json")
    assert result.exit_code == 0
    first, second = json.loads(result.stdout)
    assert first["label"] == "ddp"
    assert second["zero_stage"] == 1
    expected = {
        "num_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "ffn_hidden_size": 256,
        "vocab_size": 512,
        "seq_length": 64,
        "micro_batch_size": 4,
        "global_batch_size": 8,
        "num_microbatches": 1,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "context_parallel_size": 1,
        "data_parallel_size": 2,
        "zero_stage": None,
        "world_size": 2,
        "nodes": 1,
        "gpus_per_node": 2,
        "parameters": 136960,
        "problems": [],
        "warnings": [],
    }
    assert expected.items() <= first.items()
    assert [entry.name for entry in campaign.parent.iterdir()] == ["campaign.yaml"]


def test_plan_names_the_problems_of_each_run(campaign: Path) -> None:
    """`plan` lists an impossible run with its problems, and exits with an error."""
    campaign.write_text(
        campaign.read_text() + "include: [{precision: fp16, global_batch_size: 9}]\n"
    )
    result = run(campaign.parent, "plan", str(campaign), "--json")
    assert result.exit_code == 1
    assert [len(planned["problems"]) for planned in json.loads(result.stdout)] == [0, 0, 2]


def test_render_writes_one_folder_per_run(campaign: Path) -> None:
    """A run's folder contains run.json, job.sh, and DeepSpeed's configuration if it has one."""
    assert run(campaign.parent, "render", str(campaign)).exit_code == 0
    folders = (campaign.parent / "results" / "x").iterdir()
    files = sorted(sorted(path.name for path in folder.iterdir()) for folder in folders)
    assert files == [["ds_config.json", "job.sh", "run.json"], ["job.sh", "run.json"]]


def test_impossible_runs_are_left_out_on_request(campaign: Path) -> None:
    """`render --skip-impossible` renders the possible runs."""
    campaign.write_text(campaign.read_text() + "include: [{precision: fp16}]\n")
    assert run(campaign.parent, "render", str(campaign)).exit_code == 1
    assert not (campaign.parent / "results").exists()
    assert run(campaign.parent, "render", str(campaign), "--skip-impossible").exit_code == 0
    assert len(list((campaign.parent / "results" / "x").iterdir())) == 2


def test_commands_that_read_work_before_anything_has_run(campaign: Path) -> None:
    """`status`, `report` and `collect` also work for a campaign that has not started."""
    status = run(campaign.parent, "status", str(campaign), "--json")
    assert [entry["state"] for entry in json.loads(status.stdout)] == ["NOT_STARTED"] * 2
    report = run(campaign.parent, "report", str(campaign))
    assert report.exit_code == 0
    assert report.stdout.count("not started") == 2
    assert run(campaign.parent, "collect", str(campaign)).exit_code == 0


def test_init_does_not_overwrite(tmp_path: Path) -> None:
    """`teralog init` keeps an existing file unless the user gives --force."""
    path = tmp_path / "campaign.yaml"
    assert run(tmp_path, "init", str(path)).exit_code == 0
    path.write_text("mine")
    refused = run(tmp_path, "init", str(path))
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert path.read_text() == "mine"
    assert run(tmp_path, "init", str(path), "--force").exit_code == 0
    assert run(tmp_path, "plan", str(path)).exit_code == 0


def test_on_a_machine_without_slurm_a_message_appears_and_nothing_starts(
    campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Slurm's commands, `submit` prints a message; `plan` and `render` still work."""
    monkeypatch.setenv("PATH", str(campaign.parent))
    (campaign.parent / "v100.yaml").write_text("gpus_per_node: 4\npartition: gpu_p13\n")
    campaign.write_text(campaign.read_text() + "cluster: v100.yaml\n")
    assert run(campaign.parent, "render", str(campaign)).exit_code == 0
    for option in ((), ("--test-only",)):
        refused = run(campaign.parent, "submit", str(campaign), *option)
        assert refused.exit_code == 1
        assert "there is no Slurm on this machine" in refused.stderr
    assert "NOT_STARTED" in run(campaign.parent, "status", str(campaign)).stdout
    assert run(campaign.parent, "salloc", str(campaign)).stdout.startswith("salloc --job-name=")
    too_many = run(campaign.parent, "salloc", str(campaign), "--time", "9:99")
    assert too_many.exit_code == 1
    assert "--time: '9:99' has 99 seconds, and the maximum is 59" in too_many.stderr


@pytest.mark.parametrize(("terminal", "message"), [(True, "asking\n"), (False, "")])
def test_a_long_wait_is_reported_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    terminal: bool,
    message: str,
) -> None:
    """If a command waits too long, it prints one message, but only on a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with told_if_slow("asking", seconds=0.01):
        time.sleep(1)
    assert capsys.readouterr().err == message
    with told_if_slow("asking", seconds=60):
        pass
    assert capsys.readouterr().err == ""


def test_a_usage_error_exits_with_2(tmp_path: Path) -> None:
    """An invalid option exits with code 2, as in other programs."""
    assert run(tmp_path, "plan", "--wdie").exit_code == 2
    assert run(tmp_path, "plam").exit_code == 2
