"""What users meet in logs, a file for each engine: plain data. To add a message, add an `Entry`."""
