"""Build the report of a campaign: its columns, tables and files."""
