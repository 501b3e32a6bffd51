#!/usr/bin/env python3
"""The experiments of the Brokel study (BRK-45..55) on one machine: brokers are processes with a small share of a core each.

    cargo build --profile dist -p tidegate
    bench/brokel.py run s2.1 --sla 10 --lower 0.5 --upper 0.7       # one run; the result goes to --results
    bench/brokel.py run s1 --kind mosquitto --brokers 4             # a fixed fleet
    bench/brokel.py run s2.1 --qos 2 --kill broker@8s               # with an event
    bench/brokel.py all                                             # everything that the report is made of
    bench/brokel.py report --results docs/brokel/results.json       # tables and figures of docs/brokel.md

Needs Python's standard library, Linux, the right to make cgroups, and Mosquitto and RabbitMQ for the scenarios that are theirs.
docs/brokel.md says what is measured and how it differs from the study.
"""
import argparse
import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time

import brokel_figures
import brokel_report
from brokel_fleet import Fleet
from brokel_load import Load, read_records

KINDS = {
    # Cores of a broker, so that one does 500 to 700 messages/s. The kernel gives no less than 0.01.
    "mosquitto": {"templates": {"mosquitto": 1}, "cpu": 0.01},
    "rabbitmq": {"templates": {"rabbitmq": 1}, "cpu": 0.06},
    "mixed": {"templates": {"mosquitto": 1, "rabbitmq": 1}, "cpu": 0.06},
    "tidegate": {"templates": {"tidegate": 1}, "cpu": 0.02},
}
SCENARIOS = {"s2.1": "mosquitto", "s2.2": "rabbitmq", "s2.3": "mixed", "tidegate": "tidegate"}
INTERVAL_MS = 500
COOL_DOWN = 1
CLIENTS, RECORDS, WINDOW = 20, 36000, 40
RATE = 4400.0  # messages/s that the publishers offer at most: what between six and seven brokers can do


def options_of(arguments):
    kind = arguments.kind or SCENARIOS.get(arguments.scenario, "mosquitto")
    options = {
        "scenario": arguments.scenario, "kind": kind, **KINDS[kind], "policy": arguments.policy, "lower": arguments.lower,
        "upper": arguments.upper, "min": 1, "max": arguments.sla, "initial": 1, "interval": arguments.interval, "cool_down": arguments.cool_down,
        "orchestrators_min": 1, "orchestrators_max": 1, "orchestrator_cpu": 1.0, "routing": arguments.routing,
        "clients": CLIENTS, "records": arguments.records or RECORDS, "window": arguments.window, "rate": arguments.rate, "qos": arguments.qos,
        "settle": 15.0, "linger": 1.0, "limit": arguments.limit, "kills": arguments.kill, "body": arguments.body, "fall": arguments.fall,
    }
    if arguments.cpu:
        options["cpu"] = arguments.cpu
    if arguments.scenario == "s1":
        options.update(min=arguments.brokers, max=arguments.brokers, initial=arguments.brokers)
    if arguments.scenario == "s3":
        options.update(orchestrators_max=2, orchestrator_cpu=arguments.orchestrator_cpu, clients=2 * CLIENTS)
        options.update(records=2 * options["records"], rate=arguments.rate)
    return options


async def drive(load, fleet, options):
    """The load, the events, and publishers that go where the fleet's endpoints are."""
    await load.connect()
    cpu = fleet.cpu_seconds()
    tasks = [asyncio.create_task(event(fleet, what, float(at.removesuffix("s")))) for what, at in options["kills"]]
    if options["orchestrators_max"] > 1:
        tasks.append(asyncio.create_task(spread(load, fleet)))
    await load.run()
    for task in tasks:
        task.cancel()
    result = load.result()
    result["orchestrator_cpu_us"] = 1e6 * (fleet.cpu_seconds() - cpu) / max(1, load.delivered)
    for event_ in fleet.events:
        event_["gap_s"], event_["longest_wait_s"] = load.gap(event_["at"])
    load.close()
    await asyncio.sleep(0.2)
    return result


async def event(fleet, what, after):
    await asyncio.sleep(after)
    await asyncio.to_thread(fleet.kill, what)


async def spread(load, fleet):
    """Where there are several orchestrators, publishers connect anew now and then, as the study's short-lived clients do."""
    turn = 0
    while True:
        await asyncio.sleep(0.25)
        if len(fleet.addresses) > 1:
            load.publishers[turn % len(load.publishers)].moving = True
            turn += 1


def run(program, options):
    """One run with a fleet of its own. Returns everything that the report needs."""
    records = options["records"]
    lines = subprocess.run([program, "fleet", "trace", "taxi", "--records", str(records)], stdout=subprocess.PIPE, text=True, check=True).stdout
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="brokel-", ignore_cleanup_errors=True) as directory:
        fleet = Fleet(program, directory, options)
        try:
            fleet.start()
            load = Load(read_records(lines.splitlines(), options["body"]), lambda: fleet.addresses, options)
            result = asyncio.run(drive(load, fleet, options))
            history = fleet.history()
        finally:
            fleet.stop()
            if os.environ.get("BROKEL_KEEP"):
                shutil.copytree(directory, os.environ["BROKEL_KEEP"], dirs_exist_ok=True)
    result.update(events=fleet.events, first_served=fleet.first_served, machine_load=load_before)
    return {"options": options, "result": {**result, **brokel_report.allocation(history, result, options)}}


