"""Core AI as an engine: its local runtime runs an `.aimodel` on Linux and macOS, on the CPU."""
