"""Check that a practice cluster leaves nothing behind, and that any user can start one."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from practice.packages import missing_packages

pytestmark = pytest.mark.slurm

TOOLS = Path(__file__).parent.parent.parent / "tools"
# A job whose process leaves its session, its group and its parent.
STARTER = """\
import sys, pathlib, time
from practice import jobs
from practice.plan import Plan
from practice.running import start
folder = pathlib.Path(sys.argv[1])
cluster = start(Plan(folder=folder, nodes_32g=1, nodes_16g=0))
here = pathlib.Path(sys.argv[2])
jobs.submit(cluster, "setsid sleep 600 & touch began; sleep 600", folder=here)
jobs.wait_until((here / "began").exists, lambda: "the job has not begun")
print(cluster.process.pid, (folder / "holder.pid").read_text(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder(slurm: object) -> Iterator[Path]:
    """Yield a short path for a cluster's folder; fail if the folder still exists after the test."""
    path = Path("/tmp") / f"practice-{os.getpid()}-{next(tempfile._get_candidate_names())}"
    yield path
    left = [path] if path.exists() else belonging_to(path)
    practice("down", f"--folder={path}")
    assert not left


def belonging_to(folder: Path) -> list[psutil.Process]:
    """Return the running processes of the practice cluster in `folder`, including its jobs."""
    collected = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.environ().get("SLURM_CONF", "")]
        except psutil.Error:
            continue
        if any(f"{folder}/" in word for word in words) and process.pid != os.getpid():
            collected.append(process)
    return collected


def gone(folder: Path, seconds: float) -> bool:
    """Return whether all processes of a cluster ended within this many seconds."""
    deadline = time.monotonic() + seconds
    while folder.exists() or belonging_to(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("victim", ["starter", "outer holder", "inner holder"])
def test_all_processes_end_if_one_is_killed(folder: Path, tmp_path: Path, victim: str) -> None:
    """If one of three processes is killed, all processes of the practice cluster end.

    The three are the process that starts the cluster, and two that keep its daemons running.
    """
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(folder), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(TOOLS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    try:
        outer, inner = map(int, starter.stdout.readline().split())
        assert "sleep" in {process.name() for process in belonging_to(folder)}
        pids = {"starter": starter.pid, "outer holder": outer, "inner holder": inner}
        os.kill(pids[victim], signal.SIGKILL)
        assert gone(folder, seconds=10)
    finally:
        starter.kill()
        starter.communicate()


def practice(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    """Run `practice_cluster.py` with these arguments, and wait for its end."""
    return subprocess.run(
        [sys.executable, str(TOOLS / "practice_cluster.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,  # type: ignore[call-overload]  (of subprocess.run)
    )


def test_a_cluster_that_is_up_stays_until_it_is_taken_down(folder: Path) -> None:
    """After `practice_cluster.py up`, the cluster stays until `practice_cluster.py down`.

    A second cluster in the same folder is refused.
    """
    where = f"--folder={folder}"
    up = practice("up", where, "--nodes=1")
    assert up.stdout == f"export SLURM_CONF={folder}/etc/slurm.conf\n"
    assert "up after" in up.stderr
    assert "gpu[001-003]" in practice("status", where).stdout
    again = practice("up", where)
    assert (again.returncode, "a cluster is up there already" in again.stderr) == (1, True)
    assert practice("down", where).returncode == 0
    assert gone(folder, seconds=5)
    assert practice("status", where).returncode == 1


def test_a_shell_ends_the_cluster_that_it_started_only(folder: Path) -> None:
    """`practice_cluster.py shell` starts a cluster, and ends it with the shell.

    If the cluster was already running, it stays after the shell.
    """
    where, commands = f"--folder={folder}", {"input": "srun -N2 hostname | sort\n"}
    environment = {"env": {**os.environ, "SHELL": "/bin/sh"}}
    shell = practice("shell", where, "--nodes=2", "--nodes-16g=0", **commands, **environment)
    assert shell.stdout == "gpu001\ngpu002\n"
    assert gone(folder, seconds=1)
    practice("up", where, "--nodes=2")
    assert practice("shell", where, **commands, **environment).stdout == "gpu001\ngpu002\n"
    assert folder.exists()
    practice("down", where)


def test_a_folder_without_a_cluster_is_unchanged(folder: Path) -> None:
    """`practice_cluster.py up` refuses an existing folder of other files, and keeps these files."""
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    refused = practice("up", f"--folder={folder}")
    assert (refused.returncode, "no cluster's" in refused.stderr) == (1, True)
    assert (folder / "thesis.txt").read_text() == "precious"
    shutil.rmtree(folder)


def test_a_daemon_that_does_not_start_is_explained_and_leaves_nothing(folder: Path) -> None:
    """If a daemon does not start, `practice_cluster.py up` prints the end of the daemon's log.

    It also removes the cluster's folder.
    """
    failed = practice("up", f"--folder={folder}", "--max-array-size=-5")
    assert failed.returncode == 1
    assert "slurmctld ended" in failed.stderr
    assert "MaxArraySize" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_has_a_cluster_of_their_own(folder: Path) -> None:
    """The user `nobody`, who has no special rights, can start a cluster."""
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    # setpriv itself may still enter root's folders; the shell that it starts may not.
    as_nobody += ["sh", "-c", 'exec "$@"', "sh"]
    python = next(
        (
            path
            for path in (os.path.realpath(sys.executable), "/usr/bin/python3")
            if Path(path).exists()
            and subprocess.run([*as_nobody, path, "-c", "import tomllib"], check=False).returncode
            == 0
        ),
        None,
    )
    if python is None:
        pytest.skip("no Python 3.11 here that other users may run")
    with tempfile.TemporaryDirectory(dir="/tmp") as copied:
        Path(copied).chmod(0o755)
        shutil.copytree(TOOLS / "practice", Path(copied) / "practice")
        shutil.copy(TOOLS / "practice_cluster.py", copied)
        done = subprocess.run(
            [*as_nobody, python, "practice_cluster.py", "shell", f"--folder={folder}"],
            input='cd "$(mktemp -d)"; sbatch -W -N2 -o out --wrap "srun id -un"; cat out\n',
            env={"PATH": os.environ["PATH"], "SHELL": "/bin/sh"},
            cwd=copied,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stdout.split("\n")[1:3] == ["nobody", "nobody"], done.stdout + done.stderr


def test_nothing_is_missing_where_these_tests_run() -> None:
    """The machine that runs the tests has all Debian packages that a practice cluster needs.

    These are the packages of a cluster with accounting.
    """
    assert missing_packages(with_accounting=True) == []
