"""What every cut scores and costs on this machine, and the best one within a budget. No torch."""
