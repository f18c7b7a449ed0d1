"""Compare runs with statistics: verdicts, noise, change over time."""
