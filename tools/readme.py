"""Run the commands that the README shows and write what they print into it; part of `make record`.

In a block marked `console`, a line that begins with `$ ` is a command, and the lines up to the
next one are its output. Commands run in order, in one empty folder that holds `examples/`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)


def commands(text: str) -> list[str]:
    """Return the commands in a README's console blocks, in order."""
    lines = (line for block in _BLOCK.findall(text) for line in block.splitlines())
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def outputs(text: str) -> dict[str, str]:
    """Return what a README says each command prints."""
    parts = (
        part
        for block in _BLOCK.findall(text)
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)
    )
    pairs = (part.split("\n", 1) for part in parts if part)
    return {command: output.rstrip("\n") for command, output in pairs}


def run_commands(listed: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each command with what it really prints, stdout and stderr together."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # With locks of their own they wait for nobody else's runs, and do not say so.
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as locks:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples")
        # As in the checkout, the examples' results belong in the folder above.
        for one in (".git", "results"):
            Path(folder, one).mkdir()
        for command in listed:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env={**os.environ, "PATH": path, "XDG_RUNTIME_DIR": locks},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            yield command, done.stdout.replace(folder, "~").rstrip("\n")


def main() -> None:
    """Rewrite the README's outputs."""
    text = README.read_text()
    printed = dict(run_commands(commands(text)))

    def renewed(block: re.Match[str]) -> str:
        return "".join(
            f"$ {one}\n{printed[one]}\n" for one in commands(f"```console\n{block[0]}```")
        )

    README.write_text(_BLOCK.sub(renewed, text))
    print(f"wrote {README.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
