"""Plugins of this project."""
