"""Recompute the TFLOPs column of the tables of a page."""
