"""What a guarantee rests on: pairs, events, strict proofs, samples and verdicts."""
