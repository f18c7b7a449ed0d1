"""Describe models by their layers, and count their parameters and FLOPs."""
