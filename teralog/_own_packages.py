"""Import teralog's own packages, even if others on the path have the same names.

`orchestrator`, `parsers` and `slurm_templates` are common names. For example, users of Megatron
often have a folder with one of these names on PYTHONPATH. Only the name `teralog` must be unique.
"""

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import RLock
from types import ModuleType

PACKAGES = ("orchestrator", "parsers", "slurm_templates")

_FOLDER = Path(__file__).parent.parent
_lock = RLock()
# teralog's modules, while their names mean packages of the user.
_put_away: dict[str, ModuleType] = {}


def claim_names() -> None:
    """Make `orchestrator`, `parsers` and `slurm_templates` mean teralog's packages.

    The names keep this meaning until the process ends. A user's packages with these names are
    removed from `sys.modules`.
    """
    _take({name for name in PACKAGES if name in sys.modules and not _is_ours(name)})
    _import_packages()


@contextmanager
def borrowed_names() -> Iterator[None]:
    """Make the names of teralog's packages mean these packages for a `with` block.

    The names are `orchestrator`, `parsers` and `slurm_templates`. If the user has a package with
    such a name, the name means the user's package again after the block. Otherwise it still means
    teralog's package.
    """
    with _lock:
        foreign = {name for name in PACKAGES if not _is_ours(name)}
        others = _take(foreign)
        sys.modules.update((name, _put_away[name]) for name in _within(foreign, _put_away))
        try:
            _import_packages()
            yield
        finally:
            _put_away.update(_take(foreign))
            sys.modules.update(others)


def run_module(name: str) -> None:
    """Run a module as `python -m NAME` does, with teralog's packages."""
    import runpy

    claim_names()
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _is_ours(package: str) -> bool:
    """Return whether an import of this name gives teralog's package."""
    module = sys.modules.get(package)
    if module is None:
        from importlib.util import find_spec

        spec = find_spec(package)
        file = None if spec is None else spec.origin
    else:
        file = getattr(module, "__file__", None)
    ours = _FOLDER / package / "__init__.py"
    return file is not None and Path(file).resolve() == ours.resolve()


def _import_packages() -> None:
    """Import teralog's packages, without their modules, from the folder that contains `teralog`."""
    sys.path.insert(0, str(_FOLDER))
    try:
        for name in PACKAGES:
            # `teralog doctor` reports a package that is missing.
            with suppress(ModuleNotFoundError):
                import_module(name)
    finally:
        sys.path.remove(str(_FOLDER))


def _take(packages: Collection[str]) -> dict[str, ModuleType]:
    """Remove these packages and their modules from `sys.modules`.

    Returns a dictionary from the names of the removed packages and modules to the removed objects.
    """
    return {name: sys.modules.pop(name) for name in _within(packages, sys.modules)}


def _within(packages: Collection[str], modules: Collection[str]) -> list[str]:
    return [name for name in modules if name.partition(".")[0] in packages]
