#!/usr/bin/env python3
"""How much load the lab's generator makes on one core, and whether another generator measures the same.

    cargo build --release -p tidegate
    bench/generator.py --broker floor='./nullbroker {port}' --broker tidegate='target/release/tidegate --listen 127.0.0.1:{port}'
        [--lab target/release/tidegate] [--mqload ./mqload] [--only fan-out] [--rounds 3] [--seconds 5] [--cores 0,1]

The broker is pinned to one core and the generator to another. Both generators carry the same load against the same broker, in turn:
a message has 64 bytes of payload, a closed loop has its window, and an open loop counts latency from the time at which a message was
due. `--mqload` is any program with that command line and its line of JSON; without it, only the lab is measured. It sends one interval
late in an open loop, which is taken off its latencies. A generator's rate
is messages sent and received in a second; the same for each second of its own CPU time says how far one core would go when it has
to wait for the broker. Beside it stand what both sides took for a message and how often they slept in a second: where the broker has no
time left and both generators have some, the rate is the broker's. Rounds go from one generator to the other, so that the ratio of each
round compares neighbours in time; its median is shown with the least and the greatest. Uses Python's standard library only, and Linux's /proc. `docs/performance.md` keeps results.
"""
import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# name: publishers, subscribers, topics, QoS, window of a closed loop or None, messages in a second or None
LOADS = {
    "publish": (1, 0, "one", 0, 1_000_000_000, None),
    "one-to-one": (1, 1, "one", 0, 2000, None),
    "fan-out": (1, 100, "one", 0, 200, None),
    "pairs": (50, 50, "each", 0, 100, None),
    "pairs-1": (50, 50, "each", 1, 100, None),
    "open-1k-1": (1, 1, "one", 1, None, 1_000),
    "open-10k": (1, 1, "one", 0, None, 10_000),
    "open-100k": (10, 10, "each", 0, None, 100_000),
    "open-100k-1": (10, 10, "each", 1, None, 100_000),
}
PAYLOAD = 64
# Seconds in which the lab warms the broker up.
WARM_UP = 0.5


HEAD = ["load", "broker", "generator", "messages/s", "of a core/s", "sent/s", "received/s", "lost", "p50 µs", "p99 µs",
        "generator ns/message", "sleeps/s", "broker ns/message", "broker %", "broker sleeps/s"]


