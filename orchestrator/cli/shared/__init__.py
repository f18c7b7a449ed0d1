"""Options, output and campaigns, as several commands need them."""
