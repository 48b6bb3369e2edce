"""Tests of schemes in many dimensions; a package, for a benchmark has the same name."""
