"""Pictures, and the page of a certificate."""
