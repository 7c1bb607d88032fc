"""What the README claims, measured: each benchmark prints a table for people and, last, one JSON object.

    python tests/bench.py generate|train|sandbox|math|report|pool|curve [options]   (-h after the name: its options)

Ratios only mean something inside one run of one of these: the sides are interleaved on the same machine.
"""

import importlib
import sys
from pathlib import Path

NAMES = ("generate", "train", "sandbox", "math", "report", "pool", "curve")


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in ([], ["-h"], ["--help"]) else 2)
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]
    importlib.import_module(f"bench_{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
