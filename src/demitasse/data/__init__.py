"""Training data: examples read from files and lists, checked, and sampled in batches. No torch."""
