"""Run the commands that the README and some docs pages show, and write their output into the pages.

Part of `make record`. In a block marked `console`, a line that begins with `$ ` is a command. The
lines up to the next command are the command's output. The commands of all pages run in order, in
one temporary folder that contains `examples/`.
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
# The pages, in the order in which a reader types their commands.
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "tutorial" / "1-first-campaign.md",
    ROOT / "docs" / "tutorial" / "3-logs-you-have.md",
    ROOT / "docs" / "how-to" / "estimate.md",
)

_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)


def commands(text: str) -> list[str]:
    """Return the commands in a page's console blocks, in order."""
    lines = (line for block in _BLOCK.findall(text) for line in block.splitlines())
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def outputs(text: str) -> list[tuple[str, str]]:
    """Return each command of a page with the output that the page shows for it, in order."""
    parts = (
        part
        for block in _BLOCK.findall(text)
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)
    )
    pairs = (part.partition("\n") for part in parts if part)
    return [(command, output.rstrip("\n")) for command, _, output in pairs]


def run_commands(listed: list[str]) -> Iterator[tuple[str, str]]:
    """Run commands one after another; yield each with its output, stdout and stderr together."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # With their own lock folder, the commands do not wait for runs of other programs.
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as locks:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples")
        # As in the checkout, the results of the examples are written to the parent folder.
        for name in (".git", "results"):
            Path(folder, name).mkdir()
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
    """Run the commands of all pages, and rewrite the outputs in the pages."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    printed = run_commands([command for text in texts for command in commands(text)])

    def renewed(block: re.Match[str]) -> str:
        count = len(commands(f"```console\n{block[0]}```"))
        return "".join(f"$ {command}\n{output}\n" for command, output in _next(printed, count))

    for page, text in zip(PAGES, texts, strict=True):
        page.write_text(_BLOCK.sub(renewed, text), encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}", file=sys.stderr)


def _next(printed: Iterator[tuple[str, str]], count: int) -> Iterator[tuple[str, str]]:
    for _ in range(count):
        yield next(printed)


if __name__ == "__main__":
    main()
