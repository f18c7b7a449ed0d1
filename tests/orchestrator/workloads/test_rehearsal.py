"""Run the checker that replaces each rank in a rehearsal: what it checks, and how it exits."""

import json
import os
import py_compile
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.workloads import rehearsal
from parsers.runs.outcome import read_outcome

CHECKER = Path(rehearsal.__file__)
ORDER: dict[str, Any] = {
    "program": "pretrain_gpt.py",
    "launcher": "srun",
    "nodes": 2,
    "ranks_per_node": 2,
    "files": [],
    "imports": [],
    "accepted": {"--num-layers": {"type": "int"}},
    "refuses": True,
}
RANK = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "MASTER_ADDR": "gpu001",
    "MASTER_PORT": "6000",
}


def prepare(folder: Path, order: dict[str, Any]) -> None:
    """Write the files that the checker reads: rehearsal.json with `order`, and an empty train.py.

    Create the folder `meeting`, in which the ranks write files to find each other.
    """
    (folder / "meeting").mkdir(parents=True, exist_ok=True)
    (folder / "rehearsal.json").write_text(json.dumps(order))
    (folder / "train.py").touch()


def start(folder: Path, rank: int, **environment: str) -> Any:
    """Start the checker as a launcher would start this rank, of four ranks on two nodes.

    environment: more variables of the rank.
    """
    node = {"SLURMD_NODENAME": f"gpu{rank // 2}", "SLURM_NODEID": str(rank // 2)}
    ours = {"RANK": str(rank), "LOCAL_RANK": str(rank % 2), "WORLD_SIZE": "4"}
    return subprocess.Popen(
        [
            *(sys.executable, str(CHECKER), "rehearsal.json", "meeting"),
            *("train.py", "--num-layers", "2"),
        ],
        cwd=folder,
        env={**os.environ, **node, **ours, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def rehearse(folder: Path, order: dict[str, Any], **environment: str) -> tuple[list[int], str]:
    """Run the checker as four ranks; return their exit codes and their output."""
    with socket.create_server(("", 0)) as free:
        port = str(free.getsockname()[1])
    address = {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    prepare(folder, order)
    ranks = [start(folder, rank, **address, **environment) for rank in range(4)]
    printed = "".join(process.communicate(timeout=100)[0] for process in ranks)
    return [process.returncode for process in ranks], printed


def test_the_ranks_meet_and_the_first_shows_where_they_are(tmp_path: Path) -> None:
    codes, printed = rehearse(tmp_path, ORDER)
    assert codes == [0] * 4
    first, second, together, verdict = printed.splitlines()
    assert first == "[rehearsal] gpu0: rank 0, 1"
    assert second == "[rehearsal] gpu1: rank 2, 3"
    assert together.startswith("[rehearsal] 4 ranks on 2 nodes, master localhost:")
    assert verdict == "[rehearsal] pretrain_gpt.py would start: nothing was trained"


def test_a_file_that_is_missing_fails_as_it_would(tmp_path: Path) -> None:
    missing = tmp_path / "vocab.json"
    codes, printed = rehearse(tmp_path, {**ORDER, "files": [str(missing)]})
    assert codes == [1] * 4
    sentence = f"FileNotFoundError: [Errno 2] No such file or directory: '{missing}'"
    assert printed.count(sentence) == 1
    # Also where torchrun's own traceback comes behind it.
    log = tmp_path / "output.log"
    log.write_text(f'{printed}Traceback (most recent call last):\n  File "run.py"\nError: child\n')
    outcome = read_outcome(str(log))
    assert outcome is not None
    assert outcome.text == sentence


def test_a_script_that_is_no_python_fails_as_it_would(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text('"\\d"\nimport no_such_module\n')
    codes, printed = rehearse(tmp_path, ORDER)
    assert (codes, "Warning" in printed) == ([0] * 4, False)
    again = tmp_path / "again"
    again.mkdir()
    (again / "train.py").write_text("def train(:\n")
    codes, printed = rehearse(again, ORDER)
    assert codes == [1] * 4
    assert printed.count("SyntaxError: invalid syntax (train.py, line 1)") == 1


def test_the_program_itself_is_opened_though_no_file_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "pretrain_gpt2.py")
    order = {**ORDER, "launcher": "node", "accepted": None}
    (sentences,) = rehearsal._problems(order, missing, [])
    assert sentences == f"FileNotFoundError: [Errno 2] No such file or directory: '{missing}'"
    assert not list(rehearsal._problems(order, "-m json.tool", []))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"run.sh": "srun python train.py\n"}, "SyntaxError: invalid syntax (run.sh, line 1)"),
        ({"train": "\0"}, "Error: source code string cannot contain null bytes"),
        ({"folder/train.py": ""}, "ImportError: can't find '__main__' module in '{program}'"),
        ({"folder/__main__.py": "train(\n"}, "SyntaxError: '(' was never closed (__main__.py, "),
        ({"folder/__main__.py": "train()\n"}, None),
        ({"run": "import no_such_module\n"}, None),
    ],
)
def test_a_program_has_to_be_python_whatever_it_is_called(
    tmp_path: Path, files: dict[str, str], message: str | None
) -> None:
    """A training program must be Python code, whatever its file's suffix.

    The check leaves no other file in the program's folder.
    """
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (program,) = tmp_path.iterdir()
    problems = list(rehearsal._program_problems(str(program)))
    assert len(problems) == (message is not None)
    assert message is None or message.format(program=program) in problems[0]
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == sorted(
        name for name in files if "." in name
    )


def test_a_program_may_be_compiled_or_zipped(tmp_path: Path) -> None:
    source = tmp_path / "__main__.py"
    source.write_text("train()\n")
    compiled = py_compile.compile(str(source), str(tmp_path / "train.pyc"), doraise=True)
    with zipfile.ZipFile(tmp_path / "train.zip", "w") as archive:
        archive.write(source, "__main__.py")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.write(source, "train.py")
    assert not list(rehearsal._program_problems(compiled))
    assert not list(rehearsal._program_problems(str(tmp_path / "train.zip")))
    (sentences,) = rehearsal._program_problems(str(tmp_path / "empty.zip"))
    assert sentences == f"ImportError: can't find '__main__' module in '{tmp_path}/empty.zip'"


def test_data_need_not_be_python_and_may_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "tokens.py").write_text("these are no tokens of Python (")
    order = {**ORDER, "launcher": "node", "accepted": None}
    order["files"] = [str(tmp_path), str(tmp_path / "tokens.py")]
    assert not list(rehearsal._problems(order, "-m json.tool", []))


