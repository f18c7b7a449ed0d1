"""Log bytes to records: what a training program's log says, with the place where it says so."""
