"""Fits the cost model of short launches (crates/postlude/src/target/sm90/plan/cost/short.rs).

    python bench/fit_cost_model.py                 # what the constants below lose to the fastest schedule
    python bench/fit_cost_model.py --fit 9001      # fit to one seed, and say what the result loses on every seed

A row is a product with the times of many schedules. The model chooses one; its regret is how much longer that one takes than
the fastest of the row. Needs NumPy.
"""

import argparse
import csv
import math
from pathlib import Path

import numpy as np

TIMES = Path(__file__).parent / "results" / "h200_short_tiles.tsv"
MOST_SHORT = 4e10
PROCESSORS, IN_LARGE_CLUSTERS = 132, 120

# The constants of short.rs, in its words.
CONSTANTS = {
    "cooperative": 1.27, "ping_pong": 1.05, "one_tile": 1.18, "alone": 1.37,
    "least": 12.4, "least_column": 0.345,
    "l2_64": 54.3, "l2_32": 44.4, "l2_other": 29.6,
    "row": 1.07, "row_other": 1.43, "multicast": 0.89, "overlap": 2.5,
    "few_stages": 1.06, "large_cluster": 1.06,
    "pair": 1490.0, "begun_large": 970.0, "finish_slot": 138.0, "finish_column": 0.12, "beside_products": 2.46,
    "split_k": 810.0, "split_k_element": 0.173,
    "slices_meet": 720.0, "slice_written": 0.327, "slice_read": 0.204,
    "launch": 1360.0,
}  # fmt: skip


def read():
    """Columns of numbers of all short products, and the number of its row for each."""
    rows, numbers = {}, []
    with TIMES.open() as lines:
        for line in csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"):
            size = [int(line[name]) for name in "mnk"]
            if math.prod(size) >= MOST_SHORT or size[0] <= 64:
                continue
            row = rows.setdefault((int(line["seed"]), line["row"]), len(rows))
            if line["swap_ab"] == "1":
                size[:2] = size[1], size[0]
            tile, cluster = (list(map(int, line[name].split("x"))) for name in ("tile", "cluster"))
            knobs = [line["warpgroups"], line["split_k"], line["slices"], line["waves"], line["stages"]]
            knobs += [line["epilogue_tile"], line["us"], line["ours/bar"]]
            ping_pong = line["kernel"] == "ping-pong"
            numbers.append([row, *size, ping_pong, *tile, *cluster, *map(float, knobs)])
    names = "row m n k ping_pong rows columns below beside warpgroups split_k slices whole stages epilogue us bar"
    return list(rows), dict(zip(names.split(), np.array(numbers, dtype=float).T, strict=True))


def cycles(t, c):
    """What the model says of every schedule."""
    blocks = t["below"] * t["beside"] * t["split_k"]
    most = np.floor(np.where(blocks > 2, IN_LARGE_CLUSTERS, PROCESSORS) / blocks)
    clusters = np.ceil(np.ceil(t["m"] / t["rows"]) / t["below"])
    clusters *= np.ceil(np.ceil(t["n"] / t["columns"]) / t["beside"])
    whole = np.minimum(t["whole"] * most, clusters)
    work = whole + (clusters - whole) * t["slices"]
    waves, running = np.ceil(work / most), np.minimum(work, most) * blocks
    steps = np.ceil(np.ceil(t["k"] / 64) / t["split_k"])
    ping_pong, one_tile = t["ping_pong"] > 0, waves <= 1

    waits = np.where(t["rows"] == 64, c["alone"], np.where(ping_pong, c["ping_pong"], c["cooperative"]))
    waits *= np.where(ping_pong & one_tile, c["one_tile"], 1)
    instruction = np.maximum(t["columns"] / 2, c["least"] + c["least_column"] * t["columns"])
    products = t["rows"] / 64 * 4 * instruction * waits
    line = t["k"] * 2
    rate = np.where(line % 64 == 0, c["l2_64"], np.where(line % 32 == 0, c["l2_32"], c["l2_other"]))
    shared = t["rows"] / t["beside"] ** c["multicast"] + t["columns"] / t["below"] ** c["multicast"]
    drawn = running * shared / rate
    received = (t["rows"] + t["columns"]) * np.where(line % 32 == 0, c["row"], c["row_other"])
    power = c["overlap"]
    step = (products**power + drawn**power + received**power) ** (1 / power)
    step *= np.where(t["stages"] < 4, c["few_stages"], 1)
    step *= np.where((blocks > 2) & ~one_tile, c["large_cluster"], 1)

    elements = t["rows"] * t["columns"]
    slots = t["rows"] / 64 / np.where(ping_pong, t["warpgroups"] / 2, t["warpgroups"]) * t["columns"] / t["epilogue"]
    finish = slots * (c["finish_slot"] + c["finish_column"] * t["epilogue"])
    gathered = c["split_k"] + elements * c["split_k_element"] * (t["split_k"] - 1)
    finish += np.where(t["split_k"] > 1, gathered, 0)
    begun = np.where(blocks == 1, 0, np.where(blocks == 2, c["pair"], c["begun_large"]))
    multiplied = steps * step
    cooperative = waves * (multiplied + finish)
    turns = waves * np.maximum(multiplied, (multiplied + finish * c["beside_products"]) / 2) + finish
    others = t["slices"] - 1
    written, read_again = elements * c["slice_written"], elements * c["slice_read"] * others
    mean = (written * others + read_again + finish) / (others + 1)
    cut = waves - t["whole"]
    sliced = t["whole"] * (multiplied + finish) + cut * np.ceil(steps / t["slices"]) * step
    sliced += (cut - 1) * mean + written + c["slices_meet"] + read_again + finish
    each = np.where(t["slices"] > 1, sliced, np.where(ping_pong & ~one_tile, turns, cooperative))
    return c["launch"] + begun + each


