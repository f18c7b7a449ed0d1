"""The training programs that teralog can run, each a value in one table."""
