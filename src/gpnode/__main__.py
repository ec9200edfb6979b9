"""``python -m gpnode`` is the command line."""

from .cli import main

main()
