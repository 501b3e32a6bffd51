"""The figures of BRK-52, drawn from results, and what is written into docs/brokel.md."""
import json
import os
import re
import subprocess

from brokel_report import Results, blocks, efficiency, name_of


def bars(file, title, y_label, groups, series, values, stacked=False, x_label="scenario, SLA"):
    """A chart for `tidegate lab draw`. `values[group][name]` are side by side or on each other; missing ones are left out."""
    rows = [[group, [values[group].get(name) for name in series]] for group in groups]
    return {"file": file, "title": title, "x": x_label, "y": y_label, "stacked" if stacked else "bars": {"series": series, "groups": rows}}


def lines(file, title, x_label, y_label, series, steps=False):
    """`series` is a list of name and points; with `steps` a value holds until the next point."""
    named = [{"name": name, "points": points} for name, points in series]
    return {"file": file, "title": title, "x": x_label, "y": y_label, "steps" if steps else "lines": named}


def compared(results):
    """Groups of bars: a kind of broker and an SLA; within each, one broker and each pair of thresholds."""
    groups, names = {}, ["1 broker"]
    for kind in results.kinds():
        for entry in results.elastic(kind):
            name = name_of(entry["options"])
            groups.setdefault(f"{kind}, SLA {entry['options']['max']}", {"1 broker": results.fixed(kind)[1]})[name] = entry["result"]
            if name not in names:
                names.append(name)
    return groups, names


def draw_compared(results):
    groups, names = compared(results)

    def values(of, drop=()):
        return {
            group: {name: of(runs["1 broker"], one) for name, one in runs.items() if name not in drop} for group, runs in groups.items()
        }

    elastic = [name for name in names if name != "1 broker"]
    yield bars("time.svg", "Application time", "seconds", list(groups), names, values(lambda _, one: one["time_s"]))
    yield bars("reduction.svg", "Reduction of the time against one broker", "percent", list(groups), elastic,
               values(lambda base, one: 100 * (1 - one["time_s"] / base["time_s"]), ["1 broker"]))
    yield bars("mps.svg", "Messages per second", "messages/s", list(groups), names, values(lambda _, one: one["mps"]))
    yield bars("cost.svg", "Cost: time times resource", "resource-seconds", list(groups), names, values(lambda _, one: one["cost"]))
    yield bars("efficiency.svg", "Efficiency (our definition)", "(T1 / T) (R1 / R)", list(groups), elastic,
               values(efficiency, ["1 broker"]))


def draw_runs(results):
    for kind in results.kinds():
        runs = results.elastic(kind)
        label = {id(entry): f"{name_of(entry['options'])}, {entry['options']['max']}" for entry in runs}
        order, states = [label[id(entry)] for entry in runs], ["above", "within", "below"]
        most = max(entry["options"]["max"] for entry in runs)
        sizes = [str(n) for n in range(1, most + 1)]
        yield bars(f"configurations-{kind}.svg", f"Time with each number of brokers, {kind}", "seconds", order, sizes,
                   {label[id(entry)]: entry["result"]["configurations"] for entry in runs}, stacked=True, x_label="thresholds, SLA")
        yield bars(f"states-{kind}.svg", f"Observations above, within and below the thresholds, {kind}", "observations", order, states,
                   {label[id(entry)]: entry["result"]["bands"] for entry in runs}, stacked=True, x_label="thresholds, SLA")
        for sla in sorted({entry["options"]["max"] for entry in runs}):
            series = [
                (name_of(entry["options"]), [(max(0, row["t"]), sum(row["broker"][:3])) for row in entry["result"]["profile"]])
                for entry in runs if entry["options"]["max"] == sla
            ]
            yield lines(f"allocation-{kind}-{sla}.svg", f"Allocated brokers, {kind}, SLA {sla}", "seconds", "brokers", series, steps=True)
        widest = max(runs, key=lambda entry: (entry["options"]["max"], entry["options"]["policy"] == "brokel", entry["options"]["upper"]))
        title = f"CPU of brokers, {kind}, SLA {widest['options']['max']}, {name_of(widest['options'])}"
        yield draw_cpu(f"cpu-{kind}.svg", title, widest, "broker")


def draw_cpu(file, title, entry, level):
    profile = entry["result"]["profile"]
    return lines(file, title, "seconds", "percent of a core", [
        ("allocated", [(max(0, row["t"]), 100 * row[level][4]) for row in profile]),
        ("used", [(max(0, row["t"]), 100 * row[level][3]) for row in profile]),
    ], steps=True)


def draw_both_levels(results):
    for entry in results.both_levels():
        options, profile = entry["options"], entry["result"]["profile"]
        tag = f"{options['lower'] * 100:.0f}-{options['upper'] * 100:.0f}"
        yield lines(f"s3-{tag}.svg", f"Both levels, {name_of(options)}", "seconds", "allocated", [
            (level + "s", [(max(0, row["t"]), sum(row[level][:3])) for row in profile]) for level in ("broker", "orchestrator")
        ], steps=True)
        for level in ("broker", "orchestrator"):
            yield draw_cpu(f"s3-{tag}-cpu-{level}.svg", f"CPU of {level}s, both levels, {name_of(options)}", entry, level)


def draw_fixed(results):
    series = []
    for kind in ("mosquitto", "rabbitmq", "tidegate"):
        fixed = results.fixed(kind)
        if len(fixed) > 1:
            series.append((kind, [(size, fixed[1]["time_s"] / one["time_s"]) for size, one in fixed.items()]))
    if series:
        most = max(size for _, points in series for size, _ in points)
        series.append(("linear", [(1, 1), (most, most)]))
        title = "Fixed fleets: how many times as fast as one broker"
        yield lines("fixed.svg", title, "brokers", "times", series)


def write(path, lab):
    """Draws the figures beside the results, by the program of the lab, and fills in the tables of the page above them."""
    with open(path, encoding="utf-8") as file:
        results = Results(json.load(file))
    folder = os.path.dirname(path)
    charts = [chart for draw in (draw_compared, draw_runs, draw_both_levels, draw_fixed) for chart in draw(results)]
    description = os.path.join(folder, "charts.json")
    with open(description, "w", encoding="utf-8") as out:
        json.dump(charts, out)
    try:
        subprocess.run([lab, "draw", description], check=True)
    finally:
        os.remove(description)
    page = folder + ".md"
    if not os.path.exists(page):
        return
    with open(page, encoding="utf-8") as file:
        text = file.read()
    made = blocks(results)

    def fill(match):
        return f"<!-- table: {match[1]} -->\n\n{made.get(match[1], 'Not measured.')}\n\n<!-- until here -->"

    text = re.sub(r"<!-- table: (\S+) -->.*?<!-- until here -->", fill, text, flags=re.S)
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)
