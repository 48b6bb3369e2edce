"""Leaves: numbers, files and errors that every room uses."""
