"""The second road: tilted proposals with proved bounds, blocks of samples, a test by betting."""
