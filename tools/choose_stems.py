"""Choose the stems that the log reader searches for, and write them to parsers/scan/stems.py.

    python tools/choose_stems.py FILE... && ruff format parsers

Run this if tests/parsers/test_anchors.py asks for it, after you added formats or signs of an
outcome. The files are logs of as many programs as possible, and other text that may be in logs. A
compressed file is not unpacked. Each file is repeated or cut to 100 KB. It takes some minutes.

A stem is a part of an anchor, or a whole anchor; see parsers/scan/anchors.py. The search takes
longer in two cases: if a stem is on a line, Python looks at this line. If other text is like the
first four bytes of a stem, Teddy compares the whole stem. So:

* Stems are chosen one by one. The next stem is the cheapest one, for each further anchor that
  contains it. The price is the time that the stem would take in the files, and a fixed price that
  keeps the number of passes small.
* With AVX2, Teddy puts the strings of a pass into 16 buckets: the string with number n into bucket
  n % 16, unless all its lower bits are those of an earlier string, which it then joins.
  Four bytes fit a bucket if, for each of them, the upper four bits are those of one string in the
  bucket, and the lower four bits are those of one, maybe of another one. So each stem is put into
  the bucket for which this adds the fewest places of the files.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parsers.formats.table import ALL_FORMATS
from parsers.runs.splitting import MARKS
from parsers.scan.anchors import COMPARED
from parsers.scan.reader import LineReader

STEMS_FILE = Path(__file__).parent.parent / "parsers" / "scan" / "stems.py"
BYTES_OF_A_FILE = 100_000
# The length of a piece of the files in bytes, and how many pieces are enough to choose the buckets.
PIECE, PIECES = 1_000, 500
BUCKETS, MOST_IN_A_PASS = 16, 64
# Longer stems are hardly rarer, but fewer anchors share them. Shorter ones are often in other text.
SHORTEST, LONGEST = 5, 12
# Measured in nanoseconds; the cost of a stem is per byte of a log.
NS_PER_MATCH, NS_PER_ANCHOR, NS_PER_PLACE, NS_PER_STEM = 500, 200, 40, 0.006

HEADER = '''"""The stems of anchors that the log reader searches for; see `parsers.scan.anchors`.

