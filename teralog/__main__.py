"""Run the command line: `python -m teralog`, and what the script `teralog` calls."""

from teralog._own_packages import claim_names

claim_names()

from orchestrator.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
