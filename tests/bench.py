"""Measure what the README claims. Each benchmark prints a table and, as its last line, one JSON object.

    python tests/bench.py PART [options]   # -h after the name

Compare only numbers of one call: it measures the sides in turn, on the same machine.
"""

import importlib
import sys
from functools import partial
from pathlib import Path

NAMES = ("generate", "vllm", "train", "sandbox", "options", "stop", "bodies")


def main():
    words = sys.argv[1:]
    if not words or words[0] not in NAMES:
        print(__doc__)
        sys.exit(0 if words in ([], ["-h"], ["--help"]) else 2)
    tests = Path(__file__).resolve().parent
    sys.path[:0] = [str(tests.parent), str(tests)]
    sys.argv[0] = f"bench.py {words[0]}"  # argparse's name of the program
    part = importlib.import_module(f"bench_{words[0]}")
    importlib.import_module("common").entry(partial(part.main, words[1:]), "nothing is kept")


if __name__ == "__main__":
    main()
