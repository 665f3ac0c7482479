"""An index of texts: build, add, delete, search."""
