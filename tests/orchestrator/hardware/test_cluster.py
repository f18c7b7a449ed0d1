"""Load cluster profiles, and describe this machine as a cluster."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.common.errors import UserError
from orchestrator.hardware.cluster import Cluster, load_cluster

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "clusters").glob("*.yaml"))


@pytest.mark.parametrize(
    ("visible", "gpus"), [("", 0), ("-1", 0), ("0", 1), ("0,2,5", 3), ("GPU-1a,GPU-2b", 2)]
)
def test_this_machine_is_one_node_with_the_gpus_that_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, gpus: int
):
    """The cluster `local` is one node, with the GPUs that CUDA_VISIBLE_DEVICES does not hide."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    local = load_cluster("local", tmp_path)
    assert (local.scheduler, local.nodes, local.gpus_per_node) == ("local", 1, gpus)
    assert local.has_gpus == (gpus > 0)


def test_every_key_of_a_profile_is_read(tmp_path: Path):
    """Every key of a cluster profile is read; without `name`, the file's name is used."""
    (tmp_path / "v100.yaml").write_text(
        "nodes: 261\ngpus_per_node: 4\ngpu: V100-SXM2-32GB\ncores_per_rank: 10\n"
        "gpu_peak_tflops: {fp16: 120}\ngpu_memory_gib: 31.7\n"
        "partition: gpu_p13\nconstraint: v100-32g\naccount: six@gpu\nqos: qos_gpu-dev\n"
        "hint: nomultithread\nmodules: [cuda/11.1, nccl]\nsetup: [export NCCL_DEBUG=INFO]\n"
        "python: /opt/python\n"
    )
    assert load_cluster("v100.yaml", tmp_path) == Cluster(
        name="v100",
        scheduler="slurm",
        nodes=261,
        gpus_per_node=4,
        gpu="V100-SXM2-32GB",
        gpu_peak_tflops={"fp16": 120},
        gpu_memory_gib=31.7,
        cores_per_rank=10,
        partition="gpu_p13",
        constraint="v100-32g",
        account="six@gpu",
        qos="qos_gpu-dev",
        hint="nomultithread",
        modules=["cuda/11.1", "nccl"],
        setup=["export NCCL_DEBUG=INFO"],
        python="/opt/python",
    )


def test_a_profile_has_settings_for_slurm(tmp_path: Path):
    """A profile may have settings for Slurm jobs; by default it has none."""
    (tmp_path / "v100.yaml").write_text(
        "memory: 160G\nexclusive: true\nswitches: 1@2:00:00\ntime_limit: 1:30:00\nrequeue: false\n"
        "signal: B:USR2@90\nthrottle: 4\nmax_array_size: 500\nsubmission_limit: 100\n"
        "log_folder: $SCRATCH/logs\n"
    )
    cluster = load_cluster("v100.yaml", tmp_path)
    assert (cluster.memory, cluster.exclusive, cluster.switches) == ("160G", True, "1@2:00:00")
    assert (cluster.time_limit, cluster.requeue, cluster.signal) == ("1:30:00", False, "B:USR2@90")
    assert (cluster.throttle, cluster.max_array_size, cluster.submission_limit) == (4, 500, 100)
    assert cluster.log_folder == "$SCRATCH/logs"
    assert Cluster(name="a").requeue is None


@pytest.mark.parametrize(
    ("written", "log_folder", "python"),
    [
        ("logs", "{folder}/logs", "logs"),
        ("./bin/python", "{folder}/bin/python", "{folder}/bin/python"),
        ("../a/b", "{folder}/../a/b", "{folder}/../a/b"),
        ("/abs", "/abs", "/abs"),
        ("~/x", "/home/someone/x", "/home/someone/x"),
        ("$WORK/x", "/work/x", "/work/x"),
        ("${WORK}x", "/workx", "/workx"),
        ("$NOWHERE/x", "$NOWHERE/x", "$NOWHERE/x"),
    ],
)
def test_paths_of_a_profile_are_relative_to_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: str,
    log_folder: str,
    python: str,
):
    """Paths in a profile are relative to the folder of the profile.

    A `python` without a folder is a name, not a path: the job looks for it on its PATH.
    """
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("WORK", "/work")
    (tmp_path / "far").mkdir()
    profile = tmp_path / "far" / "a.yaml"
    profile.write_text(f"log_folder: {written}\npython: {written}\n")
    cluster = load_cluster("far/a.yaml", tmp_path)
    assert cluster.log_folder == log_folder.format(folder=profile.parent)
    assert cluster.python == python.format(folder=profile.parent)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_profile_loads_and_names_no_account(path: Path):
    """Every example profile can be loaded, has no account, and has a GPU with a known peak."""
    cluster = load_cluster(path.name, path.parent)
    assert cluster.account is None
    peak = cluster.peak_tflops("fp16")
    assert peak is not None
    assert peak.value is not None


