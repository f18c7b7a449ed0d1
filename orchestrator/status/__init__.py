"""Show the state and progress of a campaign's runs."""
