"""Step 3 of EVR: let out what was verified, and count every attempt."""
