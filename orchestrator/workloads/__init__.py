"""Programs that runs start, e.g. trainings and checks; they import nothing else of teralog."""
