"""The layout of `results/`: folders of campaigns and runs, and the records in them."""
