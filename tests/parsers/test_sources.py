"""Check that a log gives the same bytes in any form of storage, e.g. compressed."""

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from reports import OWN_STEP

from parsers.formats.table import ALL_FORMATS
from parsers.runs.reading import read
from parsers.scan.reader import read_records
from parsers.scan.sources import LogPath, open_source

LOG = "".join(f"noise\n{OWN_STEP.format(number)}" for number in range(1, 21)).encode()

Pack = Callable[[bytes], bytes]


def zstd(data: bytes) -> bytes:
    """Compress bytes to a single zstd frame."""
    return zstandard.ZstdCompressor().compress(data)


PACKS: dict[str, Pack] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstandard": zstd,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "several xz streams": lambda data: lzma.compress(data[:500]) + lzma.compress(data[500:]),
    "several bzip2 streams": lambda data: bz2.compress(data[:500]) + bz2.compress(data[500:]),
    "several gzip members": lambda data: gzip.compress(data[:500]) + gzip.compress(data[500:]),
    "several zstandard frames": lambda data: zstd(data[:500]) + zstd(data[500:]),
    "gzip, filled up with zeros": lambda data: gzip.compress(data) + bytes(10_000),
    "zstandard, filled up with zeros": lambda data: zstd(data) + bytes(10_000),
}


def plain(log: LogPath, piece: int = 2**16) -> tuple[bytes, list[str]]:
    """Return the decompressed bytes of a log, and the notes about its problems.

    piece: how many bytes are read at a time.
    """
    content = bytearray()
    view = memoryview(bytearray(piece))
    with open_source(log) as source:
        while count := source.read(view):
            content += view[:count]
        return bytes(content), source.notes


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
@given(data=st.binary(max_size=2000), piece=st.integers(1, 3000))
def test_compressed_bytes_are_restored(pack: Pack, data: bytes, piece: int) -> None:
    """Compressed logs give the original bytes, read in pieces of any size."""
    assert plain(io.BytesIO(pack(b"x" + data)), piece) == (b"x" + data, [])


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_a_compressed_log_is_read_the_same_with_any_ending(tmp_path: Path, pack: Pack) -> None:
    """A compressed log with any file ending gives the records of the uncompressed log.

    Offsets and line numbers are those of the uncompressed log.
    """
    (tmp_path / "plain").write_bytes(LOG)
    (tmp_path / "packed.txt").write_bytes(pack(LOG))
    (expected,) = read(tmp_path / "plain")
    (runs,) = read(tmp_path / "packed.txt")
    assert runs.segments == expected.segments
    assert len(runs.steps) == 20
    assert runs.outcome is not None
    assert runs.outcome.line == 40


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_standard_input_gives_the_same_records(tmp_path: Path, pack: Pack) -> None:
    """A log that is read from standard input gives the same records as a file.

    The log on standard input is compressed or not.
    """
    (tmp_path / "log").write_bytes(LOG)
    code = "from parsers.runs.reading import read; print(repr(read('-')[0].segments))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pack(LOG), capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode().strip() == repr(read(tmp_path / "log")[0].segments)


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_the_beginning_of_a_truncated_log_counts(tmp_path: Path, pack: Pack) -> None:
    """If a compressed log is cut off, its beginning is read, and a note reports the cut."""
    noise = bytes(range(33, 127)) * 50_000
    packed = pack(LOG + noise)
    log = tmp_path / "log"
    log.write_bytes(packed[: len(packed) * 2 // 3])
    (run,) = read(log)
    assert len(run.steps) == 20
    assert run.notes == ("is cut off: its compressed data stops before its end",)


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_the_beginning_of_a_damaged_log_counts(pack: Pack) -> None:
    """If invalid bytes follow the compressed data of a log, the compressed data is still read.

    A note reports the damage.
    """
    text, notes = plain(io.BytesIO(pack(LOG) + b"no member at all"))
    assert text == LOG
    assert notes == ["is damaged: its compressed data cannot be read to the end"]


def test_a_damaged_log_loses_few_lines(tmp_path: Path) -> None:
    """A compressed log with a wrong checksum still gives all its steps.

    If no bytes can be decompressed, a note reports damage, and not an empty log.
    """
    packed = bytearray(gzip.compress(LOG + bytes(range(33, 127)) * 1000))
    packed[-6] ^= 255
    log = tmp_path / "log"
    log.write_bytes(packed)
    (run,) = read(log)
    assert len(run.steps) == 20
    log.write_bytes(gzip.compress(LOG)[:10] + b"\xff" * 100)
    (nothing,) = read(log)
    assert nothing.notes == ("is damaged: its compressed data cannot be read to the end",)


@pytest.mark.parametrize("magic", [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"])
@given(data=st.binary(max_size=200))
def test_bytes_that_only_begin_like_compressed_data_get_a_message(
    magic: bytes, data: bytes
) -> None:
    """A file that only begins like compressed data gives no bytes, and a message explains why."""
    _, notes = plain(io.BytesIO(magic + data))
    assert len(notes) <= 1


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor(level=19).compress])
def test_memory_stays_bounded_for_highly_compressed_logs(pack: Pack) -> None:
    """Reading a few KiB that decompress to hundreds of MiB needs little memory."""
    packed = pack(bytes(2**28))
    assert len(packed) < 2**20
    view = memoryview(bytearray(2**20))
    size = 0
    tracemalloc.start()
    with open_source(io.BytesIO(packed)) as source:
        while count := source.read(view):
            size += count
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 2**28
    assert peak < 100 * 2**20


def test_other_compression_is_read_as_it_is(tmp_path: Path) -> None:
    """A file with unknown compression counts as a binary file without records."""
    log = tmp_path / "log.Z"
    log.write_bytes(b"\x1f\x9d" + zlib.compress(LOG))
    assert list(read_records(log, ())) == []
    assert plain(log)[0] == log.read_bytes()


def test_reading_may_begin_anywhere_in_plain_and_in_packed_bytes(tmp_path: Path) -> None:
    """Reading may begin at the offset of any record, in a plain and in a compressed log.

    The offset is in decompressed bytes.
    """
    for pack in PACKS.values():
        log = tmp_path / "log"
        log.write_bytes(pack(LOG))
        whole = list(read_records(log, ALL_FORMATS))
        rest = list(read_records(log, ALL_FORMATS, start=whole[7].offset))
        assert rest == whole[7:]


@pytest.mark.parametrize("piece", [1, 2**16])
def test_the_output_of_a_container_is_read_from_the_file_of_docker(
    tmp_path: Path, piece: int
) -> None:
    """Of each line of Docker's file, only the text is read. A line that is not JSON stays."""
    texts = ["\r 1%| 1/10 [00:01<00:09]\n", "x" * 100_000, 'a "b"\n', OWN_STEP.format(7)]
    lines = [
        json.dumps({"log": text, "stream": "stdout", "time": "t"}, separators=(",", ":"))
        for text in texts
    ]
    path = tmp_path / "log"
    path.write_text("\n".join([*lines[:3], "{torn", lines[3]]))
    content, notes = plain(path, piece)
    expected = "".join([*texts[:3], "{torn\n", texts[3]])
    assert (content.decode(), notes) == (expected, [])
    assert [step.iteration for run in read(path) for step in run.steps] == [7]
