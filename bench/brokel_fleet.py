"""A fleet under measurement: `tidegate up` with a fleet file made for the run, what its manager and orchestrators tell, and its events."""
import glob
import http.client
import json
import os
import signal
import subprocess
import threading
import time

POLL_SECONDS = 0.1
BOOT_CORES = 1.0  # of a broker that boots, where the run says that booting is not limited
BOOT_TEMPLATES = ("rabbitmq",)

FILE = """[fleet]
name = "{name}"
directory = "{directory}"
interval = "{interval}ms"
check = "100ms"
boot_limit = "4m"
join_limit = "2m"
drain_limit = "60s"
down_after = 20

[policy]
name = "{policy}"
lower = {lower}
upper = {upper}
cool_down_observations = {cool_down}
peak = "{peak}ms"
backlog_target = "{backlog_target}ms"
backlog_limit = "{backlog_limit}ms"
shrink_pause = "{shrink_pause}ms"
shrink_stabilisation = "{shrink_stabilisation}ms"
grow_stabilisation = "{grow_stabilisation}ms"
lead_time = "{interval}ms"

[sla]
brokers = {{ min = {min}, max = {max} }}
orchestrators = {{ min = {orchestrators_min}, max = {orchestrators_max} }}

[brokers]
templates = {{ {templates} }}
cpu = {cpu}
initial = {initial}
ports = "{broker_ports}"

[orchestrators]
cpu = {orchestrator_cpu}
routing = "{routing}"
initial = {orchestrators_min}
ports = "{orchestrator_ports}"
"""


def get(address, path):
    host, port = address.removeprefix("http://").rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=3)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def host_and_port(address):
    host, port = address.removeprefix("mqtt://").rsplit(":", 1)
    return host, int(port)


def scaled(options):
    """The times of the policies, scaled as the interval is (15 s in the study)."""
    interval = options["interval"]
    units = {
        "peak": 2, "backlog_target": 8, "backlog_limit": 60, "shrink_pause": 4, "shrink_stabilisation": 20, "grow_stabilisation": 4,
    }
    return {name: interval * many for name, many in units.items()}


class Fleet:
    """Runs from `start` to `stop`."""

    def __init__(self, program, directory, options):
        self.program, self.directory, self.options = program, directory, options
        self.state = os.path.join(directory, "state")
        self.file = os.path.join(directory, "fleet.toml")
        self.status, self.events, self.samples = None, [], []
        self.first_served, self.addresses = {}, []
        self.stopping, self.process = threading.Event(), None

    def start(self):
        templates = ", ".join(f"{name} = {weight}" for name, weight in self.options["templates"].items())
        # Two runs at a time must not choose the same ports.
        first = 11000 + os.getpid() % 100 * 200
        ports = {"broker_ports": f"{first}-{first + 149}", "orchestrator_ports": f"{first + 150}-{first + 199}"}
        values = {**self.options, **scaled(self.options), **ports, "templates": templates, "directory": self.state}
        with open(self.file, "w", encoding="utf-8") as out:
            out.write(FILE.format(name="brokel", **values))
        if any(name in BOOT_TEMPLATES for name in self.options["templates"]):
            threading.Thread(target=self.let_boot, daemon=True).start()
        self.up()
        self.poller = threading.Thread(target=self.poll, daemon=True)
        self.poller.start()
        deadline = time.monotonic() + 240
        while not self.addresses or self.serving() < self.options["initial"]:
            if time.monotonic() > deadline:
                raise SystemExit("the fleet has no endpoint")
            time.sleep(0.1)

    def up(self):
        """Starts the manager, or another one after the first has died."""
        log = open(os.path.join(self.directory, "up.log"), "a", encoding="utf-8")
        self.process = subprocess.Popen(
            [self.program, "up", self.file], stdout=subprocess.PIPE, stderr=log, text=True, process_group=0)
        line = self.process.stdout.readline()
        if "ready" not in line:
            raise SystemExit(f"the fleet did not become ready: {line!r}; see {self.directory}/up.log")
        self.manager = line.split("manager=")[1].split()[0]

    def serving(self):
        return self.status["levels"]["broker"]["serving"] if self.status else 0

    def members(self, level):
        return self.status["levels"][level]["resources"] if self.status else []

    def poll(self):
        while not self.stopping.wait(POLL_SECONDS):
            try:
                self.status = get(self.manager, "/api/v1/status")
            except (OSError, http.client.HTTPException, ValueError):
                continue
            self.addresses = [host_and_port(address) for address in self.status["endpoints"]] or self.addresses
            for member in self.members("orchestrator"):
                if not member["admin"]:
                    continue
                try:
                    seen = get(member["admin"], "/api/v1/fleet")
                except (OSError, http.client.HTTPException, ValueError):
                    continue
                now = time.time()
                if "brokers" not in seen:
                    continue  # It has only just started.
                for broker in seen["brokers"]:
                    if broker["received"] or broker["acknowledged"]:
                        self.first_served.setdefault(broker["name"], now)
                self.samples.append((now, seen["owed"], seen["loop_lag_ms"]))

    def let_boot(self):
        """Gives brokers whose programs take many seconds of CPU to start more than their share until they serve."""
        while not self.stopping.wait(0.2):
            serving = {member["name"] for member in self.members("broker") if member["state"] == "serving"}
            for record in glob.glob(os.path.join(self.state, "resources", "broker-*", "resource.json")):
                cores = self.options["cpu"] if record.split("/")[-2] in serving else BOOT_CORES
                try:
                    with open(record, encoding="utf-8") as file:
                        group = json.load(file)["cgroup"][0]
                    with open(f"{group}/cpu.cfs_quota_us", "r+", encoding="ascii") as quota:
                        if int(quota.read()) != int(cores * 100000):
                            quota.seek(0)
                            quota.write(str(int(cores * 100000)))
                except (OSError, ValueError, LookupError):
                    continue  # It is being made or has gone.

    def kill(self, what):
        """Kills with -9 whichever of its kind was started first, and notes the event."""
        if what == "manager":
            victim = {"name": "manager", "pid": self.process.pid}
        else:
            victim = next(member for member in self.members(what) if member["state"] == "serving")
        event = {"what": what, "name": victim["name"], "at": time.time()}
        if what == "manager":
            os.kill(victim["pid"], signal.SIGKILL)
            self.process.wait()
            # Nobody manages for two seconds.
            time.sleep(2)
            self.up()
        else:
            os.killpg(os.getpgid(victim["pid"]), signal.SIGKILL)
        self.events.append(event)

    def history(self):
        out = subprocess.run(
            [self.program, "fleet", "history", "--json", "--count", "100000", "--state", self.state],
            stdout=subprocess.PIPE, text=True, check=True).stdout
        return [json.loads(line) for line in out.splitlines()]

    def cpu_seconds(self):
        """CPU of the first orchestrator so far."""
        return sum(process_cpu(member["pid"]) for member in self.members("orchestrator"))

    def stop(self):
        self.stopping.set()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(150)
        except subprocess.TimeoutExpired:
            self.process.kill()


def process_cpu(pid):
    """User and system time of a process, in seconds."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
