"""Where the `edgex` command begins: it imports nothing before it can answer Ctrl-C, and imports take a tenth second."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; interrupted before that has begun, say so as it does."""
    try:
        from edgex.cli.main import main as run

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left takes no time
        from edgex.cli.main import end_interrupted

        end_interrupted(sys.argv[1:])
