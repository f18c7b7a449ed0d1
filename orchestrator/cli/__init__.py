"""The command line: parse options, call one function, print what it returns."""
