"""Linux machines as devices: this one without Python, or another over OpenSSH."""
