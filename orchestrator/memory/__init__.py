"""Forecast the memory that each rank of a run needs."""
