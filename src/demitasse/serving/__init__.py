"""The server: requests of different cuts in one batch, and depth by load."""
