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
