"""`edgex sweep`: models times targets, precisions, recipes and devices; each is a job, and its end a row."""
