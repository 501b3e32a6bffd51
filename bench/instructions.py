#!/usr/bin/env python3
"""Instructions that a message takes in the engine alone, of one or more builds side by side.

Counts of instructions repeat to a tenth of a percent on a busy machine, where times do not. Needs valgrind.

    cargo bench -p tidegate-engine --bench messages --no-run     # prints the path of the program
    bench/instructions.py before=PATH after=PATH
"""

import argparse
import re
import subprocess
import sys
import tempfile

SCENARIOS = [
    "one to one",
    "one to one hundred",
    "fifty pairs",
    "wildcard, 50 to 20",
    "one to one, QoS 1",
    "fifty pairs, QoS 1",
    "fifty pairs, QoS 2",
    "fifty pairs, 2 shards",
    "fifty pairs, QoS 1, 2 shards",
    "fifty pairs, QoS 1, reject",
    "queued, QoS 1",
    "orchestrator, one to one",
    "orchestrator, one to one, QoS 1",
    "orchestrator, fifty pairs",
    "orchestrator, fifty pairs, QoS 1",
    "orchestrator, 50 bursts",
    "orchestrator, 50 bursts, QoS 1",
    "orchestrator, 2 shards, fifty pairs",
    "orchestrator, 2 shards, fifty pairs, QoS 1",
    "orchestrator, 2 shards, 50 bursts",
    "orchestrator, 2 shards, 50 bursts, QoS 1",
]


def count(program: str, scenario: str) -> int:
    """Instructions of a whole run of one scenario."""
    with tempfile.NamedTemporaryFile() as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", program, scenario]
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=True)
        except FileNotFoundError:
            sys.exit("bench/instructions.py: valgrind is not installed")
        except subprocess.CalledProcessError as error:
            sys.exit(f"bench/instructions.py: {program} failed: {error.stderr.strip().splitlines()[-1]}")
    found = re.search(r"Collected : (\d+)", run.stderr)
    if not found or scenario not in run.stdout:
        sys.exit(f"bench/instructions.py: {program} has no scenario {scenario!r}")
    return int(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="NAME=PATH", help="a built benchmark; the first is the base of the ratios")
    parser.add_argument("--only", help="the name of one scenario")
    arguments = parser.parse_args()
    programs = [named.partition("=")[::2] for named in arguments.programs]
    if not all(path for _, path in programs):
        parser.error("a program is given as NAME=PATH")
    print("| scenario | " + " | ".join(f"{name}, million" for name, _ in programs) + " | ratio |")
    print("| --- |" + " ---: |" * (len(programs) + 1))
    for scenario in [arguments.only] if arguments.only else SCENARIOS:
        counts = [count(path, scenario) for _, path in programs]
        ratio = f"{counts[-1] / counts[0]:.3f}"
        print(f"| {scenario} | " + " | ".join(f"{n / 1e6:.1f}" for n in counts) + f" | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
