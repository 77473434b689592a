"""What of the library is written for one model: its Kotlin class, and the README with ten lines for an existing app."""
