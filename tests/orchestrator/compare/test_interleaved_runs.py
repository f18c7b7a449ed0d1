"""Start interleaved runs for real, and check their order and the places that they record."""

import json
from typing import Any

BODY = """\
for step in 1 2 3 4 5 6 7 8 9 10; do
  echo "[teralog] iteration $step/10 | step_seconds 0.$((RANDOM % 90 + 10)) | samples_per_second 1 \
| loss 6 | memory_allocated_gib 0.1 | max_memory_allocated_gib 0.2"
done
"""


def write_turns(play: Any, *lines: str) -> None:
    """Write an interleaved campaign of two blocks; its runs print steps, and have 1 or 2 layers.

    lines: further lines of the campaign file.
    """
    play.write_campaign(BODY, matrix="num_layers: [1, 2]", train_iters=10)
    with (play.path / "campaign.yaml").open("a") as file:
        file.write("\n".join(("repeats: 4", "order: interleaved", *lines)) + "\n")


def started(play: Any) -> list[dict[str, Any]]:
    """Return the records of all attempts, in the order of starts.

    Each record is the content of the attempt's attempt.json, together with the key `label`: the
    run's label without its repeat number.
    """
    attempts = {}
    for run in play.path.glob("results/play/*/run.json"):
        label = json.loads(run.read_text())["label"].split(" r")[0]
        for attempt in run.parent.glob("attempt-*/attempt.json"):
            attempts[run.parent.name] = {"label": label, **json.loads(attempt.read_text())}
    return [attempts[words[0]] for words in play.events() if words[1] == "start"]


def test_interleaved_runs_start_one_by_one_and_record_their_places(
    playground: Any,
) -> None:
    """Interleaved runs start one at a time, and record their block and their place in the block.

    The runs of each `submit` share one allocation.
    """
    write_turns(playground)
    refused = playground.teralog("submit", "campaign.yaml", "--slots", "2")
    assert refused.returncode == 1
    assert (
        "--slots: must be 1, because `order: interleaved` starts one run at a time"
    ) in refused.stderr
    assert playground.teralog("submit", "campaign.yaml", "--blocks", "1").returncode == 0
    assert playground.states().count("COMPLETED") == 4
    assert playground.teralog("submit", "campaign.yaml").returncode == 0
    assert [words[1] for words in playground.events()] == ["start", "end"] * 8
    started_runs = started(playground)
    assert [(attempt["block"], attempt["place"]) for attempt in started_runs] == [
        (block, place) for block in (1, 2) for place in (1, 2, 3, 4)
    ]
    allocations = [attempt["allocation"] for attempt in started_runs]
    assert len(set(allocations[:4])) == len(set(allocations[4:])) == 1
    assert allocations[0] != allocations[4]
    for block in (started_runs[:4], started_runs[4:]):
        a, b, other_b, other_a = (attempt["label"] for attempt in block)
        assert (a, b) == (other_a, other_b)
        assert a != b
    record = json.loads(
        playground.teralog("compare", "campaign.yaml", "--by", "num_layers", "--json").stdout
    )
    assert (record[0]["units_a"], record[0]["balanced"], record[0]["allocations"]) == (2, 2, 2)
    assert record[0]["verdict"] == "cannot tell"
    assert record[0]["more"] >= 4


def test_blocks_are_of_an_interleaved_order(playground: Any) -> None:
    """`submit --blocks` is refused if the campaign does not have `order: interleaved`.

    For an interleaved campaign on Slurm, a plain `submit` is refused; the message names
    `submit --here`.
    """
    playground.write_campaign("true", matrix="seed: [1]")
    refused = playground.teralog("submit", "campaign.yaml", "--blocks", "1")
    assert refused.returncode == 1
    assert "--blocks: needs a campaign with `order: interleaved`" in refused.stderr
    playground.write_slurm_campaign("true")
    with (playground.path / "campaign.yaml").open("a") as file:
        file.write("order: interleaved\n")
    refused = playground.teralog("submit", "campaign.yaml")
    assert refused.returncode == 1
    assert "`teralog salloc --batch --run`" in refused.stderr
    assert "`teralog submit --here`" in refused.stderr


def test_runs_in_the_file_s_order_record_their_place_too(playground: Any) -> None:
    """Without `order: interleaved`, a run records its place in the order of starts, but no block.

    A steady drift cancels within a block, but not in the file's order.
    """
    playground.write_campaign("true", matrix="seed: [1, 2]")
    playground.teralog("submit", "campaign.yaml", "--slots", "1")
    assert [(attempt["place"], attempt["block"]) for attempt in started(playground)] == [
        (1, None),
        (2, None),
    ]
