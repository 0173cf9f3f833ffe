"""Rows that are bound by memory: ours beside the floor of their bytes, and beside PyTorch, in interleaved rounds.

    python bench/gpu/floor.py [--seed 0] [--families bf16,w4] [--rows 10] [--compile] [--json FILE] [--time-limit 600]
    python bench/gpu/floor.py --bars    the sizes of the table of bars instead of a seed's
    python bench/gpu/floor.py --list    the rows with their bytes and predicted floors; needs no GPU and no PyTorch

The floor is measured in the same rounds: one launch that reads a row's bytes, or copies them where it stores tiles. All
buffers are cold. A row is compared with PyTorch first: one that is wrong is not timed. The last table has each row
beside its bar, and by family the geometric mean of ours over the floor. Exit code 1 if a row is wrong or fails.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import time
from typing import IO, Any

from floor_rows import FAMILIES, KINDS, Row, of_seed, of_table

#: Microseconds of launches in a sample, about, and how many launches at least and at most.
SAMPLE, FEWEST, MOST = 1500.0, 8, 48
#: Lines of kinds are held against their bars in the mean, and may be so far off, on sizes of a seed.
OF_MEAN = 1.1
#: Kinds whose rows are held against their bars one by one, beside those of --bars.
ONE_BY_ONE = ("bf16", "bf16_silu", "w4", "w8", "fp8")
Record = dict[str, Any]


def machine(options: argparse.Namespace) -> Record:
    """What a figure was measured with."""
    import postlude
    import torch

    def told(*command: str) -> str | None:
        try:
            folder = os.path.dirname(os.path.abspath(__file__))
            return (
                subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout.strip() or None
            )
        except (OSError, subprocess.CalledProcessError):
            return None

    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": told("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"),
        "torch": torch.__version__,
        "postlude": postlude.__version__,
        "commit": os.environ.get("POSTLUDE_COMMIT") or told("git", "rev-parse", "--short", "HEAD"),
        "date": datetime.date.today().isoformat(),
        "sizes": "bars" if options.bars else f"seed {options.seed}",
    }


class Run:
    """What all rows share."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch
        from floor_clock import Clock, Floor

        torch.manual_seed(options.seed)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.options = options
        self.clock, self.floor = Clock(), Floor()
        self.kernels: dict[str, Any] = {}
        self.floor.warm_up()

    def kernel(self, row: Row) -> Any:
        import postlude

        text = KINDS[row.kind].text
        if text not in self.kernels:
            self.kernels[text] = postlude.compile(text)
        return self.kernels[text]

    def measure(self, row: Row) -> Record:
        """Checks a row, then times it."""
        from floor_problems import Problem

        problem = Problem(row, self.kernel(row), self.options.compile)
        wrong = problem.wrong()
        found: Record = {"state": "WRONG" if wrong else "fine", "wrong": wrong, "left_out": problem.left_out}
        if wrong:
            return found
        competitors = {"ours": problem.ours, **problem.peers}
        floors = self.floor.competitors(row.moved, row.floor == "copy")
        competitors |= floors
        competitors["empty"] = self.floor.empty()
        launches = min(MOST, max(FEWEST, round(SAMPLE / row.predicted)))
        rounds = self.clock.rounds(competitors, launches, self.options.rounds)
        us = {name: statistics.median(samples) for name, samples in rounds.items()}
        # The faster way to move the bytes is the floor.
        fastest = min(floors, key=lambda name: us[name])
        us["floor"], rounds["floor"] = us[fastest], rounds[fastest]
        peers = {name: us[name] for name in problem.peers}
        best = min(peers, key=lambda name: peers[name], default=None)
        of_floor = sorted(ours / floor for ours, floor in zip(rounds["ours"], rounds["floor"]))
        found |= {"us": us, "of_floor": statistics.median(of_floor), "spread": [of_floor[0], of_floor[-1]]}
        if best is not None:
            of_peer = [peer / ours for peer, ours in zip(rounds[best], rounds["ours"])]
            found |= {"best_peer": best, "of_peer": statistics.median(of_peer)}
        found["bars"] = [{"bar": str(bar), "allowed_us": bar.allowed(us)} for bar in row.bars]
        for bar in found["bars"]:
            allowed = bar["allowed_us"]
            bar["of_bar"], bar["met"] = (
                (None, None) if allowed is None else (us["ours"] / allowed, us["ours"] <= allowed)
            )
        return found | {"launches": launches, "samples": rounds}


def attempt(run: Run, row: Row) -> Record:
    """A row's record, whatever becomes of it; `stuck` where the GPU takes no more work."""
    import torch

    try:
        return run.measure(row)
    except Exception as error:  # noqa: BLE001
        found: Record = {"state": "FAILED", "wrong": [f"{type(error).__name__}: {str(error)[:400]}"]}
    try:
        torch.cuda.synchronize()
    except Exception:  # noqa: BLE001
        found["stuck"] = True
    return found


def verdict(record: Record) -> str:
    """Each bar with how ours stands to it."""
    words = {True: "met", False: "missed", None: "not measured"}
    return "; ".join(f"{bar['bar']} {words[bar['met']]}" for bar in record.get("bars", ())) or "no bar"


