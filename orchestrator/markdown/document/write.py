"""Replace the bytes of a file, and keep its mode, its owner and the links to it."""

import contextlib
import os
import stat
from pathlib import Path

from orchestrator.common.files import replacing


def overwrite(path: Path, data: bytes) -> None:
    """Replace the content of a file by `data`, completely or not at all.

    A reader of the file sees either the old or the new bytes. A symbolic link stays a link. The
    mode of the file is kept, and also its owner if this process may set the owner. If the
    function raises OSError, the file still has the old bytes, and no temporary file is left.
    """
    real = path.resolve(strict=True)
    before = real.stat()
    # At first, only the owner may read the temporary file. Path.open has no argument `opener`.
    with replacing(real) as temporary, open(temporary, "xb", opener=_open_private) as file:
        file.write(data)
        file.flush()
        with contextlib.suppress(PermissionError):
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
        os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
        os.fsync(file.fileno())


def _open_private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
