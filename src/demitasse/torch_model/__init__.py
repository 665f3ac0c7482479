"""The encoder on torch, for models that are fitted, trained or exported."""