def regret(t, constants):
    """Of every row: the logarithm of what the choice takes beside the fastest, and its ours/bar."""
    expected, found = cycles(t, constants), []
    for row in np.unique(t["row"]):
        here = np.flatnonzero(t["row"] == row)
        choice = here[np.argmin(expected[here])]
        found.append((math.log(t["us"][choice] / t["us"][here].min()), t["bar"][choice]))
    return np.array(found)


def loss(t, constants, softness=0.03):
    """The regret of a choice that is random among what the model expects to be about as fast, and how far the model errs."""
    expected, row = np.log(cycles(t, constants)), t["row"].astype(int)
    count = row.max() + 1
    least, fastest = np.full(count, np.inf), np.full(count, np.inf)
    np.minimum.at(least, row, expected)
    np.minimum.at(fastest, row, t["us"])
    slower = np.log(t["us"] / fastest[row])
    weight = np.exp(-(expected - least[row]) / softness)
    regrets = np.bincount(row, weight * slower, count) / np.maximum(np.bincount(row, weight, count), 1e-300)
    near = slower < 0.3
    error = (expected - slower)[near]
    mean = np.bincount(row[near], error, count) / np.maximum(np.bincount(row[near], minlength=count), 1)
    return regrets.mean() + 0.15 * np.sqrt(np.mean((error - mean[row[near]]) ** 2))


def fitted(t, rounds, seed=1):
    """Constants that lose less, found by random steps from those above."""
    random, names = np.random.default_rng(seed), list(CONSTANTS)
    best, size = dict(CONSTANTS), dict.fromkeys(CONSTANTS, 0.15)
    least = loss(t, best)
    for _ in range(rounds):
        changed = random.choice(names, random.integers(1, 4), replace=False)
        trial = {**best, **{name: best[name] * math.exp(random.normal(0, size[name])) for name in changed}}
        trial["overlap"] = min(max(trial["overlap"], 1.5), 12.0)
        better = (now := loss(t, trial)) < least
        if better:
            best, least = trial, now
        for name in changed:
            size[name] = min(size[name] * 1.4, 0.5) if better else max(size[name] * 0.98, 0.015)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", type=int, metavar="SEED", help="fit to the rows of this seed")
    parser.add_argument("--rounds", type=int, default=3000, help="random steps of a fit")
    arguments = parser.parse_args()
    rows, times = read()
    seed_of = np.array([rows[int(row)][0] for row in times["row"]])
    part = {seed: {name: values[seed_of == seed] for name, values in times.items()} for seed in np.unique(seed_of)}
    constants = CONSTANTS
    if arguments.fit is not None:
        if arguments.fit not in part:
            parser.error(f"no rows of seed {arguments.fit}: there are {', '.join(map(str, part))}")
        own = dict(part[arguments.fit])
        own["row"] = np.unique(own["row"], return_inverse=True)[1]
        constants = fitted(own, arguments.rounds)
        for name, value in constants.items():
            print(f"{name:16} {value:.4g}")
    for seed, t in part.items():
        found = regret(t, constants)
        mean, bar = np.exp(found[:, 0].mean()), np.exp(np.log(found[:, 1]).mean())
        print(f"seed {seed}: {len(found)} rows, {mean:.3f} times the fastest, ours/bar {bar:.3f}, worst {found[:, 1].min():.3f}")


if __name__ == "__main__":
    main()
