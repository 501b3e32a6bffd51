#!/usr/bin/env python3
"""How fast bridges carry what has waited for them. Python's standard library, and Mosquitto with its clients.

    cargo build --release -p tidegate
    bench/bridge.py [--tidegate BINARY] [--messages 50000] [--rounds 3]

The far broker stands still (SIGSTOP) while messages of 100 bytes are published at the near one, so that they wait for the bridge; then it
goes on, and the time counts from the first to the last of them at a subscriber there. Prints messages in a second, medians of alternating
rounds. The far broker is the same for both: Tidegate.
"""
import argparse
import pathlib
import select
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time

from mqtt_wire import free_ports

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOSQUITTO = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
PATIENCE = 120
PROBE = b"probe"


def wait_for(port):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"nobody listens on port {port}")


def near_command(name, arguments, folder, near, far, qos):
    """A broker with a bridge that carries everything below t/ to the far one."""
    config = folder / "near.conf"
    if name == "tidegate":
        config.write_text(f'[[bridge]]\nname = "b"\nbroker = "mqtt://127.0.0.1:{far}"\ntopics = "t/# out {qos}"\n[queue]\nmax_messages = 1000000\n', encoding="utf-8")
        return [arguments.tidegate, "run", "--config", config, "--listen", f"127.0.0.1:{near}", "--admin", "off", "--log", "error"]
    config.write_text(
        f"listener {near} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 100\nlog_type error\n"
        f"connection b\naddress 127.0.0.1:{far}\ntopic t/# out {qos}\nrestart_timeout 1\n",
        encoding="utf-8",
    )
    return [MOSQUITTO, "-c", config]


def publish_at(port):
    return ["mosquitto_pub", "-p", str(port), "-t", "t/x"]


def wait_until_carried(near, watching):
    """Until what is published at the near broker comes out of the far one. What is read ahead here is a probe, too."""
    end = time.monotonic() + PATIENCE
    while not select.select([watching.stdout], [], [], 0.2)[0]:
        if time.monotonic() > end:
            raise SystemExit("the bridge carries nothing")
        subprocess.run([*publish_at(near), "-m", PROBE.decode()], check=True, timeout=PATIENCE)


def carry(name, arguments, qos):
    """Messages in a second."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        near, far = free_ports(2)
        running = []
        try:
            begin = lambda command, **more: running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, **more)) or running[-1]
            far_command = [arguments.tidegate, "run", "--listen", f"127.0.0.1:{far}", "--admin", "off", "--log", "error", "--set", "queue.max_messages=1000000"]
            broker = begin(far_command, stdout=subprocess.DEVNULL)
            wait_for(far)
            watching = begin(["mosquitto_sub", "-p", str(far), "-q", str(qos), "-t", "t/#"], stdout=subprocess.PIPE)
            begin(near_command(name, arguments, pathlib.Path(folder), near, far, qos), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for(near)
            wait_until_carried(near, watching)
            broker.send_signal(signal.SIGSTOP)
            lines = "".join(f"{number:0100}\n" for number in range(arguments.messages))
            subprocess.run([*publish_at(near), "-q", str(qos), "-l"], input=lines, text=True, check=True, timeout=PATIENCE)
            broker.send_signal(signal.SIGCONT)
            first = None
            # Ends the wait for a message that does not come.
            patience = threading.Timer(PATIENCE, watching.kill)
            patience.start()
            for line in watching.stdout:
                if line.startswith(PROBE):
                    continue
                first = first or time.monotonic()
                if int(line) == arguments.messages - 1:
                    patience.cancel()
                    return arguments.messages / (time.monotonic() - first)
            raise SystemExit(f"{name}, QoS {qos}: the last message did not come")
        finally:
            for process in running:
                # One that stands still does not end.
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.wait(PATIENCE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", default=str(ROOT / "target" / "release" / "tidegate"))
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rates = {}
    for _ in range(arguments.rounds):
        for qos in (1, 2):
            for name in ("tidegate", "mosquitto"):
                rates.setdefault((qos, name), []).append(carry(name, arguments, qos))
    print("| messages/s from the bridge of | Tidegate | Mosquitto |\n| --- | --- | --- |")
    for qos in (1, 2):
        print(f"| QoS {qos} | " + " | ".join(f"{statistics.median(rates[qos, name]):,.0f}" for name in ("tidegate", "mosquitto")) + " |")


if __name__ == "__main__":
    main()
