"""Check that runs train and rehearse in the container of their cluster profile.

Programs of the test replace the container runtimes, e.g. apptainer. They set a mark and run the
command on the node itself. The Python of the runs starts only if the mark is set.
"""

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.train]

# For `apptainer exec` and `podman-hpc run`: options, an image, the command.
ENGINE = """\
#!/bin/bash
shift
options=()
while [[ $1 == --* ]]; do
  options+=("$1")
  [[ $1 != --pwd ]] || { options+=("$2"); shift; }
  shift
done
printf '%s\\n' "${0##*/} ${options[*]} $1" >> "$LEDGER.containers"
IN_CONTAINER=$1 exec "${@:2}"
"""
# Removes the options of plug-ins that this Slurm does not have.
SRUN = """\
#!/bin/bash
words=() options=()
for word in "$@"; do
  case "$word" in
    --container-* | --environment=*) options+=("$word") ;;
    *) words+=("$word") ;;
  esac
done
[[ -z "${options[*]}" ]] || printf '%s\\n' "srun ${options[*]}" >> "$LEDGER.containers"
[[ -z "${options[*]}" ]] || export IN_CONTAINER=1
exec {srun} "${words[@]}"
"""
PYTHON = """\
#!/bin/bash
[[ -n "${IN_CONTAINER:-}" ]] || { echo "Python outside of the container: $*" >&2; exit 9; }
exec {python} "$@"
"""
BIND = """\
#!/bin/bash
echo "rank $LOCAL_RANK $1" >> "$LEDGER.bound"
exec "${@:2}"
"""
CAMPAIGN = """\
name: play
cluster: slurm.yaml
defaults:
  framework: gpt
  model: {num_layers: 2, hidden_size: 64, num_attention_heads: 4, vocab_size: 512, seq_length: 64}
  gpus_per_node: 2
  micro_batch_size: 4
  train_iters: 4
  time_limit: 5
matrix:
  launcher: [torchrun, srun]
"""
RUNTIMES = {
    "apptainer": "apptainer --nv --bind={run}:{run} --bind=/tmp:/data:ro --pwd {work} {image}",
    "podman-hpc": (
        "podman-hpc --rm --gpu --network=host --ipc=host --pid=host --env-host "
        "--volume={run}:{run} --volume=/tmp:/data:ro --workdir={work} {image}"
    ),
    "pyxis": (
        "srun --container-image={image} --container-mounts={run}:{run},/tmp:/data:ro "
        "--container-workdir={work}"
    ),
    "uenv": "srun --environment={image} --container-workdir={work}",
}


def write_programs(folder: Path) -> None:
    """Create a folder with the programs that replace the container runtimes."""
    folder.mkdir()
    srun = shutil.which("srun")
    assert srun is not None
    texts = {
        "apptainer": ENGINE,
        "podman-hpc": ENGINE,
        "srun": SRUN.replace("{srun}", srun),
        "python-in-image": PYTHON.replace("{python}", shlex.quote(sys.executable)),
        "bind.sh": BIND,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def containers(play: Any) -> list[str]:
    """Return the command lines that started containers, one per start."""
    path = Path(f"{play.ledger}.containers")
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_run_trains_and_rehearses_inside_its_container(bare: Any, runtime: str) -> None:
    """Launchers, ranks and rehearsals all use the Python of the container."""
    programs = bare.path / "programs"
    write_programs(programs)
    image = str(bare.path / "an image.sif")
    container = {"image": "./an image.sif", "runtime": runtime}
    if runtime != "uenv":
        container["mounts"] = ["/tmp:/data:ro"]
    profile = {
        "gpus_per_node": 4,
        "constraint": "v100-32g",
        "memory": "2G",
        "python": str(programs / "python-in-image"),
        "setup": [f"export PATH={shlex.quote(str(programs))}:$PATH"],
        "container": container,
        "binding": "custom",
        "binding_command": [str(programs / "bind.sh"), "two words"],
    }
    (bare.path / "slurm.yaml").write_text(json.dumps(profile))
    (bare.path / "campaign.yaml").write_text(CAMPAIGN)

    rehearsed = bare.teralog("submit", "campaign.yaml", "--rehearse")
    assert rehearsed.returncode == 0, rehearsed.stderr
    watched = bare.teralog("watch", "campaign.yaml", "--rehearsed", "--interval", "1", seconds=300)
    status = bare.teralog("status", "campaign.yaml", "--rehearsed", "--json")
    logs = [Path(run["log"]).read_text() for run in json.loads(status.stdout)]
    assert watched.returncode == 0, logs
    assert all("would start: nothing was trained" in log for log in logs)
    # Each run starts the container once to check the modules, then for its tasks.
    assert len(containers(bare)) >= 4
    Path(f"{bare.ledger}.containers").unlink()
    Path(f"{bare.ledger}.bound").unlink()

    assert bare.teralog("submit", "campaign.yaml").returncode == 0
    runs = bare.wait_for(["COMPLETED"] * 2, seconds=300)
    for run in runs:
        log = Path(run["log"]).read_text()
        assert "[teralog] finished | iterations 4" in log
        folder = bare.path / "results" / "play" / run["run_id"]
        expected = RUNTIMES[runtime].format(run=folder, work=folder / "attempt-1", image=image)
        assert expected in containers(bare)
    bound = Path(f"{bare.ledger}.bound").read_text().splitlines()
    assert sorted(bound) == ["rank 0 two words"] * 2 + ["rank 1 two words"] * 2


def test_run_without_its_container_fails(bare: Any) -> None:
    """If the profile has no container, a run fails, because its Python refuses to start.

    This shows that the runs of the other test really use the container.
    """
    programs = bare.path / "programs"
    write_programs(programs)
    profile = {"gpus_per_node": 4, "memory": "2G", "python": str(programs / "python-in-image")}
    (bare.path / "slurm.yaml").write_text(json.dumps(profile))
    (bare.path / "campaign.yaml").write_text(CAMPAIGN)
    assert bare.teralog("submit", "campaign.yaml").returncode == 0
    runs = bare.wait_for(["FAILED"] * 2)
    assert "Python outside of the container" in Path(runs[0]["log"]).read_text()
