"""What a run is, how it is started, what its numbers mean and what the reader sees."""
