"""`edgex upgrade-check`: the same models exported by two environments, and what is not the same."""
