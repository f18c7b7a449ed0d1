"""Decompress logs: gzip by isal, Zstandard by zstandard, xz and bzip2 by the standard library.

A file may be several compressed files in a row. If its bytes end too early or are damaged, the
readable part is used, and a sentence reports the problem. Memory is limited, even if a few bytes
decompress to a huge amount.
"""

import bz2
import lzma
from collections.abc import Callable, Iterator
from typing import ClassVar, cast

import zstandard
from isal import igzip_lib, isal_zlib

GZIP_MAGIC = b"\x1f\x8b\x08"  # with the only method there is
ZSTANDARD_MAGIC = b"\x28\xb5\x2f\xfd"
XZ_MAGIC = b"\xfd7zXZ\0"
BZIP2_MAGIC = b"BZh"

# If the compressed bytes are damaged, up to this many bytes of output are lost.
_OUTPUT_BYTES = 2**14
# The stubs call isal's class of exceptions an exception.
_DAMAGED = (
    cast("type[Exception]", isal_zlib.error),
    zstandard.ZstdError,
    lzma.LZMAError,
    OSError,  # of bz2
    EOFError,
)


class _GzipMember:
    input_bytes = 2**17

    def __init__(self) -> None:
        self._decoder = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)

    def decompress(self, data: bytes) -> bytes:
        return self._decoder.decompress(data, _OUTPUT_BYTES)

    @property
    def wants_input(self) -> bool:
        return self._decoder.needs_input

    @property
    def rest(self) -> bytes | None:
        """The bytes after this compressed part of the file; None until the part's end was read."""
        return self._decoder.unused_data if self._decoder.eof else None


class _ZstandardFrame:
    # zstandard takes no limit on its output, and four bytes can encode a block of 128 KiB.
    input_bytes = 2**10
    wants_input = True

    def __init__(self) -> None:
        self._decoder = zstandard.ZstdDecompressor().decompressobj()

    def decompress(self, data: bytes) -> bytes:
        return self._decoder.decompress(data)

    @property
    def rest(self) -> bytes | None:
        return self._decoder.unused_data if self._decoder.eof else None


class _StandardStream:
    """Decompresses with a module of the standard library: xz or bzip2."""

    input_bytes = 2**17
    decoder: ClassVar[type[lzma.LZMADecompressor] | type[bz2.BZ2Decompressor]]

    def __init__(self) -> None:
        self._decoder = self.decoder()

    def decompress(self, data: bytes) -> bytes:
        return self._decoder.decompress(data, _OUTPUT_BYTES)

    @property
    def wants_input(self) -> bool:
        return self._decoder.needs_input

    @property
    def rest(self) -> bytes | None:
        return self._decoder.unused_data if self._decoder.eof else None


class _XzStream(_StandardStream):
    decoder = lzma.LZMADecompressor


class _Bzip2Stream(_StandardStream):
    decoder = bz2.BZ2Decompressor


_Member = type[_GzipMember] | type[_ZstandardFrame] | type[_StandardStream]
_MEMBERS: tuple[tuple[bytes, _Member], ...] = (
    (GZIP_MAGIC, _GzipMember),
    (ZSTANDARD_MAGIC, _ZstandardFrame),
    (XZ_MAGIC, _XzStream),
    (BZIP2_MAGIC, _Bzip2Stream),
)
MAGIC_BYTES = max(len(magic) for magic, _ in _MEMBERS)


def compression(head: bytes) -> _Member | None:
    """Return the class that decompresses a file beginning with `head`; None if not compressed."""
    return next((member for magic, member in _MEMBERS if head.startswith(magic)), None)


def decompressed(
    member: _Member, read: Callable[[memoryview], int], notes: list[str]
) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file.

    member: makes a decompressor for each compressed part of the file.
    read: reads compressed bytes into a buffer.
    notes: a list to which a text such as "is cut off: ..." is added, if the bytes are damaged or
    end too early.
    """
    pieces = _pieces(read, member.input_bytes)
    data = next(pieces, b"")
    while data:
        decoder = member()
        while (rest := decoder.rest) is None:
            try:
                output = decoder.decompress(data)
            except _DAMAGED:
                notes.append("is damaged: its compressed data cannot be read to the end")
                return
            if output:
                yield output
            data = b""
            if decoder.rest is None and decoder.wants_input and not (data := next(pieces, b"")):
                notes.append("is cut off: its compressed data stops before its end")
                return
        # Zeros may follow the last member: some programs fill up a block with them.
        data = rest.lstrip(b"\0")
        while not data and (piece := next(pieces, b"")):
            data = piece.lstrip(b"\0")


def _pieces(read: Callable[[memoryview], int], size: int) -> Iterator[bytes]:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while count := read(view):
        yield bytes(view[:count])
