"""Figures, and the page of a certificate."""
