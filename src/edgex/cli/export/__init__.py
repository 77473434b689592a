"""Commands that make something of a model or an artifact: export, why, android, bundle."""