def line(record: Record) -> str:
    name = f"{record['row']:36}"
    if record["state"] != "fine":
        return f"{name} {record['state']}: {'; '.join(record['wrong'])}"
    us, (low, high) = record["us"], record["spread"]
    text = f"{name} {us['ours']:8.1f} / {us['floor']:7.1f} us = {record['of_floor']:6.2f} ({low:.2f}-{high:.2f})"
    if "best_peer" in record:
        text += f"  {record['best_peer']} {us[record['best_peer']]:.1f} us = {record['of_peer']:.2f}x"
    return f"{text}  {verdict(record)}"


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def summary(records: list[Record], unseen: bool) -> list[str]:
    """The table by family."""
    lines = ["row                                      ours /   floor us = ratio (least-most)  best peer  bars"]
    met: list[bool] = []
    for family in FAMILIES:
        own = [record for record in records if record["family"] == family]
        fine = [record for record in own if record["state"] == "fine"]
        lines += [line(record) for record in own]
        if not fine:
            continue
        means = f"  {family}: {geometric_mean([one['of_floor'] for one in fine]):.3f} of the floor in the mean"
        peers = [one["of_peer"] for one in fine if "of_peer" in one]
        lines.append(means + (f", {geometric_mean(peers):.3f}x the best peer" if peers else ""))
        for kind in dict.fromkeys(record["kind"] for record in fine):
            rows = [record["bars"] for record in fine if record["kind"] == kind]
            if not unseen or kind in ONE_BY_ONE:
                met += [bar["met"] for bars in rows for bar in bars if bar["met"] is not None]
                continue
            for same in zip(*rows):
                ratios = [bar["of_bar"] for bar in same if bar["of_bar"] is not None]
                if ratios:
                    mean = geometric_mean(ratios)
                    met.append(mean <= OF_MEAN)
                    what = "met" if met[-1] else "missed"
                    lines.append(f"  {kind}: {mean:.3f} of its bar in the mean, at most {OF_MEAN}: {what}")
    bad = [record["row"] for record in records if record["state"] != "fine"]
    lines.append(
        f"{sum(met)} of {len(met)} bars met; {len(bad)} rows wrong or failed{': ' * bool(bad)}{', '.join(bad)}"
    )
    return lines


def keep(file: IO[str] | None, record: Record) -> None:
    """A line of its own, on the disk before the next row begins."""
    if file is not None:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def show(rows: list[Row]) -> None:
    print(f"{'row':36} {'read':>12} {'written':>12} {'floor':5} {'us':>7}  bars")
    for row in rows:
        bars = "; ".join(map(str, row.bars)) or "none"
        print(f"{row.name:36} {row.read:12} {row.written:12} {row.floor:5} {row.predicted:7.1f}  {bars}")


def run_rows(rows: list[Row], options: argparse.Namespace) -> list[Record]:
    """The records of the rows that there was time for."""
    begin = time.monotonic()
    run, facts = Run(options), machine(options)
    import torch

    records: list[Record] = []
    # How long the next row may take: as long as the longest so far, and at first a guess.
    longest = 60.0 if options.compile else 10.0
    file = open(options.json, "a") if options.json else None
    for number, row in enumerate(rows):
        started = time.monotonic()
        stuck = bool(records) and records[-1].get("stuck", False)
        if stuck or (options.time_limit is not None and started - begin + longest > options.time_limit):
            left = ", ".join(one.name for one in rows[number:])
            why = "the GPU takes no more work" if stuck else "no time is left"
            print(f"left out, {why}: {left}", file=sys.stderr, flush=True)
            break
        facts_of_row = {"row": row.name, "family": row.family, "kind": row.kind, "dims": row.sizes}
        bytes_of_row = {"read": row.read, "written": row.written, "floor": row.floor, "predicted_us": row.predicted}
        record: Record = {**facts_of_row, **bytes_of_row, **attempt(run, row)}
        record["seconds"] = time.monotonic() - started
        longest = max(longest, record["seconds"])
        records.append(record)
        keep(file, record | facts)
        print(f"{number + 1}/{len(rows)} {record['seconds']:5.1f} s  {line(record)}", file=sys.stderr, flush=True)
        if not record.get("stuck"):
            torch.cuda.empty_cache()
    if file is not None:
        file.close()
    return records


def families(text: str) -> list[str]:
    found = text.split(",")
    unknown = [one for one in found if one not in FAMILIES]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no family {unknown[0]!r}; the families are {', '.join(FAMILIES)}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="what the sizes are drawn from")
    parser.add_argument("--bars", action="store_true", help="the sizes of the table of bars instead")
    parser.add_argument("--families", type=families, default=FAMILIES, help=", ".join(FAMILIES))
    parser.add_argument("--rows", type=int, help="only so many rows, the first ones")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="torch.compile among the peers: 8 to 60 s a row")
    parser.add_argument("--json", help="a line for every row is appended, as soon as it is known")
    parser.add_argument("--time-limit", type=float, help="no row is begun that would end after so many seconds")
    parser.add_argument(
        "--list", action="store_true", help="the rows, their bytes and what the formula predicts, nothing run"
    )
    options = parser.parse_args()
    rows = [row for row in (of_table() if options.bars else of_seed(options.seed)) if row.family in options.families]
    rows = rows[: options.rows]
    if options.list:
        show(rows)
        return 0
    records = run_rows(rows, options)
    print("\n".join(summary(records, not options.bars)))
    return 1 if any(record["state"] != "fine" for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
