"""Figures of a process from Linux's /proc, for the scripts beside this file."""

import os


def status(pid, key):
    """A number of kB, or a count, from /proc/PID/status."""
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key + ":"))


def anonymous_kb(pid):
    """Its user memory."""
    return status(pid, "RssAnon")


def cpu_seconds(pid):
    """Processor time of all threads, to the nanosecond."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as line:
            total += int(line.read().split()[0])
    return total / 1e9


def wake_ups(pid, kinds=("voluntary", "nonvoluntary")):
    """Context switches of all threads. A voluntary one is a wake-up that ended in sleep again."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as lines:
            total += sum(int(line.split()[1]) for line in lines if line.startswith(tuple(f"{kind}_ctxt" for kind in kinds)))
    return total
