"""Step 1 of EVR in floats: near-exact curves, and what to draw samples from. All of it may be wrong without harm."""
