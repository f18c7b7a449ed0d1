"""Choose the runs that start, and change the resources that they request."""

from dataclasses import replace

import pytest
from fixture_types import CampaignOf

from orchestrator.common.errors import UserError
from orchestrator.submit.selection import with_resources

CAMPAIGN = "name: a\ncluster: {cluster}\ndefaults: {{framework: gpt, model: s}}\n"


@pytest.mark.parametrize(
    ("asked", "problems"),
    [
        ({"memory": "a lot"}, ["--memory: "]),
        ({"memory": "", "partition": ""}, ["--memory: is empty", "--partition: is empty"]),
    ],
)
def test_every_value_that_does_not_fit_is_named(
    campaign_of: CampaignOf, asked: dict[str, str], problems: list[str]
) -> None:
    """If values of several resource options are invalid, one message has each of these options."""
    local = campaign_of(CAMPAIGN.format(cluster="local"))
    campaign = replace(local, cluster=replace(local.cluster, scheduler="slurm"))
    with pytest.raises(UserError) as raised:
        with_resources(campaign, **asked)
    for sentence, expected in zip(raised.value.problems, problems, strict=True):
        assert sentence.startswith(expected)


def test_resources_of_slurm_are_refused_on_this_machine(campaign_of: CampaignOf) -> None:
    """On this machine, options for Slurm's resources are refused, not ignored.

    Without such options the campaign stays unchanged.
    """
    campaign = campaign_of(CAMPAIGN.format(cluster="local"))
    assert with_resources(campaign, memory=None) == campaign
    with pytest.raises(UserError, match="--memory, --qos: can be used only on a Slurm cluster"):
        with_resources(campaign, memory="4G", qos="dev")
