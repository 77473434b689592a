"""Places to run: this process, a fresh one, this machine without Python, a Linux machine, a phone."""
