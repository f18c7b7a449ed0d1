"""Start a rank of the program `orchestrator.workloads.gpt`: `python -m teralog.gpt`."""

from teralog._own_packages import run_module

if __name__ == "__main__":
    run_module("orchestrator.workloads.gpt")
