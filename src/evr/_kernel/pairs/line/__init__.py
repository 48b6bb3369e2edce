"""Laws on a line: dominating pairs whose privacy loss is monotone in one coordinate."""
