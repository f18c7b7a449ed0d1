"""The markdown itself: tables, rows, headings, and writing them back unchanged."""
