"""Other people's libraries: each integration is one file, and is imported only by who asks for it."""
