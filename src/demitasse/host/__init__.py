"""What demitasse needs from the machine it runs on: files, the terminal, processors. No torch."""
