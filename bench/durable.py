#!/usr/bin/env python3
"""What durability costs: QoS 1 from persistent session to persistent session, with every broker keeping what it acknowledges.

    cargo build --release -p tidegate -p tidegate-torture
    bench/durable.py [--broker NAME[=COMMAND]]... [--rounds 3] [--recovery]

Prints a row for what the disk allows (batches as large as what is in flight, each followed by fdatasync), and one per broker, in
alternating rounds, as medians. Brokers by name: tidegate, mosquitto, mosquitto-each-second, nats (JetStream, `sync_interval:
always`), or NAME=COMMAND with {port} and {data}. With --recovery, measures instead how long a start takes with 1,000,000
retained messages and with 100,000 sessions that hold 10 messages each.

While subscribers are there, a broker may acknowledge a message that everybody has acknowledged without having stored it; with --away
every message has to be on the disk before its PUBACK.

Linux only; the folder (--folder, by default below target/) must be on the disk that is meant. `docs/durability-tests.md`
keeps results with machine and commit.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFAULTS = ["tidegate", "mosquitto", "mosquitto-each-second", "nats"]
COLUMNS = [
    ("messages/s", "messages_per_second", 0),
    ("cores", "broker_cores", 2),
    ("messages/s per core", "messages_per_core_second", 0),
    ("PUBACK p50 ms", "puback_p50_ms", 2),
    ("PUBACK p99 ms", "puback_p99_ms", 2),
    ("delivery p50 ms", "delivery_p50_ms", 2),
    ("delivery p99 ms", "delivery_p99_ms", 2),
]
RECOVERY = [
    ("1,000,000 retained messages", ["--retained", "1000000"]),
    ("100,000 sessions with 10 messages each", ["--sessions", "100000", "--queued", "10"]),
]


def rig(arguments, broker, words):
    """Runs the rig once and gives its figures; None when the broker could not be measured, which is said on standard error."""
    folder = pathlib.Path(arguments.folder) / f"durable-{broker.split('=')[0]}"
    subprocess.run(["rm", "-rf", folder], check=True)
    command = broker.partition("=")[2] or broker
    if broker == "tidegate":
        command = f"{arguments.tidegate} --listen 127.0.0.1:{{port}} --admin off --data {{data}} {arguments.flags}"
    result = subprocess.run(
        [arguments.rig, "--folder", folder, "--broker", command, *words], capture_output=True, text=True, check=False
    )
    subprocess.run(["rm", "-rf", folder], check=True)
    if result.returncode != 0:
        print(f"{broker}: {result.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(result.stdout)


def median(rounds, key):
    return statistics.median(figures[key] for figures in rounds)


def throughput(arguments):
    load = ["--pairs", arguments.pairs, "--window", arguments.window, "--payload", arguments.payload, "--seconds", arguments.seconds]
    if arguments.rate:
        load += ["--rate", arguments.rate]
    if arguments.away:
        load.append("--away")
    in_flight = int(arguments.pairs) * int(arguments.window)
    # What a message takes in a journal: its payload, its topic, and what finds it again.
    record = int(arguments.payload) + 64
    raw = ["raw-limit", "--batch", str(in_flight), "--record", str(record), "--seconds", arguments.seconds]
    rows = {"raw limit": []} | {broker: [] for broker in arguments.broker}
    for number in range(arguments.rounds):
        for name, rounds in rows.items():
            print(f"round {number + 1}: {name}", file=sys.stderr)
            figures = rig(arguments, name, raw if name == "raw limit" else ["throughput", *load])
            if figures:
                rounds.append(figures)
    limit = median(rows["raw limit"], "records_per_second")
    syncs = median(rows["raw limit"], "syncs_per_second")
    print(f"in flight {in_flight}, payload {arguments.payload} bytes, {arguments.rounds} rounds of {arguments.seconds} s, medians")
    print(f"raw limit: {limit:,.0f} records of {record} bytes per second in {syncs:,.0f} syncs\n")
    print("| broker | " + " | ".join(title for title, _, _ in COLUMNS) + " | of the raw limit |")
    print("| --- |" + " ---: |" * (len(COLUMNS) + 1))
    for broker, rounds in list(rows.items())[1:]:
        if rounds:
            cells = [f"{median(rounds, key):,.{digits}f}" for _, key, digits in COLUMNS]
            share = median(rounds, "messages_per_second") / limit
            print(f"| {broker.split('=')[0]} | " + " | ".join(cells) + f" | {share:.2f} |")


def recovery(arguments):
    print("| broker | holds | ended by | start ms | RSS MiB before | RSS MiB after | folder MiB | sample found |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | --- |")
    for broker in arguments.broker:
        for title, words in RECOVERY:
            for ending in ([], ["--kill"]):
                figures = rig(arguments, broker, ["recovery", *words, *ending])
                if not figures:
                    continue
                found = figures["retained_found"] if "--retained" in words else figures["queues_found"]
                cells = [figures[key] for key in ("ended_by", "start_ms", "resident_mib_before", "resident_mib_after", "folder_mib")]
                print(f"| {broker.split('=')[0]} | {title} | " + " | ".join(map(str, cells)) + f" | {found} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", action="append", help="may be given several times")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recovery", action="store_true")
    parser.add_argument("--pairs", default="16")
    parser.add_argument("--window", default="32")
    parser.add_argument("--payload", default="64")
    parser.add_argument("--seconds", default="8")
    parser.add_argument("--rate", help="messages per second; as many as possible when absent")
    parser.add_argument("--away", action="store_true", help="subscribers are away, so that every message has to be stored")
    parser.add_argument("--folder", default=str(ROOT / "target"))
    parser.add_argument("--flags", default="", help="more flags for tidegate, such as '--set queue.max_messages=1000000'")
    parser.add_argument("--rig", default=str(ROOT / "target" / "release" / "tidegate-torture"))
    parser.add_argument("--tidegate", default=str(ROOT / "target" / "release" / "tidegate"))
    arguments = parser.parse_args()
    arguments.broker = arguments.broker or DEFAULTS
    recovery(arguments) if arguments.recovery else throughput(arguments)


if __name__ == "__main__":
    main()
