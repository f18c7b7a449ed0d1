"""Define the arguments that name a campaign and its runs; a shell can complete both."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from orchestrator.common.errors import UserError

if TYPE_CHECKING:
    from orchestrator.campaign.campaign import Campaign

_SUFFIXES = (".yaml", ".yml")


def _or_only_one(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Return the campaign that the user gave, or else the only campaign in the current folder."""
    if value is not None or ctx.resilient_parsing:
        return value
    from orchestrator.store.campaign_files import only_campaign_file

    file = only_campaign_file()
    click.echo(f"campaign: {file}", err=True)
    return file


def campaign_argument_of(
    metavar: str = "[CAMPAIGN]",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the optional argument CAMPAIGN, the path of a campaign file.

    If the user gives no campaign, the only campaign in the current folder is used. metavar: how the
    help text shows the argument.
    """
    return click.argument(
        "campaign",
        metavar=metavar,
        required=False,
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_or_only_one,
    )


campaign_argument = campaign_argument_of()


def runs_argument(
    metavar: str, *, single: bool = False, folders: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds an argument for an optional campaign, followed by runs.

    The command gets two values: `campaign`, a path, and `runs`, a tuple of texts.

    metavar: how the help text shows the argument.
    single: whether the command needs exactly one run.
    folders: whether the user may give a results folder instead of a campaign file.
    """

    def split(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> None:
        campaign: Path | None = None
        if words and _is_campaign(words[0], folders=folders):
            campaign, words = Path(words[0]), words[1:]
        if not ctx.resilient_parsing:
            if single and not words:
                raise click.UsageError("Missing argument 'RUN': the id or the label of a run.")
            if single:
                # A label may have spaces, and need not be quoted.
                words = (" ".join(words),)
            campaign = _or_only_one(ctx, param, campaign)
        ctx.params |= {"campaign": campaign, "runs": words}

    return click.argument(
        "words",
        metavar=metavar,
        nargs=-1,
        callback=split,
        expose_value=False,
        shell_complete=_complete_runs,
    )


def _is_campaign(word: str, *, folders: bool) -> bool:
    path = Path(word)
    return word.endswith(_SUFFIXES) or path.is_file() or (folders and path.is_dir())


def _complete_runs(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the labels and ids that begin with `incomplete`, the text that the user has typed.

    If the user has not typed a campaign yet, the shell also completes names of files. If the
    campaign file has a mistake, no label or id is returned, and no message is printed: the message
    would appear in the middle of the user's command line.
    """
    files = [CompletionItem(incomplete, type="file")] if not ctx.params.get("campaign") else []
    try:
        campaign = _loaded(ctx.params.get("campaign"))
    except (UserError, OSError):
        return files
    labels = [run.label for run in campaign.runs if run.label.startswith(incomplete)]
    # Few people begin to type an id, and a list with both is hard to read.
    ids = [run.run_id for run in campaign.runs if incomplete and run.run_id.startswith(incomplete)]
    return [*(CompletionItem(_escaped(name)) for name in (*dict.fromkeys(labels), *ids)), *files]


def _loaded(campaign: Path | None) -> "Campaign":
    from orchestrator.campaign.campaign import load_campaign
    from orchestrator.store.campaign_files import only_campaign_file

    return load_campaign(campaign or only_campaign_file())


def _escaped(label: str) -> str:
    """Return a label in the form that the shell needs to insert it into the command line.

    For bash, each space gets a backslash; zsh and fish quote the label themselves.
    """
    # click's script for bash reads each line with `read`, which takes one backslash away.
    in_bash = os.environ.get("_TERALOG_COMPLETE", "").startswith("bash")
    return label.replace(" ", "\\\\ ") if in_bash else label
