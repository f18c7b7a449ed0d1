"""Find the runs to compare: those that are equal except for the parameter in question."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.common.errors import UserError
from orchestrator.compare.measured_run import MeasuredRun

# The runs of A and B must have the same value of one of these. The first one is preferred.
_BATCHES = ("global_batch_size", "num_microbatches")


@dataclass(frozen=True, slots=True)
class Kind:
    """One side of a comparison: the runs of one configuration."""

    runs: tuple[MeasuredRun, ...]

    @property
    def label(self) -> str:
        """The label of the configuration; without the seed, if the runs have several seeds."""
        label = self.runs[0].kind
        if len({run.values.get("seed") for run in self.runs}) == 1:
            return label
        return " ".join(word for word in label.split() if not word.startswith("seed=")) or label

    @property
    def choices(self) -> Mapping[str, str]:
        """The settings that all runs of the configuration share."""
        return self.runs[0].choices

    def size(self, name: str) -> object:
        """Return the value of a parameter or size in these runs, e.g. of `global_batch_size`."""
        return self.runs[0].values.get(name)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Runs of A, and the runs of B with which they are compared.

    runs: the runs of A. others: the runs of B. title: the name of A. baseline: the name of B.
    repeatable: whether B can have more runs; false for a published row. stated_sizes: the sizes
    that a published row contains.
    """

    title: str
    baseline: str
    runs: tuple[MeasuredRun, ...]
    others: tuple[MeasuredRun, ...]
    repeatable: bool = True
    stated_sizes: tuple[str, ...] = ()

    @property
    def differing(self) -> dict[str, tuple[object, object]]:
        """The settings that differ between A and B, by name: the value of A and the value of B.

        The global batch is included if it differs.
        """
        a, b = (dict(side[0].choices) for side in (self.runs, self.others))
        for choices, side in ((a, self.runs), (b, self.others)):
            choices["global_batch_size"] = json.dumps(side[0].values.get("global_batch_size"))
        return {
            name: (json.loads(a.get(name, "null")), json.loads(b.get(name, "null")))
            for name in (*a, *(b.keys() - a.keys()))
            if a.get(name, "null") != b.get(name, "null")
        }


def kinds(runs: Sequence[MeasuredRun]) -> list[Kind]:
    """Group runs by configuration; return the configurations in the order of their first runs."""
    groups: dict[object, list[MeasuredRun]] = {}
    for run in runs:
        groups.setdefault(run.what_repeats_share, []).append(run)
    return [Kind(tuple(members)) for members in groups.values()]


def by_parameter(runs: Sequence[MeasuredRun], name: str) -> tuple[list[Pairing], list[str]]:
    """Pair configurations that differ in the parameter `name`: A and B of a comparison.

    The runs of B have the value that comes first in the campaign. The runs of A have one of the
    other values. Also returns the labels of the configurations without a partner. Raises
    UserError if the parameter has only one value, or if no two configurations can be paired.
    """
    groups: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        groups.setdefault(repr(run.values.get(name)), []).append(run)
    if len(groups) < 2:
        raise UserError(f"--by {name}: all runs have the same value; choose another parameter")
    (_, baseline), *others = groups.items()
    # A value that is not a setting depends on settings. Then these settings may differ, too.
    is_choice = name in _BATCHES or any(name in run.choices for run in runs)
    asked = name if is_choice else None
    pairings: list[Pairing] = []
    alone: dict[str, None] = {}
    for _, group in others:
        matches, left = matched(group, baseline, asked)
        pairings += [_told_apart(pairing, name) for pairing in matches]
        alone.update(dict.fromkeys(left))
    in_pairs = {label for pairing in pairings for label in (pairing.title, pairing.baseline)}
    if not pairings:
        raise UserError(
            f"--by {name}: no two runs differ only in {name}; choose the runs with --a and --b"
        )
    return pairings, [label for label in alone if label not in in_pairs]


