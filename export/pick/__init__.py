"""`edgex pick`: every combination of target, precision and recipe, proved, judged and timed; the best is kept."""
