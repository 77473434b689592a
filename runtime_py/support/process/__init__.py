"""Python children: how they are started, asked and ended."""
