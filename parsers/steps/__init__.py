"""Step reports: in blocks, merged across formats, with seconds and means."""
