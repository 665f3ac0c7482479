"""`python -m demitasse` is the command line."""

from demitasse.cli.app import main

main()
