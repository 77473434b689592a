"""Whether memory holds an export, and what lies on disk where it does not."""
