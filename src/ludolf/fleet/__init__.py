"""Run one prompt over many items: a driver, worker processes, and a folder that can be resumed."""
