"""Containers and mounts of cluster profiles: which are refused, and how paths are read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.campaign.campaign import Campaign
from orchestrator.common.errors import UserError
from orchestrator.hardware.cluster import Cluster, load_cluster, unset_paths

REFUSED = {
    "container: pytorch.sif": "container: 'pytorch.sif' is not a mapping; write it as {image: ",
    "container: {runtime: pyxis}": "container: the key 'image' is missing",
    "container: {image: a.sif}": "container: the key 'runtime' is missing",
    "container: {image: a, runtime: docker}": "container.runtime: 'docker' is not one of pyxis, ",
    "container: {image: a, runtime: pyxi}": "; did you mean 'pyxis'?",
    "container: {image: '', runtime: pyxis}": "container.image: '' is not an image",
    "container: {image: --help, runtime: pyxis}": "container.image: '--help' is not an image",
    'container: {image: "a\\nb", runtime: pyxis}': "'a\\nb' contains a control character",
    "container: {image: a, runtime: pyxis, mount: [/a]}": "unknown key 'mount'",
    "container: {image: a, runtime: pyxis, mounts: /a}": "container.mounts: '/a' is not a list",
    "container: {image: a, runtime: pyxis, mounts: ['/a,/b']}": "'/a,/b' is not a mount; write",
    "container: {image: a, runtime: pyxis, mounts: ['/a:b']}": "'b' is not an absolute path",
    "container: {image: a, runtime: pyxis, mounts: ['/a:/b:rx']}": "'rx' is neither ro nor rw",
    "container: {image: a, runtime: pyxis, mounts: ['/a:/b:ro:x']}": "is not a mount; write it",
    "container: {image: a, runtime: uenv, mounts: [/a]}": "write `mounts` into its .toml file",
    "scheduler: local\ncontainer: {image: a, runtime: uenv}": "works only with Slurm; without",
    "container: {image: a, runtime: pyxis}\nsrun: [--container-image=b]": (
        "srun: --container-image: the key `container` of the cluster profile sets this option "
        "too; remove one of them"
    ),
    "binding: cores": "binding: 'cores' is not one of none, numa, custom",
    "binding: custom": "`binding: custom` needs a command",
    "binding: custom\nbinding_command: []": "binding_command: ",
    "binding_command: [./bind.sh]": "binding_command: needs `binding: custom`; add it",
}


@pytest.mark.parametrize(("text", "sentence"), REFUSED.items())
def test_profile_with_a_wrong_container_or_binding_is_refused(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "there.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        load_cluster("there.yaml", tmp_path)
    assert any(sentence in problem for problem in caught.value.problems), caught.value.problems


def loaded(folder: Path, text: str) -> Cluster:
    """Write a cluster profile with this text, and return its cluster."""
    (folder / "there.yaml").write_text(text)
    return load_cluster("there.yaml", folder)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("pytorch.sif", "{folder}/pytorch.sif"),
        ("./pytorch", "{folder}/pytorch"),
        ("/images/pytorch.sqsh", "/images/pytorch.sqsh"),
        ("$IMAGES/a.sif", "/images/a.sif"),
        ("env.toml", "{folder}/env.toml"),
        ("pytorch", "pytorch"),
        ("nvcr.io#nvidia/pytorch:25.01-py3", "nvcr.io#nvidia/pytorch:25.01-py3"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io/nvidia/pytorch:25.01-py3"),
        ("docker://nvcr.io/nvidia/pytorch:25.01-py3", "docker://nvcr.io/nvidia/pytorch:25.01-py3"),
        ("oras://host/a.sif", "oras://host/a.sif"),
    ],
)
def test_image_that_is_a_path_is_relative_to_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str, expected: str
) -> None:
    """If a container's image is a path, it is relative to the profile.

    If the image is a name, e.g. docker://…, the name stays unchanged.
    """
    monkeypatch.setenv("IMAGES", "/images")
    cluster = loaded(tmp_path, f"container: {{image: '{image}', runtime: apptainer}}")
    assert cluster.container is not None
    assert cluster.container.image == expected.format(folder=tmp_path)


def test_source_of_a_mount_is_a_path_and_its_target_the_same_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORK", "/work/me")
    monkeypatch.delenv("ABSENT", raising=False)
    mounts = "[$WORK, 'data:/data', /a:/b:ro, $ABSENT/c]"
    cluster = loaded(tmp_path, f"container: {{image: a, runtime: pyxis, mounts: {mounts}}}")
    assert cluster.container is not None
    assert cluster.container.mounts == [
        "/work/me:/work/me",
        f"{tmp_path}/data:/data",
        "/a:/b:ro",
        "$ABSENT/c:$ABSENT/c",
    ]
    assert [*unset_paths(cluster)] == [
        (
            "container.mounts: the variable $ABSENT in $ABSENT/c is not set here; set it, or write "
            "the whole path"
        )
    ]


def test_python_of_scripts_is_that_of_the_image_if_there_is_one(tmp_path: Path) -> None:
    """In a container, scripts use the image's Python, because teralog's own is not in the image."""
    in_container = loaded(tmp_path, "container: {image: a, runtime: pyxis}")
    assert in_container.script_python == "python3"
    assert loaded(tmp_path, "python: python3.9").script_python == "python3.9"


def test_runs_option_that_contradicts_the_container_makes_it_impossible(
    tmp_path: Path, campaign_of: Callable[[str], Campaign]
) -> None:
    """A run is impossible if its srun options give an image but the profile has a container."""
    (tmp_path / "there.yaml").write_text("container: {image: a, runtime: pyxis}\n")
    campaign = campaign_of(
        f"name: c\ncluster: {tmp_path}/there.yaml\n"
        "defaults: {framework: gpt, model: s, srun: [--container-image=b]}\n"
    )
    [problem] = campaign.runs[0].problems
    assert (
        "--container-image: the key `container` of the cluster profile sets this option too"
        in problem
    )
