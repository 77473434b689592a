"""Render a profile for people and for tools."""
