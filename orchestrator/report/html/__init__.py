"""Write a report as one HTML page, with plots and a view of every run."""