@pytest.mark.parametrize(
    ("text", "has_gpus"),
    [("gpus_per_node: 0", False), ("gpus_per_node: 4", True), ("nodes: 2", True)],
)
def test_a_cluster_without_a_number_of_gpus_has_some(tmp_path: Path, text: str, has_gpus: bool):
    """A cluster has GPUs unless its profile contains `gpus_per_node: 0`."""
    (tmp_path / "a.yaml").write_text(text)
    assert load_cluster("a.yaml", tmp_path).has_gpus is has_gpus


@pytest.mark.parametrize(
    ("profile", "precision", "device", "peak"),
    [
        ({"gpu": "V100-SXM2-32GB"}, "fp16", None, 125),
        ({"gpu": "V100-SXM2-32GB"}, "bf16", None, None),
        ({"gpu": "V100"}, "fp16", "Tesla V100-PCIE-32GB", 112),
        ({"gpu": "A100"}, "bf16", "NVIDIA A100-SXM-64GB", None),
        ({"gpu": "A100", "gpu_peak_tflops": {"bf16": 300}}, "bf16", "NVIDIA A100-SXM-64GB", 300),
        ({"gpu": "A100", "gpu_peak_tflops": {"bf16": 300}}, "fp16", None, 312),
        ({"gpu_peak_tflops": {"bf16": 300}}, "bf16", None, 300),
    ],
)
def test_the_peak_is_the_profile_s_or_that_of_the_gpu_in_the_log(
    profile: dict[str, Any], precision: str, device: str | None, peak: float | None
):
    """The peak is the one that the profile gives. Otherwise it is the peak of the GPU in the log.

    If the log names no GPU, it is the peak of the profile's GPU. The peak is None if the GPU is
    unknown, or if its name may mean GPUs with different peaks.
    """
    figure = Cluster(name="a", **profile).peak_tflops(precision, device)
    assert figure is not None
    assert figure.value == peak
    assert figure.explanation


@pytest.mark.parametrize(
    ("profile", "device"),
    [({}, None), ({"gpu": "A100"}, "cpu"), ({"gpu": "A100", "gpus_per_node": 0}, None)],
)
def test_without_a_named_gpu_the_peak_is_unknown(profile: dict[str, Any], device: str | None):
    """The peak is None if the profile names no GPU, or if the run used the CPU."""
    assert Cluster(name="a", **profile).peak_tflops("fp16", device) is None


def test_a_profile_may_have_a_name_of_its_own(tmp_path: Path):
    """A profile may contain a `name` that differs from the name of its file."""
    (tmp_path / "v100-big.yaml").write_text("name: v100\n")
    assert load_cluster(str(tmp_path / "v100-big.yaml"), Path("/elsewhere")).name == "v100"


