#!/usr/bin/env python3
"""Prints what a run of tiertrain did: memory planned and measured, losses, time and stalls.

Reads report.json in the output directory and the --log_file.
"""

import argparse
import json
import pathlib
import sys

TIERS = ("device", "host", "nvme")


def read_log(path):
    """The optimizer steps of a log; other lines have no loss."""
    with open(path, encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line.get("loss") is not None]


def size(count):
    if count is None:
        return "-"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.2f} {unit}"
    return f"{count} B"


def memory_table(report):
    """Rows of text: arenas and processes, planned and measured."""
    yield f"{'memory':<16}{'planned':>12}{'measured':>12}"
    for kind, title in (("peak_bytes", ""), ("process_peak_bytes", "process, ")):
        for tier in TIERS:
            planned = report.get("plan", {}).get(kind, {}).get(tier)
            measured = report.get("measured", {}).get(kind, {}).get(tier)
            if planned is not None or measured is not None:
                yield f"{title + tier:<16}{size(planned):>12}{size(measured):>12}"


def mean_loss(steps):
    """Token-weighted over the steps."""
    tokens = sum(step["trained_tokens"] for step in steps)
    return (
        sum(step["loss"] * step["trained_tokens"] for step in steps) / tokens
        if tokens
        else float("nan")
    )


def total_by_lane(steps, pick):
    totals = {}
    for step in steps:
        for lane, seconds in pick(step).items():
            totals[lane] = totals.get(lane, 0.0) + (seconds or 0.0)
    return totals


def by_size(seconds):
    shown = [
        f"{lane} {value:.1f}" for lane, value in sorted(seconds.items(), key=lambda item: -item[1])
    ]
    return ", ".join(shown) or "none"


def step_lines(steps):
    edge = max(1, len(steps) // 5)
    seconds = sum(step["seconds"] for step in steps)
    tokens = sum(step["tokens"] for step in steps)
    busy = total_by_lane(
        steps, lambda step: {lane: value["busy_seconds"] for lane, value in step["lanes"].items()}
    )
    yield (
        f"loss {mean_loss(steps[:edge]):.3f} over the first {edge} steps,"
        f" {mean_loss(steps[-edge:]):.3f} over the last {edge}, of {len(steps)}"
    )
    yield f"{tokens} tokens in {seconds:.1f} s: {tokens / max(seconds, 1e-9):.0f} tokens/s"
    yield f"seconds that lanes worked: {by_size(busy)}"
    stalls = total_by_lane(steps, lambda step: step["stall_seconds"])
    yield f"seconds that computing waited for them: {by_size(stalls)}"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output_dir", type=pathlib.Path)
    parser.add_argument("log_file", type=pathlib.Path)
    options = parser.parse_args(arguments)
    try:
        report = json.loads((options.output_dir / "report.json").read_text(encoding="utf-8"))
        steps = read_log(options.log_file)
        if not steps:
            raise ValueError(f"{options.log_file} has no step")
        print(*memory_table(report), *step_lines(steps), sep="\n")
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyError as error:
        print(
            f"error: no {error} in {options.output_dir}/report.json or {options.log_file}",
            file=sys.stderr,
        )
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
