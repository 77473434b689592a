"""Open, run, verify and profile artifacts; needs no exporter and no delegate."""
