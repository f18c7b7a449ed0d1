"""Report the changes in a campaign file since its runs were submitted."""

from pathlib import Path

import pytest
from fixture_types import AttemptIn, CampaignOf

from orchestrator.common.errors import UserError
from orchestrator.store.campaign_store import CampaignStore
from orchestrator.submit.edits import edits
from orchestrator.submit.render import render_runs
from orchestrator.submit.selection import refuse_edited

MODEL = "{num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}"
RAN = f"""\
name: a
defaults:
  framework: deepspeed
  script: a.py
  model: {MODEL}
  script_args: [--lr, 1e-5, --bias]
  deepspeed: {{fp16: {{enabled: true}}}}
matrix: {{seed: [1, 2, 3]}}
"""

EDITS = {
    "nothing": ("seed: [1, 2, 3]", "seed: [3, 2, 1]", []),
    "what is shared": (
        "matrix",
        "  train_iters: 30\nmatrix",
        ["3 changed (seed=1, seed=2, seed=3: train_iters 20 -> 30)"],
    ),
    "several things": (
        "matrix",
        "  train_iters: 30\n  nodes: 2\nmatrix",
        [
            (
                "3 changed (seed=1, seed=2, seed=3: train_iters 20 -> 30, nodes 1 -> 2, "
                "global_batch_size 1 -> 2)"
            )
        ],
    ),
    "what is new, and what is gone": (
        "[1, 2, 3]",
        "[1, 2, 4, 5]",
        ["2 new (seed=4, seed=5)", "1 gone (seed=3)"],
    ),
    "arguments": (
        "1e-5, --bias",
        "3e-5",
        ["3 changed (seed=1, seed=2, seed=3: script_args --lr 1e-5 --bias -> --lr 3e-5)"],
    ),
    "the order of arguments": (
        "--lr, 1e-5, --bias",
        "--bias, --lr, 1e-5",
        ["3 changed (seed=1, seed=2, seed=3: script_args in another order)"],
    ),
    "within a mapping": (
        "fp16: {enabled: true}",
        "fp16: {enabled: false}, bf16: {enabled: true}",
        [
            (
                "3 changed (seed=1, seed=2, seed=3: deepspeed.fp16.enabled true -> false, "
                "deepspeed.bf16.enabled — -> true)"
            )
        ],
    ),
    "differently": (
        "matrix: {seed: [1, 2, 3]}",
        "include: [{seed: 1, nodes: 2}, {seed: 2}, {seed: 3}]",
        ["1 new (seed=1 nodes2)", "1 gone (seed=1)"],
    ),
}


@pytest.mark.parametrize(("text", "instead", "changes"), EDITS.values(), ids=EDITS)
def test_edits_of_a_campaign_are_reported(
    campaign_of: CampaignOf,
    attempt_in: AttemptIn,
    tmp_path: Path,
    text: str,
    instead: str,
    changes: list[str],
) -> None:
    """The message about an edited campaign file has the changed, new and removed runs.

    A run is changed if the file had a different run with the same label before the edit.
    """
    store = CampaignStore(tmp_path / "results")
    campaign = campaign_of(RAN)
    render_runs(campaign, campaign.runs, store)
    store.save_submission(campaign)
    for planned in campaign.runs:
        attempt_in(store.run(planned.run_id), state="COMPLETED")
    edited = campaign_of(RAN.replace(text, instead))
    assert edits(edited, store) == changes
    if not changes:
        refuse_edited(edited, store)
        return
    with pytest.raises(UserError) as caught:
        refuse_edited(edited, store)
    assert f"was submitted: {' and '.join(changes)}; nothing was started" in str(caught.value)


def test_more_than_a_few_runs_are_counted(
    campaign_of: CampaignOf, attempt_in: AttemptIn, tmp_path: Path
) -> None:
    """If more than five runs changed, the message has their number and names the first five."""
    text = RAN.replace("[1, 2, 3]", "[1, 2, 3, 4, 5, 6]")
    store = CampaignStore(tmp_path / "results")
    campaign = campaign_of(text)
    render_runs(campaign, campaign.runs, store)
    store.save_submission(campaign)
    attempt_in(store.run(campaign.runs[0].run_id), state="COMPLETED")
    labels = ", ".join(f"seed={seed}" for seed in range(1, 6))
    assert edits(campaign_of(text.replace("matrix", "  nodes: 2\nmatrix")), store) == [
        f"6 changed ({labels}: nodes 1 -> 2, global_batch_size 1 -> 2 …)"
    ]


def test_a_campaign_that_never_ran_may_be_edited(campaign_of: CampaignOf, tmp_path: Path) -> None:
    store = CampaignStore(tmp_path / "results")
    store.path.mkdir()
    store.save_submission(campaign_of(RAN))
    refuse_edited(campaign_of(RAN.replace("[1, 2, 3]", "[4]")), store)
