"""Programs that runs start, e.g. trainings and checks; they import no other part of teralog."""
