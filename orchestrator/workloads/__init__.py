"""Stand-alone training programs that really run; each needs nothing else of this project."""
