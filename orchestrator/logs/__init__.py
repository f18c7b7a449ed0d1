"""Read any training logs without a campaign: what `teralog parse` does."""
