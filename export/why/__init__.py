"""What each target takes of a model and what it leaves, and why: answered without lowering weights."""