class Broker:
    """A broker on a core of its own, and a port that it listens to."""

    def __init__(self, command, pinned, port):
        self.port = port
        words = [word.format(port=port) for word in command.split()]
        self.process = subprocess.Popen([*pinned, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    sys.exit(f"`{command}` does not listen on port {port}")
                time.sleep(0.05)

    def used(self):
        """CPU time in nanoseconds, and how often its threads have slept."""
        cpu = sleeps = 0
        place = f"/proc/{self.process.pid}/task"
        for thread in os.listdir(place):
            with open(f"{place}/{thread}/schedstat") as file:
                cpu += int(file.read().split()[0])
            with open(f"{place}/{thread}/status") as file:
                sleeps += sum(int(line.split()[1]) for line in file if line.startswith("voluntary"))
        return cpu, sleeps

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def pace(window, rate):
    if rate is None:
        return f"{{ closed = {{ window = {min(window, 65535)} }} }}"
    return f"{{ open = {{ rate = {{ total = {rate} }} }} }}"


def scenario(load, seconds):
    publishers, subscribers, topics, qos, window, rate = LOADS[load]
    topic = "bench/one" if topics == "one" else "bench/t/{client}"
    text = f"""title = "{load}"
question = "How much is one core of the generator?"
method = "{load}"
case = "{load}"
measures = ["throughput", "latency-p50", "latency-p99", "lost"]
[load]
warm_up_ms = {int(WARM_UP * 1000)}
duration_ms = {int(seconds * 1000)}
"""
    if subscribers:
        text += f"""[[load.groups]]
name = "subscribers"
count = {subscribers}
role = {{ subscriber = {{ filters = ["{topic}"], qos = {qos} }} }}
"""
    return text + f"""[[load.groups]]
name = "publishers"
count = {publishers}
role = {{ publisher = {{ topics = {{ pattern = "{topic}" }}, qos = {qos}, payload = {{ size = {{ fixed = {PAYLOAD} }} }}, pace = {pace(window, rate)} }} }}
"""


def percentile(pairs, share):
    """The time in microseconds that a share of all does not exceed."""
    left = share * sum(count for _, count in pairs)
    for value, count in pairs:
        left -= count
        if left <= 0:
            return value / 1000
    return 0.0


def pinned(arguments, core):
    """What runs a program on one core, and before all others where that is asked for."""
    return [*(["chrt", "-f", "10"] if arguments.first else []), "taskset", "-c", str(core)]


def by_lab(arguments, load, broker, core):
    with tempfile.TemporaryDirectory() as home:
        path = os.path.join(home, f"{load}.toml")
        with open(path, "w") as file:
            file.write(scenario(load, arguments.seconds))
        out = os.path.join(home, "out")
        subprocess.run([*pinned(arguments, core), arguments.lab, "lab", "run", path, "--out", out, "--peer",
                        f"broker=mqtt://127.0.0.1:{broker.port}#{broker.process.pid}"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(out, "results.json")) as file:
            run = json.load(file)["runs"][0]
    outcome = run["load"]
    counts = outcome["counts"]
    seconds = (max(outcome["last_ns"], outcome["measured_to_ns"]) - outcome["measured_from_ns"]) / 1e9
    return figures(counts["sent"], counts["received"], counts["due"] - counts["received"], seconds,
                   percentile(outcome["latency"], 0.5), percentile(outcome["latency"], 0.99), outcome["generator"]["cpu_ns"] / 1e9)


def by_mqload(arguments, load, broker, core):
    publishers, subscribers, topics, qos, window, rate = LOADS[load]
    command = [*pinned(arguments, core), arguments.mqload, "--port", broker.port, "--pubs", publishers, "--subs", subscribers,
               "--topics", topics, "--qos", qos, "--size", PAYLOAD, "--secs", arguments.seconds, "--pid", broker.process.pid]
    command += ["--window", window] if rate is None else ["--rate", rate]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lost = found["lost"] if subscribers else 0
    # In an open loop it sends the message of time 0 when the first interval is over, and counts from time 0.
    early = 1e6 / rate if rate else 0
    return figures(found["sent"], found["recv"], lost, found["secs"], found["lat_us"]["p50"] - early, found["lat_us"]["p99"] - early, cpu)


def figures(sent, received, lost, seconds, p50, p99, cpu):
    return {"rate": (sent + received) / seconds, "core": (sent + received) / max(cpu, 1e-9), "sent": sent / seconds,
            "received": received / seconds, "lost": lost, "p50": p50, "p99": p99}


def measure(arguments, load, name, command, cores, port):
    """Both generators in turn, as often as asked for, and the medians of what they have found."""
    generators = {"lab": by_lab} | ({"mqload": by_mqload} if arguments.mqload else {})
    found = {generator: [] for generator in generators}
    for _ in range(arguments.rounds):
        for generator, run in generators.items():
            broker = Broker(command, pinned(arguments, cores[0]), port)
            try:
                found[generator].append(watched(arguments, run, load, broker, cores[1], generator))
            finally:
                broker.stop()
    medians = {}
    for generator, runs in found.items():
        medians[generator] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        row(load, name, generator, medians[generator])
    if len(medians) == 2:
        shown = {key: ratio(found["lab"], found["mqload"], key) for key in ("sent", "received", "p50", "p99", "broker_ns")}
        print(f"| {load} | {name} | lab / mqload | | | {shown['sent']} | {shown['received']} | | {shown['p50']} | {shown['p99']} | | | "
              f"{shown['broker_ns']} | | |", flush=True)


def watched(arguments, run, load, broker, core, generator):
    """A run, with what both sides have taken for it."""
    broker_before, before = broker.used(), resource.getrusage(resource.RUSAGE_CHILDREN)
    found = run(arguments, load, broker, core)
    after, broker_after = resource.getrusage(resource.RUSAGE_CHILDREN), broker.used()
    # The lab warms the broker up, which costs both sides and is not in the rate.
    seconds = arguments.seconds + (WARM_UP if generator == "lab" else 0)
    messages = max(found["sent"] * seconds, 1)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    broker_cpu, sleeps = (now - then for now, then in zip(broker_after, broker_before))
    return found | {"generator_ns": cpu * 1e9 / messages, "sleeps": (after.ru_nvcsw - before.ru_nvcsw) / seconds,
                    "broker_ns": broker_cpu / messages, "broker_share": broker_cpu / seconds / 1e7, "broker_sleeps": sleeps / seconds}


def ratio(ours, theirs, key):
    """The median of the rounds' ratios, with the least and the greatest."""
    ratios = sorted(our[key] / their[key] for our, their in zip(ours, theirs) if their[key])
    if not ratios:
        return ""
    spread = f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if len(ratios) > 1 else ""
    return f"{statistics.median(ratios):.2f}{spread}"


def row(load, name, generator, median):
    print(f"| {load} | {name} | {generator} | {median['rate']:,.0f} | {median['core']:,.0f} | {median['sent']:,.0f} | {median['received']:,.0f} | "
          f"{median['lost']:,.0f} | {median['p50']:.0f} | {median['p99']:.0f} | {median['generator_ns']:.0f} | {median['sleeps']:,.0f} | "
          f"{median['broker_ns']:.0f} | {median['broker_share']:.0f} | {median['broker_sleeps']:,.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", action="append", required=True, metavar="NAME='COMMAND {port}'", help="repeatable")
    parser.add_argument("--lab", default="target/release/tidegate", help="the tidegate that measures")
    parser.add_argument("--mqload", help="the generator that is compared with")
    parser.add_argument("--only", default="", help="loads whose names contain one of these, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--cores", default="0,1", help="the broker's and the generator's")
    parser.add_argument("--first", action="store_true", help="run before all other work of the machine (chrt -f, as root); the kernel stops who uses 95 %% of a core for 50 ms of each second, which a p99 shows")
    parser.add_argument("--port", type=int, default=25600, help="the first port; each broker gets the next one")
    arguments = parser.parse_args()
    cores = [int(core) for core in arguments.cores.split(",")]
    port = arguments.port
    print(f"| {' | '.join(HEAD)} |")
    print(f"| {' | '.join('---' for _ in HEAD)} |", flush=True)
    for load in LOADS:
        if any(part in load for part in arguments.only.split(",")):
            for broker in arguments.broker:
                name, command = broker.split("=", 1)
                measure(arguments, load, name, command, cores, port)
                port += 1


if __name__ == "__main__":
    main()
