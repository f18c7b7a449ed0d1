"""Start a module in one of teralog's processes: `python -m teralog._start MODULE ARGUMENT…`."""

import sys

from teralog._own_packages import run_module

if __name__ == "__main__":
    del sys.argv[0]
    run_module(sys.argv[0])
