"""The command ``gpnode``: loading what it needs takes seconds, in which Ctrl-C should end it quietly, too."""

from __future__ import annotations

import signal


def main() -> None:
    """Run :func:`gpnode.cli.main`."""
    # While modules load, Python's own handler ends in a traceback, or is lost in an extension's code.
    python_handles = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if python_handles:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gpnode.cli import main as run

    if python_handles:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
