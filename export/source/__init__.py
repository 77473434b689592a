"""The user's model: found by name, imported, checked, and run in eager PyTorch."""
