"""A command that runs a real Slurm cluster on this machine, for practice and for the tests.

    practice_cluster.py up        start the cluster, which runs until `down`
    practice_cluster.py shell     open a shell in which Slurm's commands use the cluster
    practice_cluster.py status    print the cluster's partitions and nodes
    practice_cluster.py down      end the cluster and all its jobs
    practice_cluster.py packages  install the Debian packages, or print what to type

The cluster needs only Python and these packages, and no root rights. Daemons, jobs and logs belong
to the user who starts it. They are in one folder, which is removed with the cluster.
"""

import argparse
import os
import pwd
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from practice import holder, running
from practice.daemons import command_environment
from practice.packages import install_packages
from practice.plan import Plan, PracticeError


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 0, or 1 with a sentence on stderr."""
    options = _parse(arguments)
    try:
        return int(options.command(options) or 0)
    except PracticeError as error:
        print(f"practice cluster: {error}", file=sys.stderr)
        return 1


def _up(options: argparse.Namespace) -> None:
    plan = _plan(options)
    cluster = running.start(plan, bound=False)
    print(f"{_title(plan)} is up after {cluster.start_seconds:.1f} s", file=sys.stderr)
    print(f"export SLURM_CONF={plan.slurm_conf}")


def _down(options: argparse.Namespace) -> None:
    if not running.stop(options.folder):
        print("practice cluster: none is up", file=sys.stderr)


def _shell(options: argparse.Namespace) -> None:
    plan = _plan(options)
    if running.is_up(plan.folder):
        print("a shell on the practice cluster, which stays up; exit leaves it", file=sys.stderr)
        _run_shell(plan)
        return
    with running.running(plan) as cluster:
        print(
            f"a shell on {_title(plan)}, up after {cluster.start_seconds:.1f} s; exit ends both",
            file=sys.stderr,
        )
        _run_shell(plan)


def _status(options: argparse.Namespace) -> int:
    if not running.is_up(options.folder):
        print("practice cluster: none is up", file=sys.stderr)
        return 1
    plan = Plan(folder=options.folder)
    return subprocess.run(["sinfo"], env=command_environment(plan), check=False).returncode


def _packages(options: argparse.Namespace) -> int:
    return 0 if install_packages() or not os.environ.get("CI") else 1


def _hold(options: argparse.Namespace) -> None:
    holder.hold(options.order)


def _run_shell(plan: Plan) -> None:
    # The exit code of the shell's last command is not relevant.
    shell = os.environ.get("SHELL") or "/bin/sh"
    subprocess.run([shell], env=command_environment(plan), check=False)


def _plan(options: argparse.Namespace) -> Plan:
    given = {field.name: getattr(options, field.name, None) for field in fields(Plan)}
    return Plan(**{name: value for name, value in given.items() if value is not None})


def _title(plan: Plan) -> str:
    accounting = ", with accounting" if plan.with_accounting else ""
    return (
        f"a practice cluster of {plan.nodes_32g} nodes v100-32g and {plan.nodes_16g} v100-16g"
        f"{accounting}"
    )


def _default_folder() -> Path:
    # Not TMPDIR: sockets' names must be short.
    return Path(f"/tmp/teralog-slurm-{pwd.getpwuid(os.geteuid()).pw_name}")  # noqa: S108


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, function in {"up": _up, "shell": _shell, "status": _status, "down": _down}.items():
        command = commands.add_parser(name)
        command.set_defaults(command=function)
        command.add_argument("--folder", type=Path, default=_default_folder())
        if name in {"up", "shell"}:
            add = command.add_argument
            add("--nodes", type=int, dest="nodes_32g", help="nodes with v100-32g (4)")
            add("--nodes-16g", type=int, help="nodes with v100-16g (2)")
            add("--max-array-size", type=int, help="Slurm's MaxArraySize (1001)")
            add(
                "--accounting",
                dest="with_accounting",
                action="store_true",
                help="with slurmdbd and MariaDB, for sacct, accounts and QOS",
            )
    commands.add_parser("packages").set_defaults(command=_packages)
    hold = commands.add_parser("hold", help="what `up` and `shell` start in the background")
    hold.set_defaults(command=_hold)
    hold.add_argument("order")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
