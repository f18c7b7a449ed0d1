"""The order A B B A: a steady drift during a block affects every configuration equally."""

from collections import defaultdict
from statistics import fmean

import pytest
from fixture_types import CampaignOf

from orchestrator.campaign.campaign import Campaign
from orchestrator.campaign.interleaving import Placed, interleaved
from orchestrator.common.errors import UserError

TEXT = """\
name: turns
defaults:
  framework: gpt
  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
order: interleaved
"""


def blocks(campaign: Campaign, seed: int = 0) -> list[list[Placed]]:
    """Return the blocks of a campaign."""
    placed_runs: dict[int, list[Placed]] = defaultdict(list)
    for placed in interleaved(campaign.runs, seed):
        placed_runs[placed.block].append(placed)
    return list(placed_runs.values())


def kinds(block: list[Placed]) -> list[str]:
    """Return the labels of a block's runs, in the order of starts, without repeat numbers."""
    return [placed.planned.label.split(" r")[0] for placed in block]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "strategies", ["ddp, zero1", "ddp, zero1, zero2", "ddp, zero0, zero1, zero2"]
)
def test_a_block_reads_the_same_from_both_ends(
    campaign_of: CampaignOf, strategies: str, seed: int
) -> None:
    """A block has the same order of configurations forwards and backwards.

    So every configuration has the same mean place. Each run of the campaign is in one block.
    """
    campaign = campaign_of(f"{TEXT}matrix: {{strategy: [{strategies}]}}\nrepeats: 8\n")
    campaign_blocks = blocks(campaign, seed)
    assert len(campaign_blocks) == 4
    for block in campaign_blocks:
        assert kinds(block) == kinds(block)[::-1]
        places = defaultdict(list)
        for placed, kind in zip(block, kinds(block), strict=True):
            places[kind].append(placed.place)
        assert {fmean(value) for value in places.values()} == {(len(block) + 1) / 2}
    started = [placed.planned.run_id for block in campaign_blocks for placed in block]
    assert sorted(started) == sorted(planned.run_id for planned in campaign.runs)


def test_the_seed_decides_which_configuration_starts_each_block(campaign_of: CampaignOf) -> None:
    """A seed decides which configuration starts each block.

    The same seed gives the same configurations in every call, and another seed gives others.
    """
    text = f"{TEXT}matrix: {{strategy: [ddp, zero1]}}\nrepeats: 32\n"
    first = [kinds(block)[0] for block in blocks(campaign_of(text))]
    assert 4 <= first.count("ddp") <= 12
    assert first == [kinds(block)[0] for block in blocks(campaign_of(text))]
    assert first != [kinds(block)[0] for block in blocks(campaign_of(text), seed=1)]


def test_the_order_does_not_depend_on_the_file_s(campaign_of: CampaignOf) -> None:
    """If the user rearranges the file or adds repeats, completed runs keep their places."""

    def ids(strategies: str, repeats: int) -> list[str]:
        campaign = campaign_of(f"{TEXT}matrix: {{strategy: [{strategies}]}}\nrepeats: {repeats}\n")
        return [placed.planned.run_id for placed in interleaved(campaign.runs, 0)]

    assert ids("ddp, zero1, zero2", 4) == ids("zero2, ddp, zero1", 4)
    assert ids("ddp, zero1", 8)[:8] == ids("ddp, zero1", 4)


def test_an_odd_number_of_repeats_ends_with_one_run_of_each(campaign_of: CampaignOf) -> None:
    """With an odd number of repeats, the last block has one run of each configuration."""
    campaign = campaign_of(f"{TEXT}matrix: {{strategy: [ddp, zero1]}}\nrepeats: 5\n")
    assert [len(block) for block in blocks(campaign)] == [4, 4, 2]


def test_the_order_is_the_file_s_by_default(campaign_of: CampaignOf) -> None:
    """Without `order`, runs keep the file's order; an unknown order is refused."""
    assert campaign_of(TEXT.replace("order: interleaved\n", "")).order_seed is None
    assert campaign_of(TEXT).order_seed == 0
    assert campaign_of(f"{TEXT}order_seed: 7\n").order_seed == 7
    with pytest.raises(UserError, match="cannot be used with order: interleaved"):
        campaign_of(f"{TEXT}matrix: {{micro_batch_size: [1, 2]}}\ngive_up: micro_batch_size\n")
    with pytest.raises(UserError, match="order: 'random' is not one of file, interleaved"):
        campaign_of(TEXT.replace("interleaved", "random"))
