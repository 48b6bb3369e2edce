"""Events and certificates in words."""
