"""Tables in markdown pages that people wrote."""
