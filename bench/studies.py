#!/usr/bin/env python3
"""Runs the studies of docs/studies.md by the lab, and writes their tables. Python's standard library only.

    bench/studies.py run STUDY... --out DIR     make the runs of pi, lavva, middleware, contextnet, suite (or `all`, `first`, `quiet`)
    bench/studies.py tables DIR                 print the tables of what is in DIR
    bench/studies.py write DIR                  put them into docs/studies.md, between its marks

`quiet/pi-barrier` is one step of a study. What is in DIR already is not run again. `--short` is a tenth of the time; `first` and `quiet` are choices of runs that fit into
a quarter of an hour and into 20 minutes of an otherwise idle machine.
"""
import argparse
import collections
import csv
import json
import math
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BROKERS = ["tidegate", "mosquitto"]
MANY = BROKERS + ["nats", "mochi", "aedes", "rumqttd", "rabbitmq", "hivemq", "artemis"]
PROTOCOLS = ["tidegate", "mosquitto", "nats:nats", "qpid:amqp1", "rabbitmq:amqp", "artemis:amqp1", "kafka", "nexus", "mercure", "zeromq"]
CLUSTERS = [f"tidegate-cluster{bus}-{nodes}" for bus in ("", "-kafka") for nodes in (1, 2, 3)]
FIVE = [*BROKERS, "nats", "mochi", "rabbitmq"]
GATEWAYS = ["gateways", "gateways-nats", "gateways-kafka"]
# An address has about 28,000 ports, of which those of the run before wait for a minute.
STRESS = ["--source", "127.0.0.2", "--source", "127.0.0.3", "--source", "127.0.0.4"]

