"""Watch a campaign on a real Slurm: `watch` reports slow and hung runs, and Ctrl-C ends no run."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from practice.jobs import fail_node, wait_until

from orchestrator.campaign.campaign import load_campaign
from orchestrator.cli.main import main
from orchestrator.slurm.lists import expand_nodes
from orchestrator.status import hung_runs
from orchestrator.status.on_hang import OnHang
from orchestrator.status.watch import Watch
from orchestrator.store.campaign_store import campaign_store

pytestmark = pytest.mark.slurm

TERALOG_SECONDS = 120
# Every command prints the folder that it uses.
RESULTS = "results: results/play\n"
STEPS = 30
# Instead of DeepSpeed: prints the lines of its engine, at the speed of the node. The test decides
# when the last line comes.
SCRIPT = """\
import os, time, pathlib
ledger = pathlib.Path(os.environ["LEDGER"])
seconds = 0.15 if os.environ["SLURMD_NODENAME"] == ledger.read_text() else 0.05
for step in range(1, {steps} + 1):
    time.sleep(seconds)
    while step == {steps} and not ledger.with_name("ledger.go").exists():
        time.sleep(0.1)
    print(
        f"[INFO] epoch=0/micro_step={{step}}/global_step={{step}}, RunningAvgSamplesPerSec=1.0, "
        f"CurrSamplesPerSec={{4 / seconds}}, MemAllocated=0.39GB, MaxMemAllocated=0.39GB",
        flush=True,
    )
"""
CAMPAIGN = """\
name: play
cluster: cpu.yaml
defaults:
  framework: deepspeed
  script: train.py
  model: {{num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}}
  launcher: srun
  train_iters: {steps}
  micro_batch_size: 4
  time_limit: 5
