"""Other people's libraries: each integration is one file, to be imported by its name."""