REFUSED = {
    "an unknown key": ("patition: gpu\n", [": unknown key 'patition'; did you mean 'partition'?"]),
    "several": (
        "nodes: 0\ngpus_per_node: '4'\nmodules: cuda\nscheduler: pbs\nname: ''\n",
        [
            ": name: '' is empty; give a value",
            ": nodes: 0 is too small; the minimum is 1",
            ": gpus_per_node: '4' is text; write the whole number 4 without quotes",
            ": modules: 'cuda' is not a list; write it as [a, b]",
            ": scheduler: 'pbs' is not one of local, slurm",
        ],
    ),
    "a peak of nothing": (
        "gpu_peak_tflops: {fp8: 1000, bf16: 0}\ngpu_memory_gib: 0\n",
        [
            ": gpu_peak_tflops.fp8: 'fp8' is not one of fp32, bf16, fp16",
            ": gpu_peak_tflops.bf16: 0 is too small; it must be more than 0",
            ": gpu_memory_gib: 0 is too small; it must be more than 0",
        ],
    ),
    "a key without a value": ("qos:\n", [": qos: has no value"]),
    "no mapping": ("- nodes\n", [": a cluster profile must be a mapping"]),
    "what Slurm would not take": (
        "memory: lots\nswitches: one\nsignal: usr2 @ 90\ntime_limit: soon\n",
        [
            ": memory: 'lots' is not a valid amount of memory; write e.g. 160G or 160000M",
            (
                ": switches: 'one' is not a valid number of switches; write e.g. '1', or "
                "1@2:00:00 to "
                "wait at most 2 hours"
            ),
            (
                ": signal: 'usr2 @ 90' is not a valid signal; write e.g. USR2@90, or B:USR2@90 "
                "to send it "
                "only to the job's shell"
            ),
            ": time_limit: 'soon'",
        ],
    ),
    "what sbatch would refuse": (
        "gpu_type: 'gpu:a100'\nnice: 9999999999\nmail_type: end\nexclusive: group\n",
        [
            ": gpu_type: 'gpu:a100' is not a valid type of GPU in Slurm's form; write e.g. a100",
            ": nice: 9999999999 is too large; the maximum is 2147483645",
            ": mail_type: 'end' is not a valid list of events; write e.g. END,FAIL; choose from",
            ": exclusive:",
        ],
    ),
    "memory of a node and of a GPU": (
        "memory: 160G\nmemory_per_gpu: 40G\n",
        [": memory, memory_per_gpu: give only one of them"],
    ),
    "numbers where Slurm takes more than numbers": (
        "memory: 160\nswitches: 1\nsignal: 10\n",
        [
            f": {key} is not text; put it in quotes"
            for key in ("memory: 160", "switches: 1", "signal: 10")
        ],
    ),
    "a line break": ('setup: ["a\\nb"]\n', [": setup: 'a\\nb' contains a control character"]),
}


@pytest.mark.parametrize(("text", "problems"), REFUSED.values(), ids=REFUSED)
def test_a_profile_that_does_not_fit_is_refused(tmp_path: Path, text: str, problems: list[str]):
    """All problems of the profile are reported at once, each with the file."""
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_cluster("a.yaml", tmp_path)
    assert len(caught.value.problems) == len(problems)
    for sentence, expected in zip(caught.value.problems, problems, strict=True):
        assert sentence.startswith(f"{path}{expected}")


INSTEAD = "; give a file's name, or 'local' for this machine"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("v100", "; profiles in this folder: a100.yml, v100.yaml; did you mean 'v100.yaml'?"),
        ("v10O.yaml", "; profiles in this folder: a100.yml, v100.yaml; did you mean 'v100.yaml'?"),
        ("jz", f"; profiles in this folder: a100.yml, v100.yaml{INSTEAD}"),
        ("", f"; profiles in this folder: a100.yml, v100.yaml{INSTEAD}"),
        ("Local", "; profiles in this folder: a100.yml, v100.yaml; did you mean 'local'?"),
        (
            "more/h200.yaml",
            "; profiles in this folder: more/h100.yaml; did you mean 'more/h100.yaml'?",
        ),
        ("nothing/v100.yaml", INSTEAD),
    ],
)
def test_the_message_lists_existing_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: str
):
    """The message about a missing profile lists the paths of the profiles in the searched folder.

    It lists no campaign file.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more").mkdir()
    (tmp_path / "nothing").mkdir()
    for file in ("v100.yaml", "a100.yml", "more/h100.yaml"):
        (tmp_path / file).write_text("gpus_per_node: 4\n")
    (tmp_path / "campaign.yaml").write_text("name: a\ncluster: v100\n")
    (tmp_path / "broken.yaml").write_text("{")
    with pytest.raises(UserError) as caught:
        load_cluster(name, Path())
    (problems,) = caught.value.problems
    folder = tmp_path / Path(name).parent
    assert problems == f"cluster {name!r}: there is no such profile file in {folder}{hint}"


@pytest.mark.parametrize("name", ["missing.yaml", "", ".", ".."])
def test_a_cluster_without_a_file_is_named(tmp_path: Path, name: str):
    """If the file of a profile does not exist or is a folder, a message reports that."""
    with pytest.raises(UserError, match=r"there is no such profile file in .*; give a file's name"):
        load_cluster(name, tmp_path)
