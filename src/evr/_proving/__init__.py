"""From a claim to its proof: choose a road, then verify; what a proved curve says about attackers."""
