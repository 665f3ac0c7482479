"""The training loop, Elastic's two stages, and exits fitted in closed form."""
