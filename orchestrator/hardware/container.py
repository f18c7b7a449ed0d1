"""The container of a cluster profile: its image, its mounts, and the runtime that starts it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.functional_validators import AfterValidator

from orchestrator.common.paths import absolute, unset_in
from orchestrator.common.validation import mapping_problems

_OF_SRUN = ("pyxis", "uenv")
_PATH = re.compile(r"[/~$.]|.*\.(sif|sqsh|squashfs|toml|img)$")
# Options of srun that teralog sets if the profile has the key `container`.
_OPTION = re.compile(r"--(container-image|container-mounts|container-workdir|environment)(=|$)")


def _image(value: str) -> str:
    if not value or value != value.strip() or value.startswith("-"):
        raise ValueError(f"{value!r} is not an image; write a name, e.g. pytorch.sif, or a path")
    return value


def _mounts(mounts: list[str]) -> list[str]:
    for mount in mounts:
        source, *rest = mount.split(":")
        target, flags = [*rest, "", ""][:2] if rest else (source, "")
        problem = f"{mount!r} is not a mount; write it as /data, /data:/target or /data:/target:ro"
        if not source or len(rest) > 2 or "," in mount:
            raise ValueError(problem)
        if rest and not target.startswith("/"):
            raise ValueError(f"{mount!r}: the target {target!r} is not an absolute path; {problem}")
        if flags not in {"", "ro", "rw"}:
            raise ValueError(f"{mount!r}: {flags!r} is neither ro nor rw")
    return mounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The container in which a run's launchers and ranks run.

    image: a file, or the name of an image, in the form that the runtime needs. For uenv it is the
    definition of an environment: a .toml file, or the name of an environment.
    mounts: SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro (or rw). A run's folder is always mounted.
    runtime: the program that starts the container. `pyxis` and `uenv` work through options of srun;
    the other runtimes are commands that start each task.
    """

    image: Annotated[
        str,
        AfterValidator(_image),
        Field(
            description="File or name of the image, e.g. pytorch.sif; for uenv, a .toml file "
            "or the name of an environment."
        ),
    ]
    runtime: Annotated[
        Literal["pyxis", "apptainer", "singularity", "uenv", "podman-hpc"],
        Field(
            description="Program that runs the container; pyxis and uenv work through "
            "options of srun."
        ),
    ]
    mounts: Annotated[
        Annotated[list[str], AfterValidator(_mounts)] | None,
        Field(
            description="Folders to mount: SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro, one per item."
        ),
    ] = None


def container_problems(container: Any, profile: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of a profile's key `container`."""
    if not isinstance(container, Mapping):
        yield (
            f"container: {container!r} is not a mapping; write it as "
            "{image: pytorch.sif, runtime: apptainer}"
        )
        return
    yield from mapping_problems("container", Container, container)
    runtime = container.get("runtime")
    if runtime in _OF_SRUN and profile.get("scheduler", "slurm") != "slurm":
        yield f"container.runtime: {runtime} works only with Slurm; without Slurm, use apptainer"
    if runtime == "uenv" and container.get("mounts"):
        yield "container.mounts: does not work with uenv; write `mounts` into its .toml file"
    options = profile.get("srun")
    for line in options if isinstance(options, list) else ():
        if problem := option_problem(line):
            yield f"srun: {problem}"


def option_problem(line: object) -> str | None:
    """Return why an option of srun contradicts the container of a profile; None if it does not."""
    match = _OPTION.match(line) if isinstance(line, str) else None
    return (
        match
        and f"--{match[1]}: the key `container` of the cluster profile sets this option "
        "too; remove one of them"
    )


def located(container: Container, folder: Path) -> Container:
    """Return a container with absolute paths for its image and mounts, if they are paths.

    folder: the folder of the profile, to which paths are relative.
    """
    image = container.image
    if _PATH.match(image) and "://" not in image and "#" not in image:
        image = _absolute(image, folder)
    return replace(
        container, image=image, mounts=[_mount(mount, folder) for mount in container.mounts or ()]
    )


def unset_in_container(container: Container) -> Iterator[str]:
    """Yield a sentence for each unset environment variable in the paths of a container."""
    yield from unset_in("container.image", container.image)
    for mount in container.mounts or ():
        yield from unset_in("container.mounts", mount.partition(":")[0])


def _mount(mount: str, folder: Path) -> str:
    """Return a mount as SOURCE:TARGET, with an absolute source.

    The target may be followed by `:ro` or `:rw`. A mount without a target gets the path of its
    source.
    """
    source, _, target = mount.partition(":")
    source = _absolute(source, folder)
    return f"{source}:{target or source}"


def _absolute(path: str, folder: Path) -> str:
    return path if any(unset_in("", path)) else absolute(path, folder)
