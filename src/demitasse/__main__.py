"""`python -m demitasse` is the command line."""

from demitasse.cli import main

main()
