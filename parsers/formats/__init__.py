"""One module per program: the form of its log lines, and the records they become."""