matrix: {{zero_stage: [1]}}
repeats: 4
warmup: 2
"""
PROFILE = """\
gpus_per_node: 0
memory: 1G
exclusive: true
requeue: {requeue}
"""


def write_campaign(play: Any, *, slow_node: str = "gpu002", requeue: str = "false") -> None:
    """Write a campaign of four repeats on separate nodes; the runs on `slow_node` are slow."""
    play.ledger.write_text(slow_node)
    (play.path / "train.py").write_text(SCRIPT.format(steps=STEPS))
    (play.path / "cpu.yaml").write_text(PROFILE.format(requeue=requeue))
    (play.path / "campaign.yaml").write_text(CAMPAIGN.format(steps=STEPS))


def read_until(watching: "subprocess.Popen[str]", pattern: str) -> str:
    """Return the output of `teralog watch` up to the first line that matches a pattern."""
    assert watching.stdout is not None
    printed = ""
    for line in watching.stdout:
        printed += line
        if re.search(pattern, line):
            return printed
    raise AssertionError(printed)


@pytest.fixture
def play(playground, slurm) -> Any:
    """Return a playground (a folder with a small campaign) on a cluster."""
    playground.environment |= slurm.environment
    return playground


@pytest.mark.parametrize(
    "text", ["gpu[001-003,007]", "a,b[1-2]c[03-04]", "n[8-11,100]", "n[08-11],x[0-0]"]
)
def test_slurm_expands_a_list_of_nodes_to_the_same_names(slurm, text: str) -> None:
    """`expand_nodes` expands `gpu[001-003]` to the same names as `scontrol show hostnames`."""
    job = slurm.run("scontrol", "show", "hostnames", text)
    assert job.stdout.split() == list(expand_nodes(text))


def test_a_campaign_is_watched_to_its_end_and_the_slow_run_is_reported(play) -> None:
    """If `watch` writes to a pipe, it prints plain tables until the end, and reports the slow run.

    `status`, `status --json` and `report --by-node` report the slow run too.
    """
    write_campaign(play)
    assert play.teralog("submit", "campaign.yaml").returncode == 0
    watching = play.start("watch", "campaign.yaml", "--interval", "0.5")
    slow = (
        r"^deepspeed r\d on gpu002: slow: 0\.15 s per step, 3\.0 . the 0\.050 s of its 3 siblings$"
    )
    # The slow run is reported while it runs.
    early = read_until(watching, r" RUNNING +1  gpu002 +\d+/30 +0\.150 +\S+  0:00:\d\d +3\.0 .")
    early += read_until(watching, slow)
    play.go()
    printed, complaints = watching.communicate(timeout=TERALOG_SECONDS)
    assert (watching.returncode, complaints) == (0, RESULTS)
    assert "\x1b" not in early + printed
    tables = printed.split("\n\n")
    done = re.findall(r" COMPLETED +1  gpu\d+ +30/30 +(0\.150|0\.0500) ", tables[-1])
    assert len(done) == 4
    assert "4 runs: 4 completed" in tables[-1]

    status = play.teralog("status", "campaign.yaml")
    assert re.search(slow, status.stdout, re.MULTILINE)
    slow_runs = {run["node_list"]: run["slow"] for run in play.status()}
    assert slow_runs.pop("gpu002") == {
        "step_seconds": pytest.approx(0.15),
        "usual_step_seconds": pytest.approx(0.05),
        "ratio": pytest.approx(3.0),
        "compared_with": "siblings",
        "compared": 3,
    }
    assert set(slow_runs.values()) == {None}
    nodes = play.teralog("report", "campaign.yaml", "--by-node").stdout.splitlines()
    rows = [line.split() for line in nodes if line.startswith("gpu")]
    assert rows[0] == ["gpu002", "1", "1", "3.00", "slow"]
    assert [row[1:] for row in rows[1:]] == [["1", "1", "1.00", "—"]] * 3
    assert not (play.path / "results" / "play" / "report.md").exists()


def test_ctrl_c_ends_the_watching_and_no_run(play) -> None:
    """After Ctrl-C the exit code is 130, and the runs continue to their ends."""
    write_campaign(play)
    play.teralog("submit", "campaign.yaml")
    play.wait_for(["RUNNING"] * 4)
    watching = play.start("watch", "campaign.yaml", "--interval", "0.2")
    read_until(watching, r"^run ")
    watching.send_signal(signal.SIGINT)
    _, complaints = watching.communicate(timeout=TERALOG_SECONDS)
    assert watching.returncode == 130
    assert complaints == f"{RESULTS}stopped watching; the runs continue\n"
    assert play.states() == ["RUNNING"] * 4
    play.go()
    play.wait_for(["COMPLETED"] * 4)


def on_a_terminal(play: Any, *arguments: str, interrupt: bool = False, **variables: str) -> Any:
    """Run teralog in a terminal of 80 columns; return its exit code and its output.

    interrupt: send Ctrl-C once the command shows a running run.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, **play.environment, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    environment |= variables
    process = subprocess.Popen(
        [Path(sys.executable).parent / "teralog", *arguments],
        cwd=play.path,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    written = b""
    deadline = time.monotonic() + TERALOG_SECONDS
    while time.monotonic() < deadline:
        readable, _, _ = select.select([master], [], [], 1.0)
        if not readable:
            continue
        try:
            written += os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if interrupt and b"RUNNING" in written:
            process.send_signal(signal.SIGINT)
            interrupt = False
    os.close(master)
    return process.wait(timeout=TERALOG_SECONDS), written.decode()


def test_on_a_terminal_the_table_stays_in_place(play) -> None:
    """`watch` moves the cursor up before each update, and shows the cursor again at the end."""
    write_campaign(play)
    play.teralog("submit", "campaign.yaml")
    play.wait_for(["RUNNING"] * 4)
    watch = ("watch", "campaign.yaml", "--interval", "0.5")
    plain = on_a_terminal(play, *watch, "--once", NO_COLOR="1")[1]
    assert "4 runs: 4 running" in plain
    assert "\x1b" not in plain
    code, written = on_a_terminal(play, *watch, interrupt=True)
    assert code == 130
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")
    play.go()
    code, written = on_a_terminal(play, *watch)
    assert code == 0
    assert "\x1b[1A" in written
    assert written.rpartition("4 runs: ")[2].startswith("4 completed")
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_a_run_that_slurm_starts_again_is_watched_from_its_last_start(play, slurm) -> None:
    """If Slurm starts a run again, `watch` shows its progress from the new start only.

    The log also contains the output of the earlier start.
    """
    write_campaign(play, slow_node="none", requeue="true")
    play.teralog("submit", "campaign.yaml")
    first, *_ = play.wait_for(["RUNNING"] * 4)
    watching = play.start("watch", "campaign.yaml", "--interval", "0.2")
    row = rf"^{first['run_id']} .* "
    read_until(watching, rf"{row}RUNNING +1  gpu\d+ +29/30 ")
    fail_node(slurm, first["node_list"])
    # After the restart the run has fewer iterations than before, and then all of them again.
    read_until(watching, rf"{row}\S.* (— |(1?\d|2[0-8])/30 )")
    read_until(watching, rf"{row}RUNNING \(restart 1\) +1  gpu\d+ +29/30 ")
    play.go()
    printed, complaints = watching.communicate(timeout=TERALOG_SECONDS)
    assert (watching.returncode, complaints) == (0, RESULTS)
    assert "4 runs: 4 completed" in printed
    log = Path(play.status()[0]["log"]).read_text()
    assert log.count("global_step=29,") == 2
    assert "starts again: restart 1" in log


# Prints some steps and then nothing, until the test allows it; after a restart it prints them all.
HANGS = """\
for step in 1 2 3 4 5 6; do
  echo "[teralog] iteration $step/8 | step_seconds 0.01 | samples_per_second 9.0 | loss 1.0\\
 | memory_allocated_gib 0.1 | max_memory_allocated_gib 0.1"
done
if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then
  while ! test -e "$LEDGER.go"; do sleep 0.1; done
fi
"""


def watch_once(play: Any, *arguments: str) -> Any:
    """Run `teralog watch --once` in this process."""
    with contextlib.chdir(play.path):
        command = ["watch", "campaign.yaml", "--once", *arguments]
        return CliRunner(env=play.environment).invoke(main, command)


def watch_until_dealt_with(play: Any, what: str) -> str:
    """Call `watch --once` until it acts on the hung run; return the output of the last call.

    what: `cancel` or `requeue`, the value of `--on-hang`.
    """
    printed: list[str] = []

    def is_dealt_with() -> bool:
        printed.append(watch_once(play, "--on-hang", what).output)
        return "last line: [teralog] iteration 6/8" in printed[-1]

    wait_until(is_dealt_with, lambda: "\n".join(printed))
    return printed[-1]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs count as hung after three seconds without output, instead of one minute."""
    monkeypatch.setattr(hung_runs, "LEAST_SECONDS", 3.0)


def test_a_run_that_hangs_is_requeued(play, impatient: None) -> None:
    """A hung run is requeued once, and then completes; its log has the output of both starts."""
    play.write_slurm_campaign(HANGS, matrix="seed: [1]", profile="requeue: true\n")
    play.teralog("submit", "campaign.yaml")
    play.wait_for(["RUNNING"])
    printed = watch_until_dealt_with(play, "requeue")
    assert ": requeued\n" in printed
    [run] = play.wait_for(["COMPLETED"])
    assert run["restarts"] == 1
    assert Path(run["log"]).read_text().count("iteration 6/8") == 2


def test_a_run_that_hangs_is_cancelled(play, impatient: None) -> None:
    """`watch --on-hang cancel` cancels a hung run; the other run goes on."""
    body = f'if [ "$run" = "$(cat "$LEDGER.hangs")" ]; then\n{HANGS}fi\n'
    body += 'while ! test -e "$LEDGER.go"; do sleep 0.1; done\n'
    play.write_slurm_campaign(body, matrix="seed: [1, 2]")
    first, _ = play.status()
    play.ledger.with_name("ledger.hangs").write_text(first["run_id"])
    play.teralog("submit", "campaign.yaml")
    play.wait_for(["RUNNING", "RUNNING"])
    printed = watch_until_dealt_with(play, "cancel")
    assert ": CANCELLED\n" in printed
    play.wait_for(["CANCELLED", "RUNNING"])
    play.go()
    play.wait_for(["CANCELLED", "COMPLETED"])


def test_a_run_that_slurm_may_not_requeue_is_reported(play, slurm, impatient: None) -> None:
    """If Slurm refuses to requeue a hung run, `watch` prints this, and the run goes on."""
    play.write_slurm_campaign(HANGS, matrix="seed: [1]", profile="requeue: true\n")
    play.teralog("submit", "campaign.yaml")
    [run] = play.wait_for(["RUNNING"])
    slurm.run("scontrol", "update", f"jobid={run['job_id']}", "requeue=0")
    printed = watch_until_dealt_with(play, "requeue")
    assert ": not requeued: " in printed
    assert play.states() == ["RUNNING"]
    play.go()
    play.wait_for(["COMPLETED"])


def test_a_run_that_has_ended_since_the_query_is_not_requeued(play, impatient: None) -> None:
    """A run that ended since the last query is not requeued, because it would start again."""
    play.write_slurm_campaign(HANGS, matrix="seed: [1]", profile="requeue: true\n")
    play.teralog("submit", "campaign.yaml")
    play.wait_for(["RUNNING"])
    with contextlib.chdir(play.path), pytest.MonkeyPatch.context() as patch:
        for name, value in play.environment.items():
            patch.setenv(name, value)
        campaign = load_campaign(Path("campaign.yaml"))
        store = campaign_store(Path("results"), campaign.name)
        watch = Watch(campaign, store)
        wait_until(lambda: bool(watch.look().hung), lambda: "nothing hangs")
        look = watch.look()
        play.go()
        play.wait_for(["COMPLETED"])
        [sentence] = OnHang(campaign, store, "requeue")(look)
    assert sentence.endswith(": not requeued, because the run is not running any more")
    assert [(run["state"], run["restarts"]) for run in play.status()] == [("COMPLETED", 0)]
