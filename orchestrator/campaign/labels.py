"""Build the labels of runs: the shortest values that distinguish them."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import PurePath
from typing import Any

from orchestrator.campaign.expansion import Entry, default, model_shape
from orchestrator.campaign.file import CampaignFile
from orchestrator.frameworks.table import FRAMEWORKS
from orchestrator.run.shape import ModelShape

MAX_LABEL = 120
# Engineers' names of these parameters; the value follows without a space, e.g. `tp8`.
_SHORT_NAMES = {
    "nodes": "nodes",
    "gpus_per_node": "gpus",
    "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp",
    "context_parallel_size": "cp",
    "micro_batch_size": "mb",
    "num_microbatches": "gas",
    "global_batch_size": "gb",
    "zero_stage": "zero",
}
# An earlier teralog recorded `#2`.
_REPEAT = re.compile(r" (?:r|#)[0-9]+\Z")
# Separators and wildcards of a shell become `_` in labels; quotes and brackets are left out.
_SEPARATORS = re.compile(r"[;&|<>*?]+")
_QUOTES = re.compile(r"""["'`#$(){}\[\]\\!]+""")
# For a longer list or mapping, the label shows only the parts that not all runs have.
_LONG = 40


def labels(file: CampaignFile, all_entries: Sequence[Entry]) -> list[str]:
    """Return a label for each entry: its values of the parameters in which entries differ.

    The values are in the file's order. For a parameter outside the matrix, the campaign's default
    value is left out. A label is for people, and several entries can have the same label. A label
    contains no character that a shell interprets, except spaces.
    """
    candidates = dict.fromkeys((*file.matrix, *(key for entry in file.include for key in entry)))
    texts = {}
    for name in candidates:
        values = [entry.value(name) for entry in all_entries]
        by_text = {repr(value): value for value in values}
        if len(by_text) > 1:
            texts[name] = _texts(name, by_text)
    return [_label(entry, texts, file) for entry in all_entries]


def _label(entry: Entry, texts: Mapping[str, Mapping[str, str]], file: CampaignFile) -> str:
    framework = entry.values.get("framework")
    usual = {name: file.defaults.get(name, default(name, framework)) for name in texts}
    chosen = {name: entry.value(name) for name in texts}
    parts = [
        texts[name].get(repr(value)) or _whole(name, value)
        for name, value in chosen.items()
        if value is not None and (name in file.matrix or value != usual[name])
    ]
    text = shell_safe(" ".join(parts) or str(framework))
    return text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"


def with_repeat(label: str, repeat: int) -> str:
    """Return the label of a repeat of a configuration: `zero3 r2` for `zero3` and 2."""
    return f"{label} r{repeat}"


def without_repeat(label: str) -> str:
    """Return the label of a configuration, given the label of a repeat: `zero3` for `zero3 r2`."""
    return _REPEAT.sub("", label)


def shell_safe(text: str) -> str:
    """Remove characters that a shell interprets, except spaces; return `_` if nothing is left."""
    words = _QUOTES.sub("", _SEPARATORS.sub("_", text)).replace(": ", ":").replace(", ", ",")
    # A shell replaces a tilde at the beginning of a word by a home directory.
    return " ".join(filter(None, (word.lstrip("~") for word in words.split()))) or "_"


