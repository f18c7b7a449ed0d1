"""Find what changed in a campaign file after the campaign was submitted."""

import json
from collections.abc import Iterator
from typing import Any

from orchestrator.campaign.campaign import Campaign, PlannedRun
from orchestrator.campaign.labels import setting_leaves
from orchestrator.campaign.parameters import COMMON, DERIVED, option_names
from orchestrator.common.tables import DASH
from orchestrator.run.model import sizes
from orchestrator.store.campaign_store import CampaignStore

_LISTED = 5


def edits(campaign: Campaign, store: CampaignStore) -> list[str]:
    """Return phrases on how the campaign's runs differ from the runs of its last submission.

    A phrase is e.g. `2 changed (...)`, `3 new (...)` or `1 gone (...)`. A run counts as changed
    if the last submission had a run with the same label, but with another id. A run that is gone
    is listed only if it was started, because only started runs have results.
    """
    before = store.submitted_runs()
    now = {planned.run_id for planned in campaign.runs}
    lost: dict[str, list[str]] = {}
    for identity, label in before.items():
        if identity not in now:
            lost.setdefault(label, []).append(identity)
    new: list[str] = []
    changed: list[tuple[PlannedRun, str]] = []
    for planned in campaign.runs:
        if planned.run_id in before:
            continue
        if same_label := lost.get(planned.label):
            changed.append((planned, same_label.pop(0)))
        else:
            new.append(planned.label)
    gone = [label for label, runs in lost.items() for run in runs if store.run(run).attempts()]
    phrases = [f"{len(changed)} changed ({_changes_of(changed, store)})"] if changed else []
    phrases += [
        f"{len(labels)} {word} ({', '.join(labels[:_LISTED])}{_more(labels)})"
        for word, labels in (("new", new), ("gone", gone))
        if labels
    ]
    return phrases


def _more(listed: list[Any]) -> str:
    return " …" if len(listed) > _LISTED else ""


def _changes_of(changed: list[tuple[PlannedRun, str]], store: CampaignStore) -> str:
    """Return a text with the labels of the changed runs, and the parameters that changed.

    Runs with the same changes are listed together. changed: pairs of a run and the id of the
    earlier run, which was submitted with the same label.
    """
    labels: dict[str, list[str]] = {}
    for planned, identity in changed[:_LISTED]:
        changes = [*_changes(planned, store.run(identity).record())]
        text = f"{', '.join(changes[:_LISTED])}{_more(changes)}"
        labels.setdefault(text, []).append(planned.label)
    groups = [f"{', '.join(some)}{f': {text}' if text else ''}" for text, some in labels.items()]
    return f"{'; '.join(groups)}{_more(changed)}"


def _changes(planned: PlannedRun, record: dict[str, Any]) -> Iterator[str]:
    """Yield how parameters of a run differ from an earlier record, e.g. `train_iters 20 -> 30`."""
    names = COMMON | option_names(planned.run.framework) | {"cluster"}
    # As a record has them, after JSON.
    values = json.loads(json.dumps(sizes(planned.run)))
    for name, value in values.items():
        if name in names - DERIVED and name in record and record[name] != value:
            yield from _change(name, record[name], value)


def _change(name: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, list) and isinstance(new, list):
        before, after = ([text for _, text in setting_leaves(words)] for words in (old, new))
        left = " ".join(text for text in before if text not in after) or DASH
        come = " ".join(text for text in after if text not in before) or DASH
        yield f"{name} {left} -> {come}" if left != come else f"{name} in another order"
        return
    leaves, new_leaves = dict(setting_leaves(old)), dict(setting_leaves(new))
    for path in dict.fromkeys((*leaves, *new_leaves)):
        was, now = leaves.get(path, DASH), new_leaves.get(path, DASH)
        if was != now:
            yield f"{'.'.join((name, *path))} {was} -> {now}"
