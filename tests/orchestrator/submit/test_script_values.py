"""Values with special characters reach the training program, and sbatch, unchanged.

The tests run the scripts, with stand-ins for the training program, srun and scontrol.
"""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.frameworks.deepspeed.zero import DeepspeedLauncher
from orchestrator.hardware.cluster import Cluster, load_cluster
from orchestrator.run.model import Run
from orchestrator.slurm.arrays import directives
from orchestrator.submit.scripts import job_script
from parsers.summary.warmup import Warmup

NASTY = (
    "$(rm -rf x)",
    "`rm -rf x`",
    "it's",
    'say "x"',
    "'; rm -rf x; '",
    "../..",
    "-x",
    "--",
    "~",
    "{a,b}",
    "[0]=x",
    "a#b",
    "%j",
    "back\\slash\\",
    "\\'\\\"",
    "été 漢字 🚀",
    "{{ run }}",
)
# Values with line breaks and control characters are refused when a campaign is read.
alphabet = st.characters(categories=["L", "M", "N", "P", "S"], include_characters=" ")
printable = st.sampled_from(NASTY) | st.text(alphabet, min_size=1)
names = printable.filter(lambda text: "/" not in text and text not in {".", ".."})

STAND_INS = {
    # Writes its arguments and its rank to files; -c is the call that asks for a free port.
    "python": """\
if [[ $1 == -c ]]; then echo 29999; exit; fi
printf '%s\\0' "$@" >> "$SANDBOX/arguments"
printf '%s\\0' "$RANK/$LOCAL_RANK/$WORLD_SIZE" >> "$SANDBOX/ranks"
""",
    "srun": """\
while [[ $1 == --* ]]; do shift; done
for task in 0 1; do
  SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NODEID=$task SLURM_NTASKS=2 "$@"
done
""",
    "scontrol": "printf 'node1\\nnode2\\n'",
    "module": 'printf \'%s\\0\' "$@" >> "$SANDBOX/modules"',
}


@dataclass(frozen=True)
class Sandbox:
    """A folder with stand-ins for programs, in which tests run scripts."""

    path: Path

    def cluster(self, **values: Any) -> Cluster:
        """Return a cluster whose Python is the stand-in."""
        return Cluster(name="here", python=str(self.path / "bin" / "python"), **values)

    def run(self, script: str) -> None:
        """Run a script as a batch job; assert that it adds or removes no file in bin and work."""
        for name in ("arguments", "ranks", "modules"):
            (self.path / name).unlink(missing_ok=True)
        before = sorted(self.path.rglob("*/*"))
        environment = {
            "PATH": f"{self.path / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.path),
            "SANDBOX": str(self.path),
            "SLURM_JOB_ID": "12345",
            "SLURM_JOB_NODELIST": "node[1-2]",
        }
        subprocess.run(["bash", "-c", script], cwd=self.path / "work", env=environment, check=True)
        assert sorted(self.path.rglob("*/*")) == before

    def given(self, name: str) -> list[str]:
        """Return the words that the stand-ins recorded in the file with this name."""
        return (self.path / name).read_text(encoding="utf-8").split("\0")[:-1]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """Return a sandbox with the stand-ins.

    It has a file `x`, which a command in a value could delete.
    """
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    for folder in ("bin", "work"):
        (box.path / folder).mkdir()
    (box.path / "work" / "x").touch()
    for name, body in STAND_INS.items():
        stand_in = box.path / "bin" / name
        stand_in.write_text(f"#!/bin/bash\n{body}")
        stand_in.chmod(0o755)
    return box


def script_of(
    run: Run, cluster: Cluster, folder: Path, name: str = "name", label: str = "label"
) -> str:
    """Return the job script of a run, as for a campaign file in the folder /campaigns."""
    planned = PlannedRun(run, "0123456789ab", label, ())
    path = Path("/campaigns/campaign.yaml")
    return job_script(planned, Campaign(path, name, cluster, Warmup(), (planned,), ()), folder)


