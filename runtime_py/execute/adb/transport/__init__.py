"""The user's own `adb`: its server, its devices and its commands."""
