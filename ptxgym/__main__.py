"""``python -m ptxgym`` is the command line."""

from ptxgym.cli import main

main()
