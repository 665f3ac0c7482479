"""Training data: rows read from files and lists, checked, and drawn in batches. No torch."""
