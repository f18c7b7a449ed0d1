"""Check that commands name crowded runs."""

import json
from pathlib import Path

import pytest
from made_up_runs import Folder, by_layers

COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "compare": (
        ("compare", "made-up.yaml", "--by", "num_layers"),
        "Crowded on this machine, which makes steps slower: num_layers=1 r1 (8 ranks on 2 cores)",
    ),
    "noise": (
        ("noise", "made-up.yaml"),
        "Crowded on this machine, which makes steps slower: num_layers=1 r1 (8 ranks on 2 cores)",
    ),
    "history": (
        ("history", "made-up.yaml", "num_layers=1 r1"),
        "1 run was crowded (more ranks",
    ),
}


@pytest.mark.parametrize(("command", "sentence"), COMMANDS.values(), ids=COMMANDS)
def test_crowded_runs_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], sentence: str
) -> None:
    """A message lists the crowded runs, and no run that has enough cores.

    It does not list a run whose record lacks the numbers of ranks and cores.
    """
    monkeypatch.chdir(tmp_path)
    folder = Folder(tmp_path)
    folder.campaign("matrix: {num_layers: [1, 2]}\nrepeats: 2\n", by_layers)
    assert "rowded" not in folder.teralog(*command).stdout
    for run in (tmp_path / "results" / "made-up").glob("*/run.json"):
        label = json.loads(run.read_text())["label"]
        path = run.parent / "attempt-1" / "attempt.json"
        ranks = {"num_layers=1 r1": 8, "num_layers=2 r1": 2}.get(label)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"ranks": ranks, "cores": 2}))
    shown = folder.teralog(*command).stdout
    assert sentence in " ".join(shown.split())
    assert "num_layers=2 r1 (" not in shown
