"""What a model keeps in Python: found, watched while eager runs, and put back after a trace."""
