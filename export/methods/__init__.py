"""Artifacts with several methods: what they cannot have, and how each of their methods is proved."""
