"""What the importer of the Perfetto UI asks of a JSON trace beyond its schema, each rule with its own complaint.

After ``src/trace_processor/importers/json`` of google/perfetto: times in us are truncated to ns, events are taken in
order of time, a thread's slices are a stack, a thread's name goes by its id, a flow binds to the innermost open slice.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

Event = dict[str, Any]


def ns(us: float) -> int:
    """As the importer reads a time."""
    return int(us * 1000)


def complaints(trace: dict[str, Any]) -> list[str]:
    """Everything that is wrong with a trace, at most one line a rule and place."""
    events: list[Event] = trace["traceEvents"]
    found = [*_names(events), *_order(events), *_nesting(events), *_lives(events), *_counters(events), *_flows(events)]
    if "displayTimeUnit" in trace:
        found.append("displayTimeUnit changes the unit of the times in some importers")
    return found


def _names(events: list[Event]) -> list[str]:
    found = []
    processes = {e["pid"] for e in events if e["name"] == "process_name"}
    threads: dict[int, int] = {}
    for e in events:
        if e["name"] == "thread_name" and threads.setdefault(e["tid"], e["pid"]) != e["pid"]:
            found.append(f"thread {e['tid']} belongs to two processes")
    found += [f"thread {tid} has the id of a process" for tid in threads if tid in processes]
    for e in events:
        if e["ph"] != "M" and e["pid"] not in processes:
            found.append(f"process {e['pid']} has no name")
        if e["ph"] in "Xisf" and threads.get(e["tid"]) != e["pid"]:
            found.append(f"thread {e['tid']} of process {e['pid']} has no name")
    return found


def _order(events: list[Event]) -> list[str]:
    times = [e["ts"] for e in events]
    return ["events are not in order of time"] if times != sorted(times) else []


def _nesting(events: list[Event]) -> list[str]:
    found = []
    stacks: dict[int, list[int]] = defaultdict(list)
    for e in events:
        if e["ph"] in "Xi":
            start, stack = ns(e["ts"]), stacks[e["tid"]]
            end = start + ns(e.get("dur", 0))
            while stack and stack[-1] <= start:
                stack.pop()
            if stack and end > stack[-1]:
                found.append(f"{e['name']!r} at {e['ts']} us overlaps a slice of thread {e['tid']} in part")
            stack.append(end)
    return found


def _lives(events: list[Event]) -> list[str]:
    found = []
    open_at: dict[tuple[Any, ...], float] = {}
    for e in events:
        key = (e["pid"], e.get("cat"), e.get("id"), e["name"])
        if e["ph"] == "b":
            if key in open_at:
                found.append(f"{key} begins twice")
            open_at[key] = e["ts"]
        elif e["ph"] == "e" and open_at.pop(key, None) is None:
            found.append(f"{key} ends without a beginning")
    return found + [f"{key} never ends" for key in open_at]


def _counters(events: list[Event]) -> list[str]:
    found = []
    last: dict[tuple[int, str], Event] = {}
    for e in events:
        if e["ph"] == "C":
            before = last.get((e["pid"], e["name"]), {"ts": -1, "args": e["args"]})
            if e["ts"] <= before["ts"]:
                found.append(f"counter {e['name']!r} has two values at {e['ts']} us")
            if e["args"].keys() != before["args"].keys():
                found.append(f"counter {e['name']!r} changes its series at {e['ts']} us")
            last[e["pid"], e["name"]] = e
    return found


def _flows(events: list[Event]) -> list[str]:
    found = []
    top: dict[int, Event] = {}
    ends: dict[int, list[str]] = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            top[e["tid"]] = e
        elif e["ph"] in "sf":
            ends[e["id"]].append(e["ph"])
            bound = top.get(e["tid"])
            if bound is None or ns(e["ts"]) >= ns(bound["ts"]) + ns(bound["dur"]):
                found.append(f"flow {e['id']} has no slice at {e['ts']} us")
            elif bound["cat"] != "stage":
                found.append(f"flow {e['id']} is bound to {bound['name']!r}, not to a stage")
    return found + [f"flow {key} is not one pair" for key, pair in ends.items() if pair != ["s", "f"]]
