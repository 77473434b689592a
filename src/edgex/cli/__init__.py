"""The command line: one module a command; nothing heavy is imported before a command needs it."""
