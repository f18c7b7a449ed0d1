"""List Megatron's releases with recorded options, and parse the names that users write for them."""

import re
from collections.abc import Collection, Iterable, Iterator

_MAIN = "main"
RECORDED = ("0.12", "0.13", "0.14", "0.15", "0.16", "0.17", "0.18", "0.19", _MAIN)
# The versions in lists for users.
VERSIONS = ["2", "core", *(f"core-{release}" for release in RECORDED)]
_LAST_THAT_LOWERS = (0, 8)
# e.g. core-0.16, core_v0.17.1, core_r0.16.0, 0.16, core-main
_RELEASE = re.compile(r"(?:core[-_ ]?)?[vr]?(\d+\.\d+)(?:\.\d+)?(?:rc\d+)?")


def checked_version(version: str) -> str:
    """Return `version` unchanged; raise ValueError if the text does not name a Megatron version."""
    record_name(version)
    return version


def record_name(version: str) -> str:
    """Return the name of the record that contains the options of a version of Megatron.

    version: as users write it, e.g. `2`, `core` or `core-0.16`. If this version has no record,
        the result is the record of the nearest release. For a version above all recorded
        releases, it is the record of the main branch.
    Raises ValueError if the text does not name a version.
    """
    if version in ("2", "core"):
        return {"2": "megatron-lm-2.4", "core": "megatron-lm-core-main"}[version]
    if version.removeprefix("core-") in (_MAIN, "head", "dev"):
        return f"megatron-lm-core-{_MAIN}"
    match = _RELEASE.fullmatch(version)
    if match is None or _number(match[1])[0] != 0:
        raise ValueError(
            f"{version!r} is not a version of Megatron; write 2, core, or a release such as "
            f"core-{RECORDED[-2]}"
        )
    wanted = _number(match[1])
    if wanted > _number(RECORDED[-2]):
        return f"megatron-lm-core-{_MAIN}"
    nearest = min(RECORDED[:-1], key=lambda release: abs(_number(release)[1] - wanted[1]))
    return f"megatron-lm-core-{nearest}"


def lowers_parallel_sizes(version: str) -> bool:
    """Return whether a version's parser lowers parallel sizes that are too large for the ranks.

    The parsers of Megatron 2.x and of Megatron core up to 0.8 lower them. Later parsers refuse
    sizes that are too large.
    """
    match = _RELEASE.fullmatch(version)
    return version == "2" or (match is not None and _number(match[1]) <= _LAST_THAT_LOWERS)


# The first release of core whose hybrid models have layers of this letter.
_LAYERS_SINCE = {"E": ((0, 16), "layers of experts"), "G": ((0, 17), "gated delta nets")}
# Earlier releases have another name for the option with the pattern of layers.
_LAYER_PATTERN = (0, 17)


def hybrid_arguments(groups: Iterable[list[str]], version: str) -> Iterator[list[str]]:
    """Yield the arguments that build a hybrid model, with the option names of one release.

    groups: each option with its values, with the option names of the newest release.
    version: the release, e.g. `core-0.16`.
    """
    named = _core_number(version) < _LAYER_PATTERN
    for words in groups:
        if named and words[0] == "--hybrid-layer-pattern":
            yield ["--is-hybrid-model", "--hybrid-override-pattern", *words[1:]]
        else:
            yield words


def hybrid_problems(letters: Collection[str], version: str) -> Iterator[str]:
    """Yield a problem for each kind of layer that a release cannot build in hybrid models.

    letters: the kinds of layers in the model, in Megatron's letters, e.g. E for experts.
    """
    for letter, (since, layers) in _LAYERS_SINCE.items():
        if letter in letters and _core_number(version) < since:
            first = ".".join(map(str, since))
            yield (
                f"version={version} has no {layers} in hybrid models; use version=core-{first} or "
                "later"
            )


def _core_number(version: str) -> tuple[int, int]:
    """Return the number of a release of Megatron core as two integers, e.g. (0, 16) for core-0.16.

    For the main branch, return a number above all releases.
    """
    match = _RELEASE.fullmatch(version)
    return _number(match[1]) if match else (10**6, 0)


def _number(release: str) -> tuple[int, int]:
    major, minor = release.split(".")
    return int(major), int(minor)
