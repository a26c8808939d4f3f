"""`ludolf serve`: many sessions and many clients in one process."""