def matched(
    runs: Sequence[MeasuredRun], others: Sequence[MeasuredRun], asked: str | None = None
) -> tuple[list[Pairing], list[str]]:
    """Pair configurations of A with configurations of B that differ only in the compared settings.

    Also returns the labels of the configurations without a partner. runs: the runs of A.
    others: the runs of B. asked: the setting that the user wants to compare, or None.

    The compared settings are usually all settings that have no common value in A and B. There
    is one exception: if `asked` is a setting other than the global batch and the number of
    micro-batches, only `asked` is compared. If `asked` is None, and A and B have one
    configuration each, these two are always a pair.

    Both configurations of a pair must have the same global batch. If no pair has the same
    global batch, both must have the same number of micro-batches instead. If `asked` is one of
    these two sizes, both sizes may differ. Raises UserError if a configuration has several
    partners.
    """
    sides = kinds(runs), kinds(others)
    if asked is None and len(sides[0]) == len(sides[1]) == 1:
        return [_pairing(sides[0][0], sides[1][0])], []
    batch_asked = asked in _BATCHES
    differing = _never_the_same(*sides) if asked is None or batch_asked else {asked}
    if batch_asked:
        differing |= {*_BATCHES}
    pairings, used = [], set()
    for kind, partners in _all_partners(*sides, differing):
        if len(partners) > 1:
            labels = ", ".join(partner.label for partner in partners)
            raise UserError(
                f"{kind.label}: can be compared with several configurations: {labels}; choose one "
                "with --a or --b"
            )
        for partner in partners:
            if id(partner) in used:
                raise UserError(
                    f"{partner.label}: can be compared with several runs, e.g. {kind.label}; "
                    f"choose one with --a or --b"
                )
            used |= {id(kind), id(partner)}
            pairings.append(_pairing(kind, partner))
    return pairings, [kind.label for side in sides for kind in side if id(kind) not in used]


def _told_apart(pairing: Pairing, name: str) -> Pairing:
    """Return the pairing with different names for A and B.

    If A and B have the same name, `name=value` is added to both. The values are those of the
    parameter `name` in A and in B.
    """
    if pairing.title != pairing.baseline:
        return pairing
    values = (side[0].values.get(name) for side in (pairing.runs, pairing.others))
    title, baseline = (f"{pairing.title} {name}={value}" for value in values)
    return replace(pairing, title=title, baseline=baseline)


def _pairing(kind: Kind, other: Kind) -> Pairing:
    return Pairing(kind.label, other.label, kind.runs, other.runs)


def _never_the_same(kinds_of_a: Sequence[Kind], kinds_of_b: Sequence[Kind]) -> set[str]:
    names = {name for kind in (*kinds_of_a, *kinds_of_b) for name in kind.choices}
    choices = {
        name
        for name in names
        if not {kind.choices.get(name) for kind in kinds_of_a}
        & {kind.choices.get(name) for kind in kinds_of_b}
    }
    batches = {
        name
        for name in _BATCHES
        if not {kind.size(name) for kind in kinds_of_a} & {kind.size(name) for kind in kinds_of_b}
    }
    return choices | batches


def _all_partners(
    kinds_of_a: Sequence[Kind], kinds_of_b: Sequence[Kind], differing: set[str]
) -> list[tuple[Kind, list[Kind]]]:
    """Return each configuration of A with its possible partners in B.

    A partner differs only in the settings `differing`, and has the same global batch. If no
    configuration has such a partner, the number of micro-batches must be the same instead of
    the global batch. If `differing` contains both these sizes, a partner may differ in both.
    """
    alike = [(kind, list(_alike(kind, kinds_of_b, differing))) for kind in kinds_of_a]
    if differing.issuperset(_BATCHES):
        return alike
    for size in _BATCHES:
        matches = [
            (kind, [other for other in others if other.size(size) == kind.size(size)])
            for kind, others in alike
        ]
        if any(partners for _, partners in matches):
            return matches
    return []


def _alike(kind: Kind, others: Sequence[Kind], differing: set[str]) -> Iterator[Kind]:
    for other in others:
        names = kind.choices.keys() | other.choices.keys()
        if all(kind.choices.get(name) == other.choices.get(name) for name in names - differing):
            yield other
