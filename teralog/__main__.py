"""Run the command line: for `python -m teralog`, and for the script `teralog`."""

from teralog._own_packages import claim_names

claim_names()

from orchestrator.cli.main import main  # noqa: E402

if __name__ == "__main__":
    main()