def sbatch_options(script: str) -> dict[str, str]:
    """Return the options in a script as sbatch reads them.

    sbatch takes the text after `#SBATCH`, up to a space or `#` outside of quotes. It leaves out the
    quotes. A backslash, even within quotes, takes the next character as it is. Source:
    `_get_argument` in Slurm's src/sbatch/opt.c; tried on Slurm 22.05.
    """
    options = {}
    for line in script.splitlines():
        if line.startswith("#SBATCH "):
            name, _, rest = line.removeprefix("#SBATCH --").partition("=")
            value, quote, characters = "", "", iter(rest)
            for character in characters:
                if character == "\\":
                    value += next(characters)
                elif quote and character == quote:
                    quote = ""
                elif not quote and character in "'\"":
                    quote = character
                elif not quote and (character.isspace() or character == "#"):
                    break
                else:
                    value += character
            assert not quote
            options[name] = value
    return options


def output_file(pattern: str, job: str) -> str:
    """Return the path of the log that Slurm writes.

    pattern: the value of --output. job: the job's id, which replaces %j. If the pattern contains a
    backslash, Slurm removes the backslashes and replaces nothing else.
    """
    if "\\" in pattern:
        return re.sub(r"\\(.)", r"\1", pattern)
    return re.sub("%(.)", lambda match: {"%": "%", "j": job}[match[1]], pattern)


@given(
    launcher=st.sampled_from(get_args(DeepspeedLauncher)),
    scheduler=st.sampled_from(["local", "slurm"]),
    gpus=st.sampled_from([0, 4]),
    script=printable,
    arguments=st.lists(printable, max_size=4),
    folder=printable,
    name=printable,
    label=printable,
)
def test_a_program_gets_its_arguments_as_they_were_written(
    sandbox: Sandbox,
    run_of: Callable[..., Run],
    launcher: str,
    scheduler: str,
    gpus: int,
    script: str,
    arguments: list[str],
    folder: str,
    name: str,
    label: str,
) -> None:
    """With any launcher, a program gets its arguments unchanged; the shell runs no part of them."""
    if launcher == "srun":
        scheduler = "slurm"
    run = run_of(framework="deepspeed", launcher=launcher, script=script, script_args=arguments)
    results = Path("/results") / folder
    cluster = sandbox.cluster(scheduler=scheduler, gpus_per_node=gpus)
    sandbox.run(script_of(run, cluster, results, name, label))
    # Home folders and variables in a path are those of the user who renders the script.
    path = Path("/campaigns") / os.path.expanduser(os.path.expandvars(script))  # noqa: PTH111
    program = [str(path), *arguments]
    expected = [*program, "--deepspeed_config", f"{results}/ds_config.json"]
    assert sandbox.given("arguments")[-len(expected) :] == expected


@given(partition=printable, account=printable, constraint=printable, name=names, folder=names)
def test_sbatch_gets_its_options_as_they_were_written(
    run_of: Callable[..., Run],
    partition: str,
    account: str,
    constraint: str,
    name: str,
    folder: str,
) -> None:
    """Each option reaches sbatch unchanged.

    No value ends its #SBATCH line early or begins a comment.
    """
    values = {
        "partition": partition,
        "account": account,
        "constraint": constraint,
        "qos": partition,
        "hint": account,
        "reservation": constraint,
        "nodelist": partition,
        "exclude": account,
        "licenses": constraint,
        "begin": partition,
    }
    cluster = Cluster(name="there", gpus_per_node=4, mail_user=account, **values)
    script = script_of(run_of(), cluster, Path("/results") / folder, name)
    options = sbatch_options(script)
    output = output_file(options.pop("output"), job="7")
    assert output in {f"/results/{folder}/slurm-7.out", f"/results/{folder}/slurm.out"}
    assert options == {
        **values,
        "job-name": f"{name}-0123456789ab",
        "comment": "0123456789ab",
        "nodes": "1",
        "ntasks-per-node": "1",
        "gres": "gpu:1",
        "mail-user": account,
        "time": "0:30:00",
    }


# A line of a profile, and the line of a job script that it becomes.
DIRECTIVES = {
    "gpu_type: a100\n": "--gres=gpu:a100:1",
    "memory_per_gpu: 40G\n": "--mem-per-gpu=40G",
    "reservation: maintenance\n": "--reservation=maintenance",
    "nodelist: node[1-4]\n": '--nodelist="node[1-4]"',
    "exclude: node7\n": "--exclude=node7",
    "licenses: matlab:1\n": "--licenses=matlab:1",
    "begin: now+1hour\n": "--begin=now+1hour",
    "nice: 100\n": "--nice=100",
    "nice: 0\n": "--nice=0",
    "mail_user: me@example.org\n": "--mail-user=me@example.org",
    "mail_type: END,FAIL\n": "--mail-type=END,FAIL",
    "exclusive: true\n": "--exclusive",
    "exclusive: user\n": "--exclusive=user",
    "exclusive: false\n": None,
}