# Name of the folder, scenario, peers, time scale, scale when short, further arguments.
Order = collections.namedtuple("Order", "study folder scenario peers scale short args")
ORDERS = [
    Order("pi", "pi-ladder", "pi-ladder", BROKERS, 1.0, 0.02, []),
    Order("pi", "pi-ladder-board", "pi-ladder", BROKERS, 1.0, 0.02, ["--board", "raspberry-pi-2"]),
    Order("pi", "pi-barrier", "pi-barrier", [*BROKERS, "mosquitto-poll"], 1.0, 0.5, []),
    Order("pi", "pi-many-to-many", "pi-many-to-many", BROKERS, 1.0, 0.05, []),
    Order("pi", "network", "network", BROKERS, 1.0, 0.2, []),
    Order("lavva", "lavva-1", "lavva-1", BROKERS, 1.0, 0.02, []),
    Order("lavva", "lavva-2", "lavva-2", BROKERS, 1.0, 0.05, []),
    Order("lavva", "lavva-3", "lavva-3", BROKERS, 1.0, 0.02, []),
    Order("lavva", "lavva-4", "lavva-4", BROKERS, 1.0, 0.02, []),
    Order("middleware", "middleware-throughput", "middleware-throughput", MANY, 1.0, 0.1, ["--only", "1024 bytes"]),
    Order("middleware", "middleware-count", "middleware-count", MANY, 1.0, 0.1, ["--only", "QoS 0"]),
    Order("middleware", "middleware-protocols", "middleware-protocols", PROTOCOLS, 1.0, 0.4, []),
    Order("middleware", "middleware-latency", "middleware-latency", MANY, 1.0, 0.2, ["--only", "1000 in a second"]),
    Order("middleware", "middleware-one-second", "middleware-one-second", MANY, 1.0, 1.0, ["--only", "1024 bytes"]),
    Order("middleware", "middleware-scalability", "middleware-scalability", MANY, 1.0, 0.2, []),
    Order("middleware", "middleware-footprint", "middleware-footprint", MANY, 1.0, 0.1, []),
    Order("middleware", "middleware-stress", "middleware-stress", BROKERS, 1.0, 0.15, STRESS),
    Order("middleware", "middleware-patterns", "middleware-patterns", BROKERS, 1.0, 0.2, []),
    Order("middleware", "middleware-pipeline", "middleware-pipeline", BROKERS, 1.0, 0.2, []),
    Order("middleware", "middleware-survey", "middleware-survey", BROKERS, 1.0, 0.2, []),
    Order("middleware", "middleware-criteria", "middleware-criteria", MANY, 1.0, 1.0, []),
    Order("middleware", "middleware-dynamic-subscribers", "middleware-dynamic-subscribers", BROKERS, 1.0, 0.2, []),
    Order("contextnet", "contextnet-inbound", "contextnet-inbound", GATEWAYS, 0.2, 0.04, []),
    Order("contextnet", "contextnet-outbound", "contextnet-outbound", GATEWAYS, 0.5, 0.1, []),
    Order("contextnet", "contextnet-processing", "contextnet-processing", GATEWAYS, 0.5, 0.15, []),
    Order("contextnet", "contextnet-both", "contextnet-both", GATEWAYS, 0.5, 0.25, []),
    Order("contextnet", "contextnet-points", "contextnet-points", ["gateways-managed", "gateways-managed-kafka", "gateways-unmanaged"], 1.0, 0.4, []),
    Order("contextnet", "contextnet-kill", "contextnet-kill", ["gateways-nats", "gateways-kafka"], 1.0, 0.7, []),
    Order("contextnet", "cluster", "cluster", CLUSTERS, 1.0, 0.4, []),
    *(Order("suite", name, name, BROKERS, 1.0, scale, []) for name, scale in [
        ("suite-connection", 0.1), ("suite-fan-out", 0.1), ("suite-point-to-point", 0.15), ("suite-shared", 0.15), ("churn", 0.3),
        ("reconnect-storm", 0.3), ("takeover", 0.4), ("retained-flood", 0.3), ("slow-readers", 0.3), ("kill-restart", 0.5)]),
]
# What fits into 20 minutes of an otherwise idle machine with two cores, the most important first: no step takes two minutes. `first` are the figures
# that one would look at first, in a quarter of an hour.
FIRST = [Order("first", folder, folder, peers, scale, scale, args) for folder, peers, scale, args in [
    ("middleware-throughput", FIVE, 0.2, []),
    ("middleware-latency", FIVE, 0.2, []),
    ("contextnet-inbound", GATEWAYS, 0.02, ["--only", "8: "]),
    ("contextnet-kill", ["gateways-nats", "gateways-kafka"], 0.5, []),
    ("cluster", CLUSTERS, 0.2, []),
    ("lavva-3", ["tidegate-store", *BROKERS], 0.1, ["--only", "1000 devices"]),
    ("pi-ladder", BROKERS, 0.03, []),
]]
QUIET = [Order("quiet", folder, folder, peers, scale, scale, args) for folder, peers, scale, args in [
    ("middleware-protocols", PROTOCOLS, 0.25, []),
    ("lavva-2", BROKERS, 0.04, ["--only", "1000 devices"]),
    ("lavva-4", BROKERS, 0.04, ["--only", "1000 devices"]),
    ("middleware-scalability", FIVE, 0.1, []),
    ("middleware-one-second", FIVE, 1.0, ["--only", "1024 bytes"]),
    ("middleware-footprint", FIVE, 0.1, []),
    ("middleware-stress", BROKERS, 0.15, ["--only", "19,800", *STRESS]),
    ("middleware-count", FIVE, 0.2, ["--only", "QoS 0"]),
    ("pi-barrier", [*BROKERS, "mosquitto-poll"], 0.25, ["--cases", "5"]),
    ("contextnet-outbound", ["gateways"], 0.06, []),
    ("suite-connection", BROKERS, 0.1, []),
    ("suite-fan-out", BROKERS, 0.1, []),
    ("suite-point-to-point", BROKERS, 0.15, []),
    ("suite-shared", BROKERS, 0.15, []),
    ("kill-restart", BROKERS, 0.4, []),
    ("middleware-patterns", BROKERS, 0.2, []),
    ("middleware-pipeline", BROKERS, 0.2, []),
    ("middleware-survey", BROKERS, 0.1, []),
    ("middleware-dynamic-subscribers", BROKERS, 0.2, []),
    ("contextnet-points", ["gateways-managed", "gateways-unmanaged"], 0.2, []),
    ("pi-many-to-many", BROKERS, 0.05, []),
    ("network", BROKERS, 0.05, ["--only", "QoS 1"]),
    ("lavva-1", BROKERS, 0.02, ["--only", "1000 devices"]),
    ("middleware-criteria", FIVE, 1.0, []),
    ("churn", BROKERS, 0.25, []),
    ("reconnect-storm", BROKERS, 0.25, []),
    ("takeover", BROKERS, 0.3, []),
    ("slow-readers", BROKERS, 0.25, []),
    ("retained-flood", BROKERS, 0.25, []),
]]


