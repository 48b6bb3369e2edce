"""Certificates: the model, its JSON, replay, attestations."""
