"""Read and write Slurm's lists: node names, and ids of jobs and array tasks."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, product

_NAME = r"(?:[^\[\],]|\[[^\[\]]+\])+"
_LIST = re.compile(rf"{_NAME}(?:,{_NAME})*")
_PARTS = re.compile(r"\[(?P<numbers>[^\[\]]+)\]|(?P<text>[^\[\]]+)")
_SPAN = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?")


def expand_nodes(text: str) -> tuple[str, ...]:
    """Return the names in a node list, e.g. four names for `gpu[001-003],login`.

    Several brackets in a name mean all combinations, e.g. eight nodes for `r[1-2]n[0-3]`. Text in
    any other form is returned unchanged.
    """
    if not _LIST.fullmatch(text):
        return (text,) if text else ()
    return tuple(name for names in re.findall(_NAME, text) for name in _expanded(names))


def _expanded(names: str) -> Iterator[str]:
    parts = _PARTS.finditer(names)
    choices = [list(_numbers(part["numbers"])) if part["numbers"] else [part[0]] for part in parts]
    yield from map("".join, product(*choices)) if all(choices) else (names,)


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of a list such as `001-003,007`.

    Each number is padded with zeros to the length of the first number of its range. Yields nothing
    for other text.
    """
    spans = [_SPAN.fullmatch(span) for span in text.split(",")]
    if None in spans:
        return
    for span in filter(None, spans):
        first = span["first"]
        for number in range(int(first), int(span["last"] or first) + 1):
            yield f"{number:0{len(first)}}"


_ARRAY = re.compile(r"(?P<job>[0-9]+)_\[(?P<tasks>[0-9,:-]+)(?:%[0-9]+)?\]")
_ONE = re.compile(r"[0-9]+(?:_[0-9]+)?")


def expand(job_id: str) -> Iterator[str]:
    """Yield the ids in a combined id, e.g. 7_0, 7_1 and 7_5 for `7_[0-1,5%4]`.

    %4 is the limit on tasks that run at once; it is ignored. Yields nothing for other text.
    """
    array = _ARRAY.fullmatch(job_id)
    if array is not None:
        yield from (f"{array['job']}_{task}" for task in _tasks(array["tasks"]))
    elif _ONE.fullmatch(job_id):
        yield job_id


def _tasks(text: str) -> Iterator[int]:
    for part in text.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        if first:
            yield from range(int(first), int(last or first) + 1, int(step or 1))


def compact(indices: Iterable[int]) -> str:
    """Return array indices in the form that sbatch and scancel accept, e.g. `0-3,5`."""
    runs = groupby(enumerate(sorted(set(indices))), key=lambda pair: pair[1] - pair[0])
    spans = ([index for _, index in run] for _, run in runs)
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)


def compact_ids(job_ids: Iterable[str]) -> list[str]:
    """Combine the ids of tasks into one id per array, e.g. `7_[0-3,5]`.

    The id of a job without tasks is returned unchanged.
    """
    parts = [job_id.partition("_") for job_id in job_ids]
    tasks: dict[str, list[int]] = {}
    for job, _, task in parts:
        tasks.setdefault(job, []).extend([int(task)] if task else [])
    return [f"{job}_[{compact(indices)}]" if indices else job for job, indices in tasks.items()]
