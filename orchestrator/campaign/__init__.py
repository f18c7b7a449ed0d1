"""Turn a campaign file into planned runs, with the problems and forecasts of each."""
