"""What demitasse asks of the machine it runs on: files, the terminal, processors. No torch."""
