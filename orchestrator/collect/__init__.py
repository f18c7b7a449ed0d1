"""Read the logs of a campaign's runs, and decide how each run ended."""
