"""Training programs that really run, and a rehearsal's; they need nothing outside this folder."""
