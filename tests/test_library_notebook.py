"""Check docs/library.ipynb: its cells print their recorded outputs when they are executed again."""

import ast
import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"
CELLS = [
    cell
    for cell in json.loads((DOCS / "library.ipynb").read_text())["cells"]
    if cell["cell_type"] == "code"
]


def executed(source: str, names: dict[str, Any]) -> str:
    """Run the code of a cell, and return its output and the value of its last expression."""
    *body, last = ast.parse(source).body
    printed = StringIO()
    with redirect_stdout(printed):
        if not isinstance(last, ast.Expr):
            body.append(last)
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue() + ("" if value is None else repr(value))


def recorded(cell: dict[str, Any]) -> str:
    """Return the text of a cell's outputs."""
    return "".join(
        "".join(output["text"] if "text" in output else output["data"]["text/plain"])
        for output in cell["outputs"]
    )


def test_the_notebook_s_cells_print_their_recorded_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell prints its recorded output if all cells are executed again in order.

    The cells run in one process, in the folder of the docs.
    """
    pd = pytest.importorskip("pandas")
    monkeypatch.chdir(DOCS)
    names: dict[str, Any] = {"__name__": "notebook"}
    # Set by hand, because a notebook has no terminal to take them from.
    with pd.option_context("display.width", 80, "display.max_columns", 20):
        for cell in CELLS:
            assert executed("".join(cell["source"]), names) == recorded(cell)


def test_the_notebook_has_been_executed_from_top_to_bottom() -> None:
    """The recorded outputs are of one execution, in which each cell ran once and in order."""
    assert [cell["execution_count"] for cell in CELLS] == [*range(1, len(CELLS) + 1)]
    assert sum(bool(cell["outputs"]) for cell in CELLS) > len(CELLS) // 2
