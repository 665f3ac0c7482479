"""Rows read from files and tables, training examples made of them and sampled in batches, vectors written. No torch."""
