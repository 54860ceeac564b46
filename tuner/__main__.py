"""`python -m tuner` is `gemm-tuner`; here it starts, and here Ctrl-C is quiet while the imports go on."""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130


def main() -> None:
    """Run the command line. Ctrl-C before it is there ends the process at once: nothing was begun."""
    attentive = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # it may be ignored, as by nohup
    if attentive:
        signal.signal(signal.SIGINT, _leave)
    from tuner.cli import main as run

    try:
        if attentive:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


def _leave(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
