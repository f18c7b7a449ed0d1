"""Whether a version is one that a requirement allows, after PEP 440."""

import re
from dataclasses import dataclass

# <1.6
_CLAUSE = re.compile(r"\s*(?P<operator>~=|==|!=|<=|>=|<|>)\s*(?P<bound>[^\s*]+?)(?P<any>\.\*)?\s*")
# 1!2.0rc1.post2.dev3+cpu: epoch, release, pre-release, post-release, development, local
_VERSION = re.compile(
    r"(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)(?:(?P<stage>a|b|rc)(?P<pre>\d+))?"
    r"(?:\.post(?P<post>\d+))?(?:\.dev(?P<dev>\d+))?(?:\+[a-z0-9.]+)?"
)
_STAGES = {"a": 0, "b": 1, "rc": 2}


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version in the order of PEP 440, without its local part.

    `pre` puts a bare development release before every pre-release, and these before the release;
    `dev` puts every development release before what it leads to.
    """

    epoch: int
    release: tuple[int, ...]
    pre: tuple[int, int]
    post: int
    dev: tuple[int, int]

    @classmethod
    def parse(cls, text: str) -> "Version | None":
        """Read a version in its normal form; None where it is none."""
        match = _VERSION.fullmatch(text)
        if match is None:
            return None
        release = [int(part) for part in match["release"].split(".")]
        while len(release) > 1 and release[-1] == 0:
            release.pop()
        pre = (3, 0)
        if match["stage"]:
            pre = (_STAGES[match["stage"]], int(match["pre"]))
        elif match["dev"] and not match["post"]:
            pre = (-1, 0)
        return cls(
            epoch=int(match["epoch"] or 0),
            release=tuple(release),
            pre=pre,
            post=int(match["post"]) + 1 if match["post"] else 0,
            dev=(0, int(match["dev"])) if match["dev"] else (1, 0),
        )

    @property
    def is_prerelease(self) -> bool:
        """Whether it leads to a release, as rc1 or dev2."""
        return self.pre != (3, 0) or self.dev != (1, 0)

    def same_release(self, other: "Version") -> bool:
        """Say whether both belong to one release, whatever follows its numbers."""
        return (self.epoch, self.release) == (other.epoch, other.release)

    def starts_with(self, epoch: int, numbers: tuple[int, ...]) -> bool:
        """Say whether the release's numbers, with zeros behind them, begin with `numbers`."""
        padded = self.release + (0,) * (len(numbers) - len(self.release))
        return self.epoch == epoch and padded[: len(numbers)] == numbers


def satisfies(version: str, specifier: str) -> bool:
    """Say whether a version is within a specifier such as `<1.6,>=1.5.4`, as `pip check` does.

    Pre-releases count as any other version. A version or a clause that PEP 440's normal form does
    not know is not within. Source: PEP 440, "Version specifiers"; `===` is not read.
    """
    candidate = Version.parse(version)
    clauses = [clause for clause in specifier.split(",") if clause.strip()]
    return candidate is not None and all(_within(candidate, clause) for clause in clauses)


def _within(version: Version, clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    bound = Version.parse(match["bound"]) if match else None
    if match is None or bound is None:
        return False
    # The numbers as written: 1.0.* is narrower than 1.*, though 1.0 equals 1.
    numbers = _numbers(match["bound"])
    match match["operator"]:
        case ">=":
            return version >= bound
        case "<=":
            return version <= bound
        case ">":
            is_its_post = version.post and not bound.post and version.same_release(bound)
            return version > bound and not is_its_post
        case "<":
            leads_to_it = (
                version.is_prerelease and not bound.is_prerelease and version.same_release(bound)
            )
            return version < bound and not leads_to_it
        case "~=":
            same_series = len(numbers) > 1 and version.starts_with(bound.epoch, numbers[:-1])
            return version >= bound and same_series
    equal = version.starts_with(bound.epoch, numbers) if match["any"] else version == bound
    return equal if match["operator"] == "==" else not equal


def _numbers(text: str) -> tuple[int, ...]:
    match = _VERSION.fullmatch(text)
    return tuple(int(part) for part in match["release"].split(".")) if match else ()
