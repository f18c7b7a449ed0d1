"""Start the daemons of a practice cluster; each starts after the daemons that it needs."""

import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from practice.packages import SEARCH_PATH
from practice.plan import Host, Plan, PracticeError, accounts, files

_START_SECONDS = 60


class Daemons:
    """The daemons of a practice cluster, which run in the foreground.

    They are children of this process.
    """

    def __init__(self, plan: Plan, ports: tuple[int, ...]) -> None:
        self._plan = plan
        self._host = Host(
            name=socket.gethostname().split(".")[0],
            user=_user(),
            ports=ports,
            slurm_version=_slurm_version(),
        )
        self._deadline = time.monotonic() + _START_SECONDS
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[str, ...]] = {}
        self._environment = command_environment(plan)

    def start(self) -> None:
        """Start all daemons and return when all nodes are idle.

        Raises PracticeError if a program fails, if a daemon ends, or if the start takes more than a
        minute in total. The message contains the program's output or the end of the daemon's log.
        """
        plan = self._plan
        self._write_files()
        self._start_munged()
        if plan.with_accounting:
            self._start_accounting()
        self._start("slurmctld", "-D", "-f", str(plan.slurm_conf))
        self._wait("slurmctld", lambda: _accepts(self._host.ports[0]))
        for node in plan.nodes:
            self._start("slurmd", "-D", "-f", str(plan.slurm_conf), "-N", node, name=node)
        self._wait("slurmctld", self._all_idle)

    def start_ended(self) -> None:
        """Start again the daemons that have ended; they append to their logs."""
        for name, process in list(self._started.items()):
            if process.poll() is not None:
                self._start(*self._commands[name], name=name)

    def _write_files(self) -> None:
        folder, plan = self._plan.folder, self._plan
        for name in ("etc", "run", "log", "state", "munge", "dev"):
            (folder / name).mkdir()
        for node in plan.nodes:
            (folder / "spool" / node).mkdir(parents=True)
        for name, text in files(plan, self._host).items():
            (folder / name).write_text(text, encoding="utf-8")
            # slurmdbd refuses a configuration file that others can read. The prolog is executed.
            (folder / name).chmod(0o600 if name.endswith("slurmdbd.conf") else 0o755)
        for index in range(4):
            # slurmd needs a character device per GPU, and gets the GPU's number from its name.
            (folder / "dev" / f"nvidia{index}").symlink_to("/dev/null")

    def _start_munged(self) -> None:
        folder, socket_path = self._plan.folder, self._plan.munge_socket
        key = folder / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        self._start(
            "munged",
            "--foreground",
            "--force",  # otherwise munged refuses a folder that only this user may enter
            f"--socket={socket_path}",
            f"--key-file={key}",
            f"--pid-file={folder}/run/munged.pid",
            f"--log-file={folder}/log/munged.log",
            f"--seed-file={folder}/munge/seed",
            "--num-threads=4",
        )
        self._wait("munged", lambda: _accepts(socket_path))

    def _start_accounting(self) -> None:
        folder, socket_path, user = self._plan.folder, self._plan.mariadb_socket, self._host.user
        self._run(
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={folder}/db",
            f"--user={user}",
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={user}",
            "--skip-test-db",
            without_fsync=True,
        )
        self._start(
            "mariadbd",
            "--no-defaults",
            f"--datadir={folder}/db",
            f"--user={user}",
            f"--socket={socket_path}",
            f"--pid-file={folder}/run/mariadbd.pid",
            "--skip-networking",
            "--innodb-buffer-pool-size=64M",
            "--innodb-lock-wait-timeout=900",
            without_fsync=True,
        )
        self._wait("mariadbd", lambda: _accepts(socket_path))
        self._start("slurmdbd", "-D")
        self._wait("slurmdbd", lambda: _accepts(self._host.ports[1]))
        self._run("sacctmgr", "--immediate", stdin=accounts(user))

    def _start(
        self, program: str, *arguments: str, name: str = "", without_fsync: bool = False
    ) -> None:
        name = name or program
        self._commands[name] = (program, *arguments)
        with (self._plan.folder / "log" / f"{name}.out").open("ab") as log:
            self._started[name] = subprocess.Popen(
                [program, *arguments],
                env=self._environment_for(without_fsync),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _run(
        self, program: str, *arguments: str, stdin: str = "", without_fsync: bool = False
    ) -> str:
        try:
            done = subprocess.run(
                [program, *arguments],
                env=self._environment_for(without_fsync),
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PracticeError(f"{program} gave no answer within {_START_SECONDS} s") from None
        if done.returncode != 0:
            raise PracticeError(f"{program} failed: {done.stdout.strip()}")
        return done.stdout

    def _environment_for(self, without_fsync: bool) -> Mapping[str, str]:
        # The data need not survive a crash, and waiting for the disk took most of the start.
        preload = {"LD_PRELOAD": "libeatmydata.so"} if without_fsync else {}
        return {**self._environment, **preload}

    def _wait(self, name: str, condition: Callable[[], bool]) -> None:
        while not condition():
            for daemon, process in self._started.items():
                if process.poll() is not None:
                    raise PracticeError(f"{daemon} ended: {self._log_end(daemon)}")
            if time.monotonic() > self._deadline:
                raise PracticeError(f"{name} took too long: {self._log_end(name)}")
            time.sleep(0.02)

    def _all_idle(self) -> bool:
        states = self._run("sinfo", "--noheader", "--Node", "--partition=v100", "--format=%T")
        return states.split() == ["idle"] * len(self._plan.nodes)

    def _log_end(self, daemon: str) -> str:
        logs = (self._plan.folder / "log" / f"{daemon}{suffix}" for suffix in (".out", ".log"))
        texts = (log.read_text(errors="replace") for log in logs if log.exists())
        return "".join(texts)[-1000:].strip()


def command_environment(plan: Plan) -> Mapping[str, str]:
    """Return the environment in which Slurm's commands and daemons use this cluster."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    return {
        **kept,
        "SLURM_CONF": str(plan.slurm_conf),
        "MYSQL_UNIX_PORT": str(plan.mariadb_socket),
        "PATH": SEARCH_PATH,
        # Job scripts call `module`, which real clusters have. Here it is a function of bash.
        "BASH_FUNC_module%%": '() { echo "this practice cluster has no modules: module $*"; }',
    }


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise PracticeError(
            f"user {os.geteuid()} has no name here, and Slurm runs jobs of users with a name only"
        ) from None


def _slurm_version() -> tuple[int, int]:
    slurmd = shutil.which("slurmd", path=SEARCH_PATH) or "slurmd"
    printed = subprocess.run([slurmd, "-V"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"(\d+)\.(\d+)", printed)
    if match is None:
        raise PracticeError(f"`slurmd -V` names no version: {printed.strip()}")
    return int(match[1]), int(match[2])


def _accepts(address: int | Path) -> bool:
    """Return whether a program listens at a port of this machine, or at a Unix socket."""
    family = socket.AF_INET if isinstance(address, int) else socket.AF_UNIX
    with socket.socket(family) as client:
        return (
            client.connect_ex(("127.0.0.1", address) if isinstance(address, int) else str(address))
            == 0
        )
