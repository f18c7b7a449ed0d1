"""Find what contradicts itself in the tables of a page."""
