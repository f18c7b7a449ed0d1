"""Find contradictions in the tables of a page."""
