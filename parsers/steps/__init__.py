"""Step reports: as columns, merged across formats, with seconds and means."""
