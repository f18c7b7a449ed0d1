"""Read the command that starts the training program from a job script, by running bash."""

import subprocess

# A script makes both arrays before it starts anything.
_PROGRAM, _ARGUMENTS = "\nprogram=(", "\nargs=("
_END = "\n)\n"
_PRINT = 'printf "%s\\0" "${#program[@]}" "${program[@]}" "${args[@]}"'
# Variables that the script would have by then; their values do not matter here.
_ENVIRONMENT = {"MASTER_ADDR": "127.0.0.1", "node_ips": "127.0.0.1", "PATH": "/usr/bin:/bin"}


def handed_words(script: str) -> tuple[list[str], list[str]]:
    """Return two lists of words: the training program, e.g. its path, and its arguments.

    The job script sets the bash arrays `program` and `args` to these words. Raises ValueError if
    the script does not set both arrays.
    """
    start = script.index(_PROGRAM)
    end = script.index(_END, script.index(_ARGUMENTS, start)) + len(_END)
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", f"{script[start:end]}{_PRINT}"],
        capture_output=True,
        text=True,
        check=True,
        env=_ENVIRONMENT,
    )
    count, *words = done.stdout.split("\0")[:-1]
    return words[: int(count)], words[int(count) :]
