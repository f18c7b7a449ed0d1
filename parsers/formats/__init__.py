"""One module per program: what its log lines look like, and the records they become."""
