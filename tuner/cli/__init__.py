"""The command line: argument parsing and wiring, nothing else."""

from tuner.cli.app import main

__all__ = ["main"]