Written by tools/choose_stems.py.
"""

STEMS: tuple[tuple[bytes, ...], ...] = (
'''

Bytes = NDArray[np.uint8]


def main() -> None:
    """Choose stems by the files given on the command line, and write them."""
    files = [Path(name).read_bytes() for name in sys.argv[1:]]
    if not all(files) or not files:
        sys.exit(f"usage: {sys.argv[0]} FILE...\nThe files must not be empty.")
    texts = [(text * -(-BYTES_OF_A_FILE // len(text)))[:BYTES_OF_A_FILE] for text in files]
    text = b"\n".join(texts)
    stems = choose(anchors(), text)
    passes = group(stems, text)
    lines = [
        line
        for strings in passes
        for line in ("    (", *(f"        {string!r}," for string in strings), "    ),")
    ]
    STEMS_FILE.write_text(HEADER + "\n".join([*lines, ")", ""]), encoding="utf-8")
    print(f"{len(stems)} stems in {len(passes)} passes for {len(anchors())} anchors")


def anchors() -> list[bytes]:
    """Return the anchors that stems are chosen for.

    Shorter anchors cannot be searched for together with others.
    """
    wanted = LineReader(ALL_FORMATS, more_anchors=MARKS).wanted.search.anchors
    return [anchor for anchor in wanted if len(anchor) >= COMPARED]


def choose(wanted: list[bytes], text: bytes) -> list[bytes]:
    """Return stems, so that each anchor contains one of them; those that cost most first."""
    sharing: dict[bytes, set[bytes]] = defaultdict(set)
    for anchor in wanted:
        sharing[anchor].add(anchor)
        for length in range(SHORTEST, LONGEST + 1):
            for begin in range(len(anchor) - length + 1):
                sharing[anchor[begin : begin + length]].add(anchor)
    frequent = _starts(text)
    costs = {
        part: _cost(part, len(sharing[part] - {part}), text) if part[:COMPARED] in frequent else 0
        for part in sharing
    }
    stems, left = [], set(wanted)
    while left:
        stem = min(
            (part for part in sharing if not left.isdisjoint(sharing[part])),
            key=lambda part: (
                (costs[part] + NS_PER_STEM) / len(sharing[part] & left),
                -len(part),
                part,
            ),
        )
        stems.append(stem)
        left -= sharing[stem]
    stems.sort(key=costs.__getitem__, reverse=True)
    for stem in [*stems]:
        others = set().union(*(sharing[other] for other in stems if other != stem))
        if sharing[stem] <= others:
            stems.remove(stem)
    return stems


def _starts(text: bytes) -> set[bytes]:
    """Return all parts of a text that are as long as Teddy compares."""
    return {text[at : at + COMPARED] for at in range(len(text))}


def _cost(part: bytes, others: int, text: bytes) -> float:
    """Return how long a search for a part of anchors takes, in nanoseconds per byte of the text.

    others: how many longer anchors contain the part; a line with the part is searched for each.
    """
    places, matches = text.count(part[:COMPARED]), text.count(part)
    per_match = NS_PER_MATCH + NS_PER_ANCHOR * others
    return (NS_PER_PLACE * places + per_match * matches) / len(text)


@dataclass
class Bucket:
    """Some stems, and the halves of bytes that they begin with.

    lower and upper: for each compared byte, the set of its lower and upper four bits, as one bit
    per number. places: how many places of a text fit.
    """

    stems: list[bytes] = field(default_factory=list)
    lower: list[int] = field(default_factory=lambda: [0] * COMPARED)
    upper: list[int] = field(default_factory=lambda: [0] * COMPARED)
    places: int = 0

    def with_stem(self, stem: bytes, text: Bytes) -> "Bucket":
        """Return the bucket with a further stem."""
        start = stem[:COMPARED]
        lower = [bits | 1 << (byte & 15) for bits, byte in zip(self.lower, start, strict=True)]
        upper = [bits | 1 << (byte >> 4) for bits, byte in zip(self.upper, start, strict=True)]
        return Bucket([*self.stems, stem], lower, upper, _places(lower, upper, text))


def _places(lower: list[int], upper: list[int], text: Bytes) -> int:
    """Return how many places of a text fit a bucket."""
    byte = np.arange(256)
    at = np.arange(len(text) - COMPARED + 1)
    for number, (low, high) in enumerate(zip(lower, upper, strict=True)):
        fits = (low >> (byte & 15) & high >> (byte >> 4) & 1).astype(bool)
        at = at[fits[text[at + number]]]
    return len(at)


def group(stems: list[bytes], text: bytes) -> list[list[bytes]]:
    """Return the stems of each pass, in the order in which Teddy puts them into good buckets.

    Buckets that many places fit are put into one pass: a pass is hardly slower for many of them
    than for one.
    """
    step = max(PIECE, len(text) // PIECES)
    pieces = (text[at : at + PIECE] for at in range(0, len(text), step))
    sample = np.frombuffer(b"".join(pieces), np.uint8)
    buckets: list[Bucket] = []
    count = -(-len(stems) // MOST_IN_A_PASS) * BUCKETS
    rows = len(stems) // count
    for number, stem in enumerate(stems):
        most = rows if number < rows * count else rows + 1
        options = [
            ((joined := bucket.with_stem(stem, sample)).places - bucket.places, at, joined)
            for at, bucket in enumerate(buckets)
            if len(bucket.stems) < most
        ]
        if len(buckets) < count:
            alone = Bucket().with_stem(stem, sample)
            options.append((alone.places, len(buckets), alone))
        _, at, joined = min(options, key=lambda option: option[:2])
        buckets[at : at + 1] = [joined]  # replaces a bucket, or adds one
    buckets.sort(key=lambda bucket: -bucket.places)
    passes = []
    for begin in range(0, len(buckets), BUCKETS):
        some = sorted(buckets[begin : begin + BUCKETS], key=lambda bucket: -len(bucket.stems))
        passes.append(
            [
                bucket.stems[row]
                for row in range(rows + 1)
                for bucket in some
                if row < len(bucket.stems)
            ]
        )
    return passes


if __name__ == "__main__":
    main()
