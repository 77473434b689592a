"""Commands that run or show an artifact: run, verify, inspect."""