@pytest.mark.parametrize(("text", "line"), DIRECTIVES.items(), ids=map(str.strip, DIRECTIVES))
def test_a_key_of_a_profile_is_a_line_of_the_script(
    tmp_path: Path, run_of: Callable[..., Run], text: str, line: str | None
):
    """A key in the cluster profile adds or changes the #SBATCH line that belongs to it.

    `exclusive: false` adds no line.
    """
    (tmp_path / "plain.yaml").write_text("gpus_per_node: 4\n")
    (tmp_path / "more.yaml").write_text(f"gpus_per_node: 4\n{text}")
    plain, more = (
        directives(script_of(run_of(), load_cluster(name, tmp_path), tmp_path))
        for name in ("plain.yaml", "more.yaml")
    )
    assert {*more} - {*plain} == ({f"#SBATCH {line}"} if line else set())


@given(modules=st.lists(printable, min_size=1, max_size=3))
def test_modules_are_loaded_by_the_names_written(
    sandbox: Sandbox, run_of: Callable[..., Run], modules: list[str]
) -> None:
    """A script unloads all modules, and then loads the profile's modules one by one."""
    cluster = sandbox.cluster(scheduler="local", gpus_per_node=0, modules=modules)
    sandbox.run(script_of(run_of(), cluster, Path("/results")))
    loaded = [word for module in modules for word in ("load", module)]
    assert sandbox.given("modules") == ["purge", *loaded]


def test_every_task_under_srun_learns_its_rank(
    sandbox: Sandbox, run_of: Callable[..., Run]
) -> None:
    """With launcher srun, every task has its rank in the variables that torchrun would set."""
    run = run_of(launcher="srun", gpus_per_node=2)
    sandbox.run(script_of(run, sandbox.cluster(gpus_per_node=2), Path("/results")))
    assert sandbox.given("ranks") == ["0/0/2", "1/1/2"]


def test_deepspeeds_launcher_is_started_on_every_node(
    sandbox: Sandbox, run_of: Callable[..., Run], tmp_path: Path
) -> None:
    """DeepSpeed's launcher is started on every node.

    It gets the number of its node, and a file that lists all nodes.
    """
    folder = tmp_path / "it's a $(rm x) folder"
    folder.mkdir()
    run = run_of(launcher="deepspeed", nodes=2, gpus_per_node=4)
    sandbox.run(script_of(run, sandbox.cluster(gpus_per_node=4), folder))
    arguments = sandbox.given("arguments")
    ranks = [after for word, after in pairwise(arguments) if word == "--node_rank"]
    assert ranks == ["0", "1"]
    hostfile = folder / "hostfile-12345"
    assert arguments.count(str(hostfile)) == 2
    assert hostfile.read_text() == "node1 slots=4\nnode2 slots=4\n"


@pytest.mark.parametrize(
    ("framework", "launcher"),
    [("gpt", "torchrun"), ("megatron_deepspeed_zero", "launch")],
)
def test_the_launcher_of_a_node_gets_the_number_of_its_node(
    sandbox: Sandbox, run_of: Callable[..., Run], framework: str, launcher: str
) -> None:
    """The launcher of each node gets the number of the node.

    A node has the same number at every start.
    """
    values: dict[str, Any] = {} if framework == "gpt" else {"source": "/megatron"}
    if values:
        values |= {"data_path": "d", "vocab_file": "v", "merge_file": "m", "precision": "fp16"}
    run = run_of(framework=framework, launcher=launcher, nodes=2, gpus_per_node=4, **values)
    sandbox.run(script_of(run, sandbox.cluster(gpus_per_node=4), Path("/results")))
    pairs = list(pairwise(sandbox.given("arguments")))
    for option, values_given in {
        "--node_rank": ["0", "1"],
        "--nnodes": ["2", "2"],
        "--nproc_per_node": ["4", "4"],
        "--master_addr": ["node1", "node1"],
        "--master_port": ["22345", "22345"],
    }.items():
        assert [after for word, after in pairs if word == option] == values_given
