"""What the study reports about a run (BRK-52..55), and its tables and figures."""


def allocation(history, result, options):
    """Profile, resource, cost, observations and actions between the first publish and the last delivery."""
    began, end = result["began"], result["began"] + result["time_s"]
    seen = [entry for entry in history if entry["kind"] == "observation"]
    profile, bands = [], {"above": 0, "within": 0, "below": 0}
    for entry in seen:
        at = entry["at_ms"] / 1000
        row = {"t": round(at - began, 3)}
        for level in ("broker", "orchestrator"):
            told = entry["levels"][level]
            members = told["seen"]["members"]
            row[level] = [
                told["seen"]["serving"], told["seen"]["pending"], told["seen"]["leaving"],
                round(sum((member["cpu"] or 0.0) * member["cores"] for member in members), 5),
                round(sum(member["cores"] for member in members), 4), round(told["load"] or 0.0, 4),
            ]
        if began <= at <= end:
            load = row["broker"][5]
            bands["above" if load > options["upper"] else "below" if load < options["lower"] else "within"] += 1
        profile.append(row)
    steps = [row for row in profile if row["t"] <= result["time_s"]]
    while len(steps) > 1 and steps[1]["t"] <= 0:
        steps.pop(0)
    spent, configurations = {"broker": 0.0, "orchestrator": 0.0}, {}
    for row, after in zip(steps, steps[1:] + [{"t": result["time_s"]}]):
        seconds = after["t"] - max(0.0, row["t"])
        for level in spent:
            spent[level] += sum(row[level][:3]) * seconds
        key = str(row["broker"][0]) if options["orchestrators_max"] == 1 else f"{row['orchestrator'][0]}+{row['broker'][0]}"
        configurations[key] = configurations.get(key, 0.0) + seconds
    actions = [entry for entry in history if entry["kind"] == "action"]
    return {
        "profile": steps, "bands": bands, "cost": spent["broker"], "cost_orchestrators": spent["orchestrator"],
        "resource": spent["broker"] / result["time_s"] if result["time_s"] else 0.0,
        "configurations": {key: round(value, 2) for key, value in configurations.items()}, "actions": [brief(action, began) for action in actions],
    }


def brief(action, began):
    kept = {key: action.get(key) for key in ("action", "level", "outcome", "targets", "took_ms")}
    kept["t"] = round(action["started_ms"] / 1000 - began, 3)
    kept["steps"] = {step["step"]: step["took_ms"] for step in action["steps"]}
    return kept


def line(entry):
    options, result = entry["options"], entry["result"]
    return (
        f"{options['scenario']} {options['kind']} q{options['qos']} sla {options['max']} {options['lower']}/{options['upper']} {options['policy']}: "
        f"T {result['time_s']:.1f} s, {result['mps']:.0f}/s, R {result['resource']:.2f}, cost {result['cost']:.0f}, lost {result['lost']}, "
        f"dup {result['duplicates']}, p50 {result['latency_p50_ms'] or 0:.0f} ms, orch {result['orchestrator_cpu_us']:.0f} us, "
        f"actions {len(result['actions'])}, {result['bands']} {result['configurations']} events {result['events']} load {result['machine_load']:.1f}"
    )


KINDS = ["mosquitto", "rabbitmq", "mixed", "tidegate"]


class Results:
    """The runs, by what they are needed for. Runs with events or another QoS stand apart."""

    def __init__(self, entries):
        self.entries = entries

    def plain(self):
        return [
            entry for entry in self.entries
            if entry["options"]["qos"] == 1 and not entry["options"]["kills"] and not entry["options"].get("fall")
        ]

    def fixed(self, kind):
        """Fixed fleets by their size."""
        found = {
            entry["options"]["max"]: entry["result"] for entry in self.plain()
            if entry["options"]["scenario"] == "s1" and entry["options"]["kind"] == kind
        }
        return dict(sorted(found.items()))

    def elastic(self, kind):
        found = [entry for entry in self.plain() if entry["options"]["scenario"] not in ("s1", "s3") and entry["options"]["kind"] == kind]
        keys = ("max", "policy", "body", "routing", "lower", "upper")
        return sorted(found, key=lambda entry: [entry["options"].get(key, 0) for key in keys])

    def both_levels(self):
        found = [entry for entry in self.plain() if entry["options"]["scenario"] == "s3"]
        return sorted(found, key=lambda entry: (entry["options"]["lower"], entry["options"]["upper"]))

    def kinds(self):
        return [kind for kind in KINDS if 1 in self.fixed(kind) and self.elastic(kind)]


def name_of(options):
    name = f"{options['lower'] * 100:.0f}/{options['upper'] * 100:.0f}"
    if options["policy"] != "brokel":
        name = f"{options['policy']}, {name}"
    return name if options["routing"] == "round-robin" else f"{name}, {options['routing']}"


def table(head, rows):
    out = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" if n == 0 else "--:" for n in range(len(head))) + " |"]
    return "\n".join(out + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def efficiency(base, result):
    return base["time_s"] / result["time_s"] * base["resource"] / result["resource"]


def scale_out_table(results):
    """From the decision to the first message that a new broker has settled."""
    rows = []
    for kind in results.kinds():
        took = {"allocate": [], "boot": [], "join": [], "first": []}
        for entry in results.elastic(kind):
            one = entry["result"]
            for action in one["actions"]:
                if action["action"] != "scale-out" or action["outcome"] != "done" or action["level"] != "broker":
                    continue
                for step in ("allocate", "boot", "join"):
                    took[step].append(action["steps"].get(step) or 0)
                first = one["first_served"].get(action["targets"][0])
                if first:
                    took["first"].append(1000 * (first - one["began"] - action["t"]))
        cells = []
        for values in took.values():
            values.sort()
            cells.append(f"{values[len(values) // 2]:.0f} ({values[0]:.0f}–{values[-1]:.0f})" if values else "")
        rows.append([kind, len(took["allocate"]), *cells])
    return table(["brokers", "times", "allocate ms", "boot ms", "join ms", "decision to first message ms"], rows)


def blocks(results):
    """Every part of docs/brokel.md that is written by this program, by its name."""
    return {"scale-out": scale_out_table(results)}
