"""Check that every public class and function has a unique name."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Each module of orchestrator/frameworks passes functions of these names to `Framework`.
HOOKS = frozenset(
    {
        "config_files",
        "further_arguments",
        "placement",
        "problems",
        "program",
        "split",
        "steps_on_cpu",
        "unreckoned",
        "warnings",
    }
)


def public_names(source: str) -> set[str]:
    """Return the public classes and functions that a module defines at its top level."""
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = {node.name for node in ast.parse(source).body if isinstance(node, definitions)}
    return {name for name in names if not name.startswith("_")}


def repeated_names(root: Path) -> dict[str, list[str]]:
    """Return the public names that more than one module defines; for each name, the modules' paths.

    root: the folder with the packages `orchestrator` and `parsers`.
    """
    modules: dict[str, list[str]] = defaultdict(list)
    for package in ("orchestrator", "parsers"):
        for path in sorted((root / package).rglob("*.py")):
            module = path.relative_to(root)
            is_framework = module.is_relative_to("orchestrator/frameworks")
            for name in public_names(path.read_text(encoding="utf-8")):
                if not (is_framework and name in HOOKS):
                    modules[name].append(str(module))
    return {name: places for name, places in sorted(modules.items()) if len(places) > 1}


def test_a_public_name_is_defined_in_one_module() -> None:
    """No two modules define the same public name."""
    lines = [f"{name}: {', '.join(places)}" for name, places in repeated_names(ROOT).items()]
    assert not lines, "defined in several modules:\n" + "\n".join(lines)


def test_repeated_names_are_found(tmp_path: Path) -> None:
    """`repeated_names` returns each public class or function that several modules define.

    It ignores methods, private functions, and the functions in HOOKS, which each framework's module
    may define.
    """
    modules = {
        "orchestrator/one.py": "class Same: pass\ndef problems(): pass\ndef _private(): pass\n",
        "orchestrator/frameworks/a.py": "def problems(): pass\ndef other(): pass\n",
        "orchestrator/frameworks/b.py": "def problems(): pass\ndef other(): pass\n",
        "parsers/two.py": "def Same(): pass\ndef _private(): pass\nclass C:\n    def one(): pass\n",
        "parsers/three.py": "async def one(): pass\n",
    }
    for name, source in modules.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert repeated_names(tmp_path) == {
        "Same": ["orchestrator/one.py", "parsers/two.py"],
        "other": ["orchestrator/frameworks/a.py", "orchestrator/frameworks/b.py"],
    }
