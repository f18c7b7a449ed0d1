"""Find the lines of a log that a format can read, fast, in any kind of file."""
