"""Find the logs that the user's paths, folders and globs mean."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from parsers.runs.pairs import output_of

# What is called as a log is one: slurm-123.out, log.txt.gz, train.o1234, rank0.log.2, smi.csv, and
# off.mem, of OneFlow's benchmarks
_LOG = re.compile(
    r"\.(?:(?:out|err|log|txt|csv|mem|stdout|stderr)(?:\.[0-9]+)?|[oe][0-9]+)(?:\.(?:gz|zst))?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Log:
    """A log, and the one with the errors of the same run where there is one.

    named: it was named itself, rather than found in a folder.
    """

    path: Path
    errors: Path | None = None
    named: bool = True


@dataclass(frozen=True, slots=True)
class FoundLogs:
    """The logs in order, each once, and a sentence for each path that leads to none."""

    logs: tuple[Log, ...]
    problems: tuple[str, ...]


def find_logs(paths: Sequence[str]) -> FoundLogs:
    """Return the logs that paths mean: files, folders with all below them, globs, `-` for stdin.

    In a folder only files that are called as logs are taken, and hidden ones are not.
    """
    found: dict[Path, bool] = {}
    problems = []
    for text in dict.fromkeys(paths):
        meant = _meant(text)
        for path in meant:
            if path.is_dir():
                logs = sorted(_logs_below(path))
                if not logs:
                    problems.append(
                        f"{path}: there is no log in this folder: no file whose name ends in .out, "
                        ".err, .log or .txt (.gz, .zst); name the files themselves"
                    )
                found |= {log: False for log in logs if log not in found}
            else:
                found[path] = True
        if not meant:
            problems.append(f"{text or repr(text)}: no file or folder is called so")
    return FoundLogs(tuple(_paired(found)), tuple(problems))


def _meant(text: str) -> list[Path]:
    if not text:
        return []  # a variable that is not set; as a Path it would be this folder
    if not os.path.lexists(text) and glob.has_magic(text):
        # Path.glob takes no absolute pattern.
        return sorted(map(Path, glob.iglob(text, recursive=True)))  # noqa: PTH207
    return [Path(text)]


def _logs_below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (
            Path(parent, name) for name in names if _LOG.search(name) and not name.startswith(".")
        )


def _paired(found: dict[Path, bool]) -> Iterator[Log]:
    errors = {output: path for path in found if (output := output_of(path)) in found}
    for path, named in found.items():
        if path not in errors.values():
            yield Log(path, errors.get(path), named)
