"""Start a rank of the program `orchestrator.workloads.hf_gpt`: `python -m teralog.hf_gpt`."""

from teralog._own_packages import run_module

if __name__ == "__main__":
    run_module("orchestrator.workloads.hf_gpt")
