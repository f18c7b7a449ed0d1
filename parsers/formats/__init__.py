"""One module per program, with the formats of its log lines and how to make records of them."""
