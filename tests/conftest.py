"""Fixtures for all tests: a temporary folder with a small campaign, and the order of the tests."""

import contextlib
import gc
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner
from forked_teralog import run_forked
from hypothesis import settings
from practice.jobs import wait_until

from orchestrator.cli.main import main

# The time of an example depends on the machine, so no test fails because of it.
settings.register_profile("teralog", deadline=None)
settings.load_profile("teralog")

# These tests start more ranks than a small machine has cores, and measure none of them.
os.environ["TERALOG_OVERSUBSCRIBE"] = "1"

# Shells start background programs with Ctrl-C ignored, and nohup ignores SIGHUP:
# the processes of these tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slowest tests first, so that the tests that end last are short.

    If a worker process has no tests left, it takes tests that another worker has not started.
    """
    items.sort(key=_costs, reverse=True)


def _costs(item: pytest.Item) -> tuple[bool, bool, bool]:
    starts_processes = "playground" in getattr(item, "fixturenames", ())
    return "train" in item.keywords, "slurm" in item.keywords, starts_processes


def pytest_collection_finish() -> None:
    """Hide collected tests from the garbage collector, which saves a tenth of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


TERALOG = str(Path(sys.executable).parent / "teralog")

# Replaces Python in job scripts, because these tests do not depend on the work of a run.
STAND_IN = """\
#!/bin/bash
# A question is for Python itself.
[ "$1" != -c ] || exec {python} "$@"
# Nor does a rehearsal train when it looks for modules.
[[ $# -ne 2 || $1 != *rehearsal.py ]] || exit 0
run=$(basename "$(dirname "$PWD")")
exec 9>"$LEDGER.$run"
flock --nonblock 9 || echo "$run overlap" >> "$LEDGER"
echo "$run start ${CUDA_VISIBLE_DEVICES:-none}" >> "$LEDGER"
{body}
echo "$run end ${CUDA_VISIBLE_DEVICES:-none}" >> "$LEDGER"
"""


@dataclass
class Playground:
    """A folder with a campaign whose runs execute a few lines of bash instead of training."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def ledger(self) -> Path:
        """Return the path of the file in which each run records its start and its end."""
        return self.path / "ledger"

    def write_campaign(
        self,
        body: str,
        matrix: str = "seed: [1, 2, 3, 4]",
        cluster: str = "here.yaml",
        **defaults: Any,
    ) -> None:
        """Write campaign.yaml; its runs execute the bash lines in `body`."""
        stand_in = self.path / "stand-in"
        stand_in.write_text(STAND_IN.replace("{python}", sys.executable).replace("{body}", body))
        stand_in.chmod(0o755)
        (self.path / "here.yaml").write_text(
            f"scheduler: local\ngpus_per_node: {self.environment.get('GPUS', 0)}\n"
            "python: ./stand-in\n"
        )
        values = {"framework": "gpt", "model": "s", "time_limit": 5, **defaults}
        (self.path / "campaign.yaml").write_text(
            textwrap.dedent(
                f"""\
                name: play
                cluster: {cluster}
                defaults: {json.dumps(values)}
                matrix: {{{matrix}}}
                """
            )
        )

    def write_slurm_campaign(
        self, body: str, matrix: str = "seed: [1, 2, 3, 4]", profile: str = "", **defaults: Any
    ) -> None:
        """Write campaign.yaml for Slurm, and a cluster profile.

        body: the bash lines that each run executes. profile: additional lines of the profile.
        """
        self.write_campaign(body, matrix, cluster="slurm.yaml", **defaults)
        (self.path / "slurm.yaml").write_text(
            f"gpus_per_node: 4\nconstraint: v100-32g\nmemory: 1G\n"
            f"python: ./stand-in\n{textwrap.dedent(profile)}"
        )

    def wait_for(self, states: list[str], seconds: float = 180) -> list[dict[str, Any]]:
        """Wait until the runs have these states, in the runs' order; return their statuses."""
        runs: list[dict[str, Any]] = []

        def are_there() -> bool:
            runs[:] = self.status()
            return [run["state"] for run in runs] == states

        wait_until(are_there, lambda: str(runs), seconds)
        return runs

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start teralog in the folder."""
        return subprocess.Popen(
            [TERALOG, *arguments],
            cwd=self.path,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def teralog(self, *arguments: str, seconds: float = 120) -> "subprocess.CompletedProcess[str]":
        """Run teralog in the folder to its end."""
        environment = {**os.environ, **self.environment}
        done = run_forked([TERALOG, *arguments], self.path, environment, seconds)
        # The line that names the folder of results; other tests check it.
        done.stderr = re.sub(r"\Aresults: .*\n", "", done.stderr)
        return done

    def status(self) -> list[dict[str, Any]]:
        """Return the output of `teralog status --json`, run in this process for speed."""
        with contextlib.chdir(self.path):
            answer = CliRunner(env=self.environment).invoke(
                main, ["status", "campaign.yaml", "--json"]
            )
        runs: list[dict[str, Any]] = json.loads(answer.stdout)
        return runs

    def states(self) -> list[str]:
        """Return the state of every run."""
        return [run["state"] for run in self.status()]

    def events(self) -> list[tuple[str, ...]]:
        """Return the lines of the ledger, each split into words.

        The ledger is a file with a line for each start and each end of a run.
        """
        if not self.ledger.exists():
            return []
        return [tuple(line.split()) for line in self.ledger.read_text().splitlines()]

    def starts(self) -> Counter[str]:
        """Return how often each run has started, by the run's id."""
        return Counter(run for run, what, *_ in self.events() if what == "start")

    def go(self) -> None:
        """Create the file `ledger.go`, so that the runs that wait for it continue."""
        self.ledger.with_name("ledger.go").touch()

    def process_names(self) -> list[str]:
        """Return the names of the programs that the processes of all runs execute now."""
        names = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                names.append(process.name())
        return names

    def command_lines(self) -> list[tuple[psutil.Process, list[str]]]:
        """Return the processes of all runs that still exist, each with its command line."""
        collected = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                collected.append((process, process.cmdline()))
        return collected

    def processes(self) -> list[psutil.Process]:
        """Return every running process that was started for a run in this folder."""
        collected = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("LEDGER") == str(self.ledger):
                    collected.append(process)
            except (psutil.Error, OSError):
                continue
        return collected


@pytest.fixture
def playground(tmp_path: Path) -> Iterator[Playground]:
    """Yield a new playground (a folder with a small campaign); at the end, kill its processes.

    Its device locks are in the playground too, so tests do not wait for each other's devices.
    """
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    play = Playground(tmp_path)
    play.environment = {"LEDGER": str(play.ledger), "XDG_RUNTIME_DIR": str(runtime)}
    yield play
    for process in play.processes():
        with contextlib.suppress(psutil.Error):
            process.kill()