def keep(path, entry):
    """Adds a run to the results, in place of one with the same options."""
    kept = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    kept = [other for other in kept if other["options"] != entry["options"]] + [entry]
    with open(path + ".new", "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in kept)
        file.write(f"[\n{lines}\n]\n")
    os.replace(path + ".new", path)


def installed(kind):
    programs = {"mosquitto": ["mosquitto"], "rabbitmq": ["rabbitmq-server"], "mixed": ["mosquitto", "rabbitmq-server"]}.get(kind, [])
    place = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/usr/lib/rabbitmq/bin"
    return all(shutil.which(program, path=place) for program in programs)


def perform(arguments):
    options = options_of(arguments)
    if not installed(options["kind"]):
        print(f"{options['kind']} is not installed: {options['scenario']} was not run")
        return
    entry = run(os.path.abspath(arguments.program), options)
    keep(arguments.results, entry)
    print(brokel_report.line(entry), flush=True)


def kill(text):
    what, _, at = text.partition("@")
    if what not in ("broker", "orchestrator", "manager") or not at:
        raise argparse.ArgumentTypeError("write, for example, broker@20s")
    return [what, at]


def fall(text):
    fraction, _, rate = text.partition(":")
    return [float(fraction), float(rate)]


def parser():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("command", choices=["run", "all", "report"])
    made.add_argument("scenario", nargs="?", default="s2.1", choices=["s1", *SCENARIOS, "s3"])
    made.add_argument("--program", default="target/dist/tidegate")
    made.add_argument("--lab", default="target/release/tidegate-lab", help="the program that draws the figures")
    made.add_argument("--results", default="docs/brokel/results.json")
    made.add_argument("--kind", choices=list(KINDS))
    made.add_argument("--brokers", type=int, default=1, help="of s1: how many there are")
    made.add_argument("--sla", type=int, default=6)
    made.add_argument("--lower", type=float, default=0.3)
    made.add_argument("--upper", type=float, default=0.7)
    made.add_argument("--policy", default="brokel")
    made.add_argument("--routing", default="round-robin")
    made.add_argument("--qos", type=int, default=1)
    made.add_argument("--records", type=int)
    made.add_argument("--rate", type=float, default=RATE)
    made.add_argument("--window", type=int, default=WINDOW, help="messages of a publisher that nobody has received yet, at most")
    made.add_argument("--body", type=int, default=0, help="bytes that bodies are filled up to")
    made.add_argument("--fall", type=fall, help="FRACTION:RATE: what is offered once that much has been delivered")
    made.add_argument("--cpu", type=float)
    made.add_argument("--orchestrator-cpu", type=float, default=0.06)
    made.add_argument("--interval", type=int, default=INTERVAL_MS)
    made.add_argument("--cool-down", type=int, default=COOL_DOWN)
    made.add_argument("--limit", type=float, default=400.0)
    made.add_argument("--kill", type=kill, action="append", default=[])
    return made


def everything():
    """The runs of docs/brokel.md, as arguments."""
    mosquitto, rabbitmq = ["--records", "90000"], ["--records", "200000", "--rate", "3500"]
    pairs = [(lower, upper) for lower in ("0.3", "0.5") for upper in ("0.7", "0.9")]
    runs = [["s1", "--kind", "mosquitto", "--brokers", str(size), *mosquitto] for size in (1, 2, 3, 4, 5, 6, 7, 8, 10)]
    runs += [["s1", "--kind", "rabbitmq", "--brokers", size, *rabbitmq] for size in ("1", "6")]
    for scenario, size in (("s2.1", mosquitto), ("s2.2", rabbitmq)):
        for sla in ("10", "6"):
            runs += [[scenario, "--sla", sla, "--lower", lower, "--upper", upper, *size] for lower, upper in pairs]
        for upper in ("0.7", "0.9"):
            runs.append([scenario, "--sla", "10", "--policy", "default", "--upper", upper, *size])
    mixed = ["--kind", "mixed", "--cpu", "0.03", "--records", "90000"]
    runs += [["s1", *mixed], *(["s2.3", *mixed, "--lower", "0.5", "--routing", routing] for routing in ("round-robin", "least-loaded"))]
    tidegate = ["--kind", "tidegate", "--cpu", "0.01", "--body", "4096", "--records", "60000", "--rate", "6000"]
    runs += [["s1", *tidegate], *(["tidegate", *tidegate, "--lower", lower, "--upper", upper] for lower, upper in (pairs[0], pairs[3]))]
    runs += [["s3", "--kind", "mosquitto", "--records", "60000", "--lower", lower] for lower in ("0.3", "0.5")]
    for qos in ("0", "1", "2"):
        for what in ("broker", "orchestrator", "manager"):
            fleet = ["--kind", "mosquitto", "--cpu", "0.05", "--brokers", "3", "--records", "20000", "--rate", "1000"]
            runs.append(["s1", *fleet, "--qos", qos, "--kill", f"{what}@6s"])
        runs.append(["s2.1", "--records", "30000", "--qos", qos, "--fall", "0.85:300"])
    return runs


def main():
    arguments = parser().parse_args()
    if arguments.command == "report":
        brokel_figures.write(arguments.results, arguments.lab)
    elif arguments.command == "run":
        perform(arguments)
    else:
        for run_ in everything():
            perform(parser().parse_args(["run", *run_, "--program", arguments.program, "--results", arguments.results]))
        brokel_figures.write(arguments.results, arguments.lab)


if __name__ == "__main__":
    main()
