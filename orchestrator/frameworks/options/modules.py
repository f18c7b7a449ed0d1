"""Parse modules of a checkout on request, without importing them."""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A parsed Python file.

    bindings: for each name of the module, the statements that give it a value, in source order.
    """

    name: str
    path: Path
    tree: ast.Module
    bindings: dict[str, list[ast.stmt]]

    @property
    def package(self) -> str:
        """The dotted name of the package from which the module's relative imports start."""
        if self.path.name == "__init__.py":
            return self.name
        return self.name.rpartition(".")[0]


@dataclass(slots=True)
class Modules:
    """The modules in the folders `roots` and in their subfolders, by dotted name.

    hashes: the SHA-256 of each file that was read, by path.
    """

    roots: tuple[Path, ...]
    hashes: dict[str, str] = field(default_factory=dict)
    _parsed: dict[str, Module | None] = field(default_factory=dict)

    def find(self, name: str) -> Module | None:
        """Return a module by its dotted name; None if the folders do not contain it.

        Also return None if the module's file is not Python code.
        """
        if name not in self._parsed:
            self._parsed[name] = None
            for path in self._places(name):
                if path.is_file():
                    self._parsed[name] = self.read(path, name)
                    break
        return self._parsed[name]

    def is_package(self, name: str) -> bool:
        """Return whether the folders contain a module or a folder with this dotted name."""
        parts = name.split(".")
        return any(
            root.joinpath(*parts).is_dir() or root.joinpath(*parts).with_suffix(".py").is_file()
            for root in self.roots
        )

    def read(self, path: Path, name: str) -> Module | None:
        """Parse a file as a module called `name`; return None if it is not Python code.

        Raises OSError if the file cannot be read.
        """
        content = path.read_bytes()
        self.hashes[str(path)] = hashlib.sha256(content).hexdigest()
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError):
            return None
        bindings: dict[str, list[ast.stmt]] = {}
        for statement in _statements(tree.body):
            for bound in _bound(statement):
                bindings.setdefault(bound, []).append(statement)
        return Module(name, path, tree, bindings)

    def _places(self, name: str) -> Iterator[Path]:
        parts = name.split(".")
        for root in self.roots:
            yield root.joinpath(*parts, "__init__.py")
            yield root.joinpath(*parts[:-1], f"{parts[-1]}.py")


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, including those inside `if`, `try` and `with`."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _statements([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.Try):
            yield from _statements(statement.body)
            for handler in statement.handlers:
                yield from _statements(handler.body)
            yield from _statements([*statement.orelse, *statement.finalbody])
        elif isinstance(statement, ast.With):
            yield from _statements(statement.body)
        else:
            yield statement


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield each name that a statement gives a value to; `*` for an import of all names."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield statement.name
        case ast.Assign():
            for target in statement.targets:
                for node in ast.walk(target):
                    if isinstance(node, ast.Name):
                        yield node.id
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            yield name
        case ast.Import():
            for alias in statement.names:
                yield alias.asname or alias.name.partition(".")[0]
        case ast.ImportFrom():
            for alias in statement.names:
                yield alias.asname or alias.name
