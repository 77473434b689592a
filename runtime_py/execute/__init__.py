"""Artifacts elsewhere: on a phone, on a Linux box, or here without Python (`--device`)."""
