"""What every cut costs and is worth on this machine, and the best one within a budget. No torch."""
