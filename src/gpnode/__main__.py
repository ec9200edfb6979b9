"""``python -m gpnode`` is the command line."""

from gpnode.cli import main

main()
