"""One module per program: the formats of its log lines, and functions that make records of them."""
