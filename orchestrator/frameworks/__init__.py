"""Define the training programs that teralog can run, and their table `FRAMEWORKS`."""
