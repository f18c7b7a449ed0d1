"""Reserve free ports until Slurm's daemons listen on them."""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice

# Outgoing connections use higher ports, and job scripts use ports from 20000 for training.
_PORTS = range(10_000, 20_000)


@contextmanager
def reserved_ports(count: int) -> Iterator[tuple[int, ...]]:
    """Reserve `count` free ports of 127.0.0.1 for a `with` block, and yield them.

    A socket is bound to each port without SO_REUSEADDR. If another program uses the port, this
    fails, and the next port is tried. Then SO_REUSEADDR is set on the socket. From then on,
    programs that set SO_REUSEADDR, e.g. Slurm's daemons, can listen at the port. Other calls of
    this function, and programs without SO_REUSEADDR, cannot use the port.
    """
    with ExitStack() as stack:
        yield tuple(islice(_free_ports(stack), count))


def _free_ports(stack: ExitStack) -> Iterator[int]:
    for port in _PORTS:
        bound = stack.enter_context(socket.socket())
        try:
            bound.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise
            bound.close()
            continue
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield port
