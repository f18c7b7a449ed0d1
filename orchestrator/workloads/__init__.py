"""Training programs that really run, and a rehearsal's; they need nothing else of this project."""
