"""Edit a copy of an exported program: what all rewrites stand on."""