def test_an_option_that_is_refused_fails_as_argparse_does(tmp_path: Path) -> None:
    codes, printed = rehearse(tmp_path, {**ORDER, "accepted": {"--n-layers": {}}})
    assert codes == [2] * 4
    assert "train.py: error: unrecognized arguments: --num-layers 2\n" in printed


def test_a_word_of_the_launcher_that_is_refused_fails_too(tmp_path: Path) -> None:
    """A rehearsal fails if the program refuses an argument that the launcher adds.

    Today's torch.distributed.launch adds `--local-rank` to each rank; programs of 2021 refuse it.
    """
    order = {**ORDER, "launcher": "launch", "accepted": {"--num-layers": {}, "--local_rank": {}}}
    script = tmp_path / "train.py"
    script.touch()
    for word, code in (("--local_rank=0", 0), ("--local-rank=0", 2)):
        problems = list(rehearsal._problems({**order, "launcher": "node"}, str(script), [word]))
        assert [line.split(" ")[0] for line in problems] == (
            ["train.py:", "[rehearsal]"] if code else []
        ), word


@pytest.mark.parametrize(
    ("module", "messages"),
    [
        ("orchestrator.workloads.gpt", []),
        ("json.tool", []),
        ("orchestrator.workloads.none", ["No module named 'orchestrator.workloads.none'"]),
        ("nowhere.gpt", ["No module named 'nowhere'"]),
    ],
)
def test_a_module_that_python_does_not_find_is_reported(module: str, messages: list[str]) -> None:
    problems = list(rehearsal._module_problems([module]))
    assert problems == [f"ModuleNotFoundError: {message}" for message in messages]


def test_a_python_without_the_module_s_imports_fails_as_in_training() -> None:
    """A rehearsal fails if its Python lacks a module that the program is known to import.

    The message is the one that Python prints in a training.
    """
    order = {**ORDER, "launcher": "node", "accepted": None, "imports": ["json", "no_torch"]}
    (sentences,) = rehearsal._problems(order, "-m json.tool", [])
    assert sentences == "ModuleNotFoundError: No module named 'no_torch'"


def test_ranks_on_too_few_nodes_are_reported(tmp_path: Path) -> None:
    codes, printed = rehearse(tmp_path, ORDER, SLURMD_NODENAME="gpu7")
    assert codes[0] == 1
    assert "ranks are on 1 node, but the run has 2\n" in printed


def test_a_master_that_does_not_answer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
        environment = {**RANK, "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rehearsal, "CONNECT_SECONDS", 0.1)
    (sentences,) = rehearsal._master_problems()
    assert sentences.startswith(
        f"torch.distributed.DistNetworkError: connect to localhost:{port}: "
    )


@pytest.mark.parametrize("port", ["22x", "65536"])
def test_a_port_that_is_none_is_no_place_to_meet(
    monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    for name, value in {**RANK, "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, value)
    assert not list(rehearsal._master_problems())
    assert rehearsal._listen(0) is None


def test_a_rank_that_occurs_twice_is_reported(tmp_path: Path) -> None:
    prepare(tmp_path, ORDER)
    (tmp_path / "meeting" / "2.json").write_text("{}")
    process = start(tmp_path, 2, MASTER_ADDR="", MASTER_PORT="")
    assert ("[rehearsal] rank 2 was started twice, the second time on gpu1") in process.communicate(
        timeout=100
    )[0]
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({}, None),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2, but the run has 4 ranks"),
        ({"RANK": "4", "LOCAL_RANK": "0"}, "RANK is 4, but the run has only 4 ranks"),
        ({"LOCAL_RANK": "0"}, "LOCAL_RANK is 0, but must be 1: RANK is 3, with 2 ranks per node"),
        (
            {"SLURM_NODEID": "0"},
            "RANK is 3 on node 0, but must be on node 1: each node has 2 consecutive ranks",
        ),
        ({"SLURM_NODEID": "1"}, None),
        ({"RANK": "x"}, "RANK is 'x', but must be a number"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set"),
        ({"MASTER_PORT": ""}, "MASTER_PORT is not set"),
        ({"MASTER_PORT": "22x"}, "MASTER_PORT is '22x', but must be a number from 1 to 65535"),
        ({"MASTER_PORT": "65536"}, "MASTER_PORT is '65536', but must be a number from 1 to 65535"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT is '0', but must be a number from 1 to 65535"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "invalid device ordinal: rank 3 sees only 0"),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, None),
    ],
)
def test_a_rank_knows_who_it_is(changed: dict[str, str], problem: str | None) -> None:
    sentences = list(rehearsal.rank_problems({**RANK, **changed}, ORDER))
    assert len(sentences) == (problem is not None)
    assert problem is None or problem in sentences[0]
