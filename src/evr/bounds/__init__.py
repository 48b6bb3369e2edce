"""What is proved without a sample: moments and greatest values as finite sums, strict proofs, filters."""
