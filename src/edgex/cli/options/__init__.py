"""How options are declared: grouped and explained in --help, completed by the shell, with defaults from a file."""
