"""Find and install the Debian packages that a practice cluster needs."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# For each package, the program or library that it installs; a library as a pattern below /usr.
_PACKAGES: Mapping[str, str] = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurm-client": "sbatch",
    "munge": "munged",
    "libnss-wrapper": "lib*/**/libnss_wrapper.so",
}
_ACCOUNTING_PACKAGES: Mapping[str, str] = {
    "slurmdbd": "slurmdbd",
    "slurm-wlm-mysql-plugin": "lib*/**/accounting_storage_mysql.so",
    "mariadb-server-core": "mariadbd",
    "mariadb-client-core": "my_print_defaults",
    "libeatmydata1": "lib*/**/libeatmydata.so",
}
# Ordinary users have no /usr/sbin in their PATH, where the daemons are.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])

# Packages start services unless a policy forbids it; an existing policy is left unchanged.
_INSTALL = """\
set -eu
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\\nexit 101\\n' > "$policy"
  chmod 755 "$policy"
fi
get() { apt-get --quiet --yes -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@"; }
install() { get install --no-install-recommends "$@"; }
install "$@" || { get update; install "$@"; }
"""


def missing_packages(*, with_accounting: bool) -> list[str]:
    """Return the Debian packages that a practice cluster needs and this machine lacks.

    with_accounting: whether the cluster runs slurmdbd and MariaDB, which need more packages.
    """
    needed = {**_PACKAGES, **(_ACCOUNTING_PACKAGES if with_accounting else {})}
    return [package for package, sign in needed.items() if not _is_there(sign)]


def how_to_install(packages: list[str]) -> str:
    """Return the command that installs packages."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install --no-install-recommends {shlex.join(packages)}"


def install_packages() -> bool:
    """Install missing packages, if possible without a password; return whether all are installed.

    Prints on stderr which packages it installs, or the command that the user must type.
    """
    packages = missing_packages(with_accounting=True)
    if packages and (prefix := _as_root()) is not None:
        print(f"installing {' '.join(packages)}", file=sys.stderr)
        command = [*prefix, "sh", "-c", _INSTALL, "install", *packages]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), check=False)
        packages = missing_packages(with_accounting=True)
    if packages:
        print(
            f"the practice cluster needs {', '.join(packages)}; type: {how_to_install(packages)}",
            file=sys.stderr,
        )
    return not packages


def _is_there(sign: str) -> bool:
    if "/" in sign:
        return next(Path("/usr").glob(sign), None) is not None
    return shutil.which(sign, path=SEARCH_PATH) is not None


def _as_root() -> list[str] | None:
    """Return the words to put before a command so that it runs as root, e.g. `sudo`.

    The list is empty if this process already runs as root. Returns None if apt-get is
    missing, or if sudo is missing or needs a password.
    """
    if shutil.which("apt-get", path=SEARCH_PATH) is None:
        return None
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "--non-interactive"]
    if shutil.which("sudo") is None:
        return None
    asked = subprocess.run([*sudo, "true"], capture_output=True, check=False)
    return sudo if asked.returncode == 0 else None