def speaks_kafka(binary):
    """Whether the binary was built with the feature `kafka`: without it an address of Kafka is refused."""
    refused = [str(binary), "run", "--listen", "127.0.0.1:0", "--admin", "off", "--node", "a", "--bus", "kafka://127.0.0.1:1"]
    with subprocess.Popen(refused, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as broker:
        try:
            broker.wait(3)
        except subprocess.TimeoutExpired:
            broker.kill()
            return True
    return False


def run(args):
    binary = args.binary or ROOT / "target" / "release" / "tidegate"
    wanted = {order.study for order in ORDERS} if "all" in args.study else set(args.study)
    orders = [order for order in ORDERS + FIRST + QUIET if order.study in wanted or f"{order.study}/{order.folder}" in wanted]
    if not orders:
        sys.exit(f"no such study; there are: all, {', '.join(sorted({order.study for order in ORDERS + FIRST + QUIET}))}")
    on_kafka = speaks_kafka(binary)
    end = time.monotonic() + args.minutes * 60 if args.minutes else None
    for order in orders:
        if end and time.monotonic() > end:
            print(f"{order.folder}: not begun, the time is over", flush=True)
            continue
        scale = round(max(0.001, (order.short if args.short else order.scale) * args.factor), 4)
        command = [str(binary), "lab", "run", order.scenario, "--out", str(args.out / order.folder), "--time-scale", str(scale)]
        command += ["--seed", "7", "--repeat", str(args.repeat), "--ports", args.ports, *order.args]
        command += ["--peers", str(args.peers)] if args.peers else []
        for peer in order.peers:
            if "kafka" in peer and peer != "kafka" and not on_kafka:
                print(f"{order.folder}: without {peer}, which takes a binary with the feature kafka", flush=True)
                continue
            command += ["--peer", peer]
        begun = time.monotonic()
        args.out.mkdir(parents=True, exist_ok=True)
        with open(args.out / f"{order.folder}.log", "a", encoding="utf-8") as log:
            left = max(30, end - time.monotonic()) if end else None
            lab = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                status = lab.wait(left)
            except subprocess.TimeoutExpired:
                # The lab then stops its broker, and reports what is finished.
                lab.send_signal(signal.SIGINT)
                lab.wait()
                status = "stopped, the time is over"
        print(f"{order.folder}: {status}, {time.monotonic() - begun:.0f} s", flush=True)


class Results:
    """The runs of one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        with open(folder / "results.csv", encoding="utf-8", newline="") as file:
            self.rows = list(csv.DictReader(file))
        self.peers = []
        for row in self.rows:
            if row["broker"] not in self.peers:
                self.peers.append(row["broker"])
        self.peers.sort(key=lambda name: (not name.startswith(("tidegate", "gateways")), name))
        self.cases = []
        for row in self.rows:
            if row["case"] not in self.cases:
                self.cases.append(row["case"])
        self.cases.sort(key=lambda name: [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)])

    def values(self, case, peer, measure):
        column = next((name for name in self.rows[0] if name == measure or name.startswith(measure + " [")), None)
        rows = [row for row in self.rows if row["case"] == case and row["broker"] == peer]
        valid = [row for row in rows if not row["invalid"]] or rows
        return [float(row[column]) for row in valid if column and row[column] not in ("", None)], bool(rows) and all(row["invalid"] for row in rows)

    def shown(self, case, peer, measure):
        values, invalid = self.values(case, peer, measure)
        return number(statistics.median(values)) + ("†" if invalid else "") if values else "–"

    def runs(self, case, peer):
        found = [run for run in self.data["runs"] if run["case"] == case and run["peer"] == peer]
        return [run for run in found if not run["invalid"]] or found

    def title(self, peer):
        info = self.data["peers"].get(peer, {})
        name = f"{info.get('title', peer)} {info.get('version', '')}".strip().removeprefix("Eclipse ").removeprefix("Apache ").removesuffix(" unknown")
        spoken = {run["spoken"] for run in self.data["runs"] if run["peer"] == peer}
        # Where several protocols are compared, which one it was.
        return f"{name}, {' and '.join(sorted(spoken))}" if len({run["spoken"] for run in self.data["runs"]}) > 1 else name

    def conditions(self):
        environment, settings = self.data["environment"], self.data["settings"]
        runs, scale = settings["repeat"], settings["time_scale"]
        return f"Load average {environment['load_average']:.1f}, time scale {scale:g}, {runs} run{'s' if runs > 1 else ''}."


def number(value):
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - int(math.floor(math.log10(size))))}f}" if size < 100 else f"{value:.0f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def by_case(head, rows, measure=lambda name: name):
    """Cells of `rows`, which are labelled with a case and a measure, as a row for each case whose cells have all measures. A measure with one value is a sentence."""
    cases, measures = list(dict.fromkeys(row[0] for row in rows)), list(dict.fromkeys(row[1] for row in rows))
    cells = {(row[0], row[1]): row[2:] for row in rows}
    same = {}
    for name in measures:
        values = {value.rstrip("†") for case in cases for value in cells[case, name]}
        if len(values) == 1 and len(measures) > len(same) + 1:
            same[name] = values.pop()
    left = [name for name in measures if name not in same]
    if len(cases) == 1:
        made = table([""] + head, [[name, *cells[cases[0], name]] for name in left])
    else:
        joined = [[case, *("; ".join(parts) for parts in zip(*(cells[case, name] for name in left)))] for case in cases]
        made = table(["; ".join(left)] + head, joined)
    return "".join(f"{name}: {value} everywhere. " for name, value in same.items()).strip() + ("\n\n" if same else "") + made


def spread(pairs):
    """Count, mean and standard deviation of pairs of nanoseconds and counts, in milliseconds."""
    count = sum(times for _, times in pairs)
    if not count:
        return 0, 0.0, 0.0
    mean = sum(value * times for value, times in pairs) / count
    variance = sum((value - mean) ** 2 * times for value, times in pairs) / count
    return count, mean / 1e6, math.sqrt(variance) / 1e6


def grid(results, measures, cases=None):
    """A row for each case and measure, a column for each broker."""
    rows = []
    for case in cases or results.cases:
        for measure, unit in measures:
            rows.append([case, unit] + [results.shown(case, peer, measure) for peer in results.peers])
    return by_case([results.title(peer) for peer in results.peers], rows)


def across(head, rows):
    """Rows that begin with a case and a broker: a row for each case, and a column for each broker."""
    brokers = list(dict.fromkeys(row[1] for row in rows))
    found = {(row[0], row[1]): row[2:] for row in rows}
    none = ["–"] * len(head)
    cases = list(dict.fromkeys(row[0] for row in rows))
    return by_case(brokers, [[case, name, *((found.get((case, broker), none)[index] or "–") for broker in brokers)] for case in cases for index, name in enumerate(head)])


def ladder(results):
    rows = [["connections asked for, accepted"], ["deliveries due, received"], ["memory, peak, MiB"], ["CPU, mean, cores"], ["CPU for each delivery, µs"], ["latency p50, p99, ms"], ["connecting, p99, ms"]]
    for peer in results.peers:
        case = results.cases[0]
        run = results.runs(case, peer)[0]
        counts, connections = run["load"]["counts"], run["load"]["connections"]
        get = lambda measure: results.shown(case, peer, measure)
        cells = [f"{connections['dialled']:,}, {connections['accepted']:,}", f"{counts['due']:,}, {counts['received']:,}", get("Broker memory, peak"), get("Broker CPU"),
                 get("Broker CPU per delivery"), f"{get('Latency, median')}, {get('Latency, p99')}", get("Connecting, p99")]
        for row, cell in zip(rows, cells):
            row.append(cell)
    return table([""] + [results.title(peer) for peer in results.peers], rows)


# Of the study at 1,000 devices: drops in 5 minutes, mean latency (ms), and what came in at the broker in MB/s (LAV-12 to LAV-22).
STUDY_LAVVA = {
    ("lavva-2", "QoS 0"): ("882", "70", "1.233"), ("lavva-2", "QoS 1"): ("579", "79", "0.833"),
    ("lavva-3", "QoS 0"): ("303", "96", "1.217"), ("lavva-3", "QoS 1"): ("135", "353", "1.521"),
    ("lavva-4", "QoS 0"): ("178", "184", "1.280"), ("lavva-4", "QoS 1"): ("75", "161", "1.524"),
}


def lavva(results):
    """The platform at 1,000 devices: what customers get, and what each kind of part uses of one instance's limit."""
    rows = []
    for case in [case for case in results.cases if case.startswith("1000")]:
        for peer in results.peers:
            runs = results.runs(case, peer)
            if not runs:
                continue
            load, parts = runs[0]["load"], runs[0]["parts"]
            get = lambda measure: results.shown(case, peer, measure)
            kinds = [[part for part in parts if part["name"].startswith(kind)] for kind in ("broker", "gateway", "bus", "hub")]
            cores = ", ".join(number(max(part["cores"] for part in kind)) for kind in kinds)
            waited = ", ".join(f"{sum(part['throttled'] for part in kind):,}" for kind in kinds)
            rows.append([case.removeprefix("1000 devices, "), results.title(peer), get("Lost in 5 minutes"), f"{load['counts']['late']:,}",
                         f"{get('Latency, mean')}, {get('Latency, p99')}", get("Payload in"), cores, waited])
        study = STUDY_LAVVA.get((results.folder.name, case.split(", ")[1]))
        if study:
            rows.append([case.removeprefix("1000 devices, "), "the study", study[0], "", study[1], study[2], "", ""])
    return table(["", "broker", "lost in 5 minutes", "later than 1 s", "mean, p99, ms", "MB/s", "cores of a broker, gateway, bus server, hub", "waits for CPU"], rows)


def members(results):
    """New and old members of the same topics: when they have what is published."""
    rows = []
    for case in results.cases:
        for peer in results.peers:
            for run in results.runs(case, peer)[:1]:
                mark = "†" if run["invalid"] else ""
                cells = []
                for name in ("old members", "new members"):
                    pairs = next((group["latency"] for group in run["load"]["groups"] if group["name"] == name), [])
                    count, mean, _ = spread(pairs)
                    cells += [number(mean) + mark, number(at(pairs, 0.5)) + mark, number(at(pairs, 0.99)) + mark] if count else ["–"] * 3
                rows.append([case, results.title(peer), *cells, f"{run['load']['counts']['duplicates']:,}"])
    return table(["", "", "old members: mean, ms", "median, ms", "p99, ms", "new members: mean, ms", "median, ms", "p99, ms", "came twice"], rows)


def criteria(results):
    """What probes found, a row for each criterion."""
    found = {peer: [row for run in results.runs(results.cases[0], peer)[:1] for row in run["found"][0]["rows"]] for peer in results.peers}
    rows = []
    for identity, title in dict.fromkeys((row[0], row[1]) for rows_of in found.values() for row in rows_of):
        cells = ["; ".join(row[2] for row in found[peer] if row[0] == identity and row[3] == "probe") for peer in results.peers]
        if any(cells):
            rows.append([f"{identity} {title}"] + [cell or "–" if not index or cell != cells[0] else "same" for index, cell in enumerate(cells)])
    return table([""] + [results.title(peer) for peer in results.peers], rows)


STUDY_INBOUND = {"1": ("14.31", "7.36", "100.00"), "2": ("12.02", "5.29", "100.00"), "3": ("49.46", "122.51", "100.00"), "4": ("11.68", "15.93", "100.00"),
                 "5": ("16.27", "116.19", "99.97"), "6": ("15.23", "17.44", "100.00"), "7": ("not run", "", ""), "8": ("21.35", "94.30", "93.22")}


def rounds_of(run, name=None):
    groups = [group for group in run["load"]["groups"] if group.get("rounds") and (name is None or group["name"] == name)]
    pairs = collections.Counter()
    total = collections.Counter()
    for group in groups:
        for value, times in group["latency"]:
            pairs[value] += times
        for key in ("nodes", "complete", "offered", "returned"):
            total[key] += group["rounds"][key]
    return sorted(pairs.items()), total


def percent(part, whole):
    return "–" if not whole else f"{part * 100 / whole:.2f}"


def at(pairs, share):
    count, seen = sum(times for _, times in pairs), 0
    for value, times in pairs:
        seen += times
        if seen >= share * count:
            return value / 1e6
    return 0.0


def inbound(results):
    rows = []
    for case in results.cases:
        study = STUDY_INBOUND.get(case.split(":")[0], ("", "", ""))
        rows.append([case, "the study", study[0], study[1], "", study[2], ""])
        for peer in results.peers:
            runs = results.runs(case, peer)
            if not runs:
                continue
            mark = "†" if runs[0]["invalid"] else ""
            pairs, total = rounds_of(runs[0])
            _, mean, deviation = spread(pairs)
            rows.append([case, peer, number(mean) + mark, number(deviation) + mark, number(at(pairs, 0.99)) + mark, percent(total["returned"], total["offered"]), percent(total["complete"], total["nodes"])])
    return across(["mean, ms", "deviation, ms", "p99, ms", "TE, %", "nodes complete, %"], rows)


STUDY_OUTBOUND = {"mtd_1": ("99.93", "", "14.26", ""), "mtd_2": ("99.99", "99.96", "33.37", "3,862"), "mtd_3": ("95.81", "85.23", "21.38", "24.3"),
                  "mtd_4": ("99.98", "99.97", "71.43", "3,451"), "mtd_5": ("90.07", "85.27", "32.81", "37.0")}
OUTBOUND = {"all stay, nothing is kept": "mtd_1", "30 % leave, missed messages are kept": "mtd_2", "30 % leave, nothing is kept": "mtd_3",
            "70 % leave, missed messages are kept": "mtd_4", "70 % leave, nothing is kept": "mtd_5"}


def outbound(results):
    rows = []
    for case in results.cases:
        study = STUDY_OUTBOUND[OUTBOUND[case]]
        rows.append([case, "the study", study[0], study[1], study[2], study[3], "", ""])
        for peer in results.peers:
            for run in results.runs(case, peer)[:1]:
                mark = "†" if run["invalid"] else ""
                stay, stays = rounds_of(run, "to staying nodes")
                leave, leaves = rounds_of(run, "to leaving nodes")
                total = stays + leaves
                rows.append([case, peer, percent(total["returned"], total["offered"]), percent(leaves["returned"], leaves["offered"]), number(spread(stay)[1]) + mark,
                             number(spread(leave)[1]) + mark if leave else "–", number(at(stay, 0.99)) + mark, percent(leaves["complete"], leaves["nodes"])])
    return across(["TE, all, %", "TE, leaving nodes", "mean of staying nodes, ms", "of leaving nodes", "p99 of staying nodes", "nodes that leave, complete, %"], rows)


def trips(results):
    rows = []
    for case in results.cases:
        for peer in results.peers:
            for run in results.runs(case, peer)[:1]:
                mark = "†" if run["invalid"] else ""
                for group in [group for group in run["load"]["groups"] if group.get("rounds") and group["rounds"]["offered"]]:
                    pairs, total = rounds_of(run, group["name"])
                    _, mean, deviation = spread(pairs)
                    rows.append([f"{case}, {group['name']}", peer, f"{total['offered']:,}", percent(total["returned"], total["offered"]), number(mean) + mark, number(deviation) + mark, number(at(pairs, 0.99)) + mark])
    return across(["offered", "TE, %", "mean, ms", "deviation, ms", "p99, ms"], rows)


def points(results):
    measures = [("Gateway farthest from its share", "gateway farthest from its share at the end, %"), ("Handovers", "handovers"), ("Round trips complete (TE)", "TE, %"),
                ("Latency, mean", "mean, ms"), ("Latency, p99", "p99, ms"), ("Duplicates", "deliveries that came twice, requests and answers")]
    rows = [[case, name] + [results.shown(case, peer, measure) for peer in results.peers] for case in results.cases for measure, name in measures]
    return by_case(results.peers, rows)


def kill(results):
    measures = [("Round trips complete (TE)", "TE, %"), ("Lost", "deliveries lost, requests and answers"), ("Duplicates", "deliveries that came twice"), ("Latency, longest", "longest round trip, ms"),
                ("Latency, p99", "p99, ms"), ("Longest silence", "longest time without a delivery, s"), ("Connections ended by the broker", "connections lost")]
    rows = [[name] + [results.shown(results.cases[0], peer, measure) for peer in results.peers] for measure, name in measures]
    return table([""] + results.peers, rows)


THROUGHPUT = [("Throughput", "messages/s"), ("Broker CPU per delivery", "CPU for each, µs")]
LATENCY = [("Latency, median", "median, ms"), ("Latency, p99", "p99, ms")]
SUITE = [("Throughput", "messages/s"), ("Delivered", "delivered, %"), ("Latency, p99", "p99, ms"), ("Broker CPU per delivery", "CPU for each delivery, µs")]
TABLES = {
    "pi-ladder": ladder,
    "pi-barrier": lambda results: grid(results, [("Connections accepted", "accepted"), ("Delivered", "delivered, %"), ("Connecting, p99", "connecting, p99, ms"), ("Latency, p99", "p99, ms"), ("Broker CPU", "CPU, cores")]),
    "pi-many-to-many": lambda results: grid(results, SUITE),
    "lavva-1": lavva, "lavva-2": lavva, "lavva-3": lavva, "lavva-4": lavva,
    "middleware-throughput": lambda results: grid(results, THROUGHPUT),
    "middleware-count": lambda results: grid(results, THROUGHPUT),
    "middleware-protocols": lambda results: grid(results, THROUGHPUT),
    "middleware-latency": lambda results: grid(results, LATENCY),
    "middleware-one-second": lambda results: grid(results, [("Deadline missed", "later than a second or never, %")]),
    "middleware-scalability": lambda results: grid(results, [("Throughput", "deliveries/s")]),
    "middleware-footprint": lambda results: grid(results, [("Broker memory, idle", "memory at rest, MiB"), ("Broker memory, peak", "memory, peak, MiB"), ("Broker CPU", "CPU while moving, cores")]),
    "middleware-stress": lambda results: grid(results, [("Connections accepted", "accepted"), ("Delivered", "delivered, %"), ("Throughput", "messages/s"), ("Broker CPU", "CPU, cores"), ("Broker memory, peak", "memory, peak, MiB"),
                                                        ("Latency, median", "median, ms"), ("Latency, p99", "p99, ms")]),
    "middleware-patterns": lambda results: grid(results, LATENCY),
    "middleware-pipeline": lambda results: grid(results, LATENCY + [("Delivered", "delivered, %")]),
    "middleware-survey": lambda results: grid(results, [("Latency, median", "median, ms"), ("Latency, longest", "longest, ms"), ("Delivered", "delivered, %")]),
    "middleware-dynamic-subscribers": members, "middleware-criteria": criteria,
    "contextnet-inbound": inbound,
    "contextnet-outbound": outbound, "contextnet-processing": trips, "contextnet-both": trips, "contextnet-points": points, "contextnet-kill": kill,
    "network": lambda results: grid(results, [("Delivered", "delivered, %"), ("Latency, median", "median, ms"), ("Latency, p99", "p99, ms")]),
    "cluster": lambda results: grid(results, [("Broker CPU per delivery", "CPU for each delivery, µs"), ("Latency, median", "median, ms"), ("Latency, p99", "p99, ms"), ("Delivered", "delivered, %")]),
    "suite-connection": lambda results: grid(results, [("Connections accepted", "accepted"), ("Connecting, p99", "connecting, p99, ms"), ("Broker memory per client", "memory for each client, KiB")]),
    "suite-fan-out": lambda results: grid(results, SUITE), "suite-point-to-point": lambda results: grid(results, SUITE), "suite-shared": lambda results: grid(results, SUITE),
    "churn": lambda results: grid(results, [("Lost", "lost"), ("Duplicates", "twice"), ("Latency, p99", "p99, ms")]),
    "reconnect-storm": lambda results: grid(results, [("Connecting, p99", "connecting, p99, ms"), ("Lost", "lost"), ("Latency, longest", "longest, ms")]),
    "takeover": lambda results: grid(results, [("Lost", "lost"), ("Duplicates", "twice"), ("Latency, longest", "longest, ms")]),
    "retained-flood": lambda results: grid(results, [("Throughput", "messages/s"), ("Broker memory, peak", "memory, peak, MiB")]),
    "slow-readers": lambda results: grid(results, [("Latency, p99", "p99 of the quick, ms"), ("Broker memory, peak", "memory, peak, MiB")]),
    "kill-restart": lambda results: grid(results, [("Longest silence", "silence, s"), ("Lost", "lost"), ("Duplicates", "twice")]),
}


def tables(folder):
    found = {}
    for name, make in TABLES.items():
        path = folder / name
        if (path / "results.json").exists():
            results = Results(path)
            if results.rows:
                notes = [results.conditions()]
                for missing in {(entry["peer"], entry["why"]) for entry in results.data["not_measured"]}:
                    notes.append(f"Not run with {missing[0]}: {missing[1].splitlines()[0]}.")
                found[name] = " ".join(notes) + "\n\n" + make(results)
    return found


def write(folder):
    path = ROOT / "docs/studies.md"
    text = path.read_text(encoding="utf-8")
    for name, made in tables(folder).items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if begin in text and end in text:
            before, rest = text.split(begin, 1)
            text = before + begin + "\n" + made + "\n\n" + end + rest.split(end, 1)[1]
            print(f"{path.name}: {name}")
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="command", required=True)
    runs = parts.add_parser("run")
    runs.add_argument("study", nargs="+")
    runs.add_argument("--out", type=pathlib.Path, required=True)
    runs.add_argument("--binary", type=pathlib.Path)
    runs.add_argument("--peers", type=pathlib.Path, help="a folder with templates of brokers")
    runs.add_argument("--short", action="store_true")
    runs.add_argument("--repeat", type=int, default=1)
    runs.add_argument("--minutes", type=float, help="begin nothing, and stop, after so long")
    runs.add_argument("--factor", type=float, default=1.0, help="multiply all times, for a try")
    runs.add_argument("--ports", default="21000-29999")
    for name in ("tables", "write"):
        parts.add_parser(name).add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    if args.command == "run":
        run(args)
    elif args.command == "tables":
        for name, made in tables(args.folder).items():
            print(f"### {name}\n\n{made}\n")
    else:
        write(args.folder)


if __name__ == "__main__":
    main()
