"""Runs the benchmarks, all or the named ones, and prints their results as a table in Markdown."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import core, fanout, flip, gpus, idle, kubernetes, memory, poll, scaling, startup
from benchmarks.common import Row, table

BENCHMARKS = {
    module.__name__.rpartition(".")[2]: module
    for module in (fanout, flip, scaling, poll, idle, memory, startup, core, kubernetes, gpus)
}


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="\n".join(f"{name}: {module.__doc__}" for name, module in BENCHMARKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few repeats: to see that it works")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; all where none is named")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    rows: list[tuple[str, Row]] = []
    for name in arguments.names or BENCHMARKS:
        began_at = time.monotonic()
        rows += [(name, row) for row in BENCHMARKS[name].measure(quick=arguments.quick)]
        print(f"{name}: {time.monotonic() - began_at:.0f} s", file=sys.stderr, flush=True)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