def _texts(name: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the text that a label shows for each value of a parameter.

    values: the values of the parameter, each under its repr as the key. The result has the same
    keys, except the key of the value None: a label shows nothing for None.
    """
    texts = {key: _whole(name, value) for key, value in values.items() if value is not None}
    long = {
        key: value
        for key, value in values.items()
        if isinstance(value, dict | list) and len(json.dumps(value)) > _LONG
    }
    if name in _paths():
        paths = {key: PurePath(value).parts for key, value in values.items() if value}
        ends = _ends(paths.values())
        short = {key: "/".join(ends[parts]) for key, parts in paths.items()}
    elif name == "model":
        short = {key: size for key, value in values.items() if (size := _size(value))}
    elif long:
        short = _what_differs(long)
    else:
        return texts
    begin = "" if name in _clear_without_name() else f"{name}="
    labels = {**texts, **{key: f"{begin}{text}" for key, text in short.items()}}
    # Two values that would have the same label are both written out.
    many = Counter(labels.values())
    return {key: text if many[text] == 1 else texts[key] for key, text in labels.items()}


def _size(model: Any) -> str | None:
    """Return a model's number of parameters with three digits, e.g. 18.4B.

    Returns None for a preset, and for a model whose description is incomplete or wrong. Also
    returns None if the campaign file gives only the model's name.
    """
    shape = model_shape({"model": model}) if isinstance(model, Mapping) else None
    if not isinstance(shape, ModelShape) or "preset" in model:
        return None
    count = shape.parameters(shape.vocab_size)
    # From the least unit up, so that 999.9M, which rounds to 1000M, becomes 1B.
    texts = (
        (f"{count / unit:.3g}", sign)
        for unit, sign in ((1, ""), (1e3, "k"), (1e6, "M"), (1e9, "B"), (1e12, "T"))
    )
    return next((text + sign for text, sign in texts if float(text) < 1000), f"{count:.3g}")


def _whole(name: str, value: Any) -> str:
    if name == "model" and isinstance(value, Mapping):
        return "-".join(str(size) for size in value.values())
    if name in _clear_without_name():
        return str(value)
    if name in _SHORT_NAMES and isinstance(value, int):
        return f"{_SHORT_NAMES[name]}{value}"
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"


def _what_differs(long: Mapping[str, Any]) -> dict[str, str]:
    """Return a short text for each mapping or list: the settings that not all of them contain.

    For example, the texts of {lr: 1, tp: 2} and {lr: 1, tp: 4} are `{tp: 2}` and `{tp: 4}`.
    long: mappings and lists that are too long for a label, each under its repr as the key. The
    result has the same keys.
    """
    parts = [{*setting_leaves(value)} for value in long.values()]
    common = set.intersection(*parts) if len(parts) > 1 else set()
    ends = _ends({path for some in parts for path, _ in some - common})

    def short(value: Any) -> str:
        own = [
            (ends[path], text) for path, text in setting_leaves(value) if (path, text) not in common
        ]
        if isinstance(value, list):
            return " ".join(text for _, text in own) or "[…]"
        leaves = [f"{'.'.join(path)}: {text}" for path, text in own]
        return f"{{{', '.join(leaves) or '…'}}}"

    return {key: short(value) for key, value in long.items()}


def setting_leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield a pair for each value inside a setting: the keys that lead to it, and its text.

    For example, the mapping {a: {b: 1}} results in the keys (a, b) and the text `1`. A value
    None is skipped. A list of arguments has no keys, so its tuples of keys are empty. Each
    option with its values is one text: the list [--lr, 1] results in () and `--lr 1`.
    """
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from setting_leaves(inner, (*path, key))
    elif isinstance(value, list) and not path:
        for option in _options(value):
            yield (), option
    elif value is not None:
        yield path, value if isinstance(value, str) else json.dumps(value)


def _options(arguments: Sequence[Any]) -> list[str]:
    """Join each option in a list of arguments with its values: `--lr 1` is one text."""
    texts: list[str] = []
    for argument in arguments:
        text = argument if isinstance(argument, str) else json.dumps(argument)
        if texts and texts[-1].startswith("-") and not text.startswith("-"):
            texts[-1] += f" {text}"
        else:
            texts.append(text)
    return texts


def _ends(paths: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return for each path its shortest end that is not also an end of another path.

    A path is a tuple, e.g. of the folders and the name of a file. An end consists of the last parts
    of a path: (b, c) is an end of (a, b, c). If a path has no such end, the result is the whole
    path.
    """
    all_ends = {path: [path[start:] for start in range(len(path))][::-1] for path in paths}
    counts = Counter(end for ends in all_ends.values() for end in ends)
    return {
        path: next((end for end in ends if counts[end] == 1), path)
        for path, ends in all_ends.items()
    }


@cache
def _clear_without_name() -> frozenset[str]:
    """Return the parameters that a label shows by their value alone, without their name."""
    own = (name for framework in FRAMEWORKS.values() for name in framework.labelled_by)
    return frozenset(("framework", "model", "precision", *own))


@cache
def _paths() -> frozenset[str]:
    """Return the names of all parameters, in any framework, that name files or folders.

    These include parameters whose value is either a path or another name.
    """
    return frozenset(
        name
        for framework in FRAMEWORKS.values()
        for name in (*framework.start.paths, *framework.start.paths_or_names)
    )
