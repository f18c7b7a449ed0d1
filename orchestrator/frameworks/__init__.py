"""The training programs that teralog can run, each one value in one table."""
