"""Split a log into runs, and decide how each one ended."""
