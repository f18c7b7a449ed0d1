"""Plan training benchmarks, start them, and turn their logs into tables."""
