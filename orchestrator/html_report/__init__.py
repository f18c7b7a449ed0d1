"""The page of a campaign: what it shows, as values, and the files that show it in a browser."""
