"""Ask the training programs of a campaign whether they accept their arguments."""
