"""Measure the model against its peers: `python -m tools.measure.bench`, or with `--quick`, to see that it works.

What is compared is measured in turns, round by round, each round beginning with another, because no machine is
equally fast all the time. A ratio is taken within a round; what counts is the median of the rounds, with the
quartiles on both sides. The results go to the terminal and to docs/assets/bench.json, which docs/A5-peers.md
shows and explains.

How steps are timed is in timing.py."""

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from tabulate import tabulate
from tqdm import tqdm

import tinyllm
from tools.measure import peers
from tools.measure.timing import (
    BASE,
    BATCH,
    CONFIG,
    NETWORKS,
    PARTS,
    RATES,
    build,
    measure_generation,
    measure_growth,
    measure_memory,
    measure_steps,
    probe,
    read,
    recipes,
    train,
)

ROOT = Path(__file__).resolve().parents[2]

OUT = ROOT / "docs" / "assets" / "bench.json"
FULL = dict(rounds=30, seconds=15, seeds=2, repeats=2,
            grow=dict(context=(.5, 1, 2, 4, 8), width=(.5, 1, 2, 4), batch=(.25, .5, 1, 2, 4)))
QUICK = dict(rounds=5, seconds=2, seeds=1, repeats=1, grow=dict(context=(1, 2), width=(1, 2), batch=(1, 2)))


# ---- Loss ------------------------------------------------------------------

def learn(network, recipe, ids, validation, steps, seed):
    """Train once; the loss on the whole validation text at the end, and on a part of it, [step, loss], on the way."""
    model, curve, pause, start = build(network, seed=seed), [], 0.0, time.perf_counter()

    def look(step, loss):
        nonlocal pause
        if (step + 1) % max(1, steps // 8) == 0:            # looking is not training: its time does not count
            now = time.perf_counter()
            curve.append([step + 1, round(tinyllm.evaluate(model, validation[:20_000]), 4)])
            pause += time.perf_counter() - now

    train(model, ids, steps, recipe, seed=seed, on_step=look)
    used = time.perf_counter() - start - pause
    return {"seconds": round(used, 2), "loss": round(tinyllm.evaluate(model, validation), 4), "curve": curve}


def choose_rates(ids, settings, speed):
    """{network: {AdamW's learning rate: training loss at the end of a short run}}."""
    found = {network: {} for network in NETWORKS}
    for network, rate in tqdm([(network, rate) for network in NETWORKS for rate in RATES], "AdamW's learning rate"):
        steps = max(20, round(settings["seconds"] / 3 / speed[f"{network}, AdamW"]))
        losses = train(build(network), ids, steps, peers.adamw(rate))
        found[network][rate] = round(float(np.mean(losses[-steps // 10:])), 4)
    return found


def measure_losses(ids, validation, variants, speed, settings):
    """After equal time (as many steps as fit into it at the measured speed) and after equal symbols (as many steps
    as ours), with each seed."""
    steps = {("equal time", name): max(1, round(settings["seconds"] / speed[name])) for name in variants}
    steps |= {("equal symbols", name): steps["equal time", BASE] for name in variants}
    wanted = sorted({(seed, name, n) for (title, name), n in steps.items() for seed in range(settings["seeds"])})
    runs = {(seed, name, n): learn(*variants[name], ids, validation, n, seed)
            for seed, name, n in tqdm(wanted, "training")}
    losses = {"equal time": {}, "equal symbols": {}}
    for (title, name), n in steps.items():
        mine = [runs[seed, name, n] for seed in range(settings["seeds"])]
        losses[title][name] = {"steps": n} | {key: [run[key] for run in mine] for key in ("loss", "seconds")}
    curves = {name: runs[0, name, steps["equal time", name]]["curve"] for name in variants}
    return {"losses": losses, "curves": curves}


def measure_ngrams(ids, validation, limit):
    """Counts in place of a network; how long the sequences are is chosen on the end of the training text."""
    ids, validation, start = ids.numpy(), validation.numpy(), time.perf_counter()
    first, last = tinyllm.split(ids)
    trials = {longest: peers.NGram(first, limit, longest).loss(last) for longest in range(2, 8)}
    model = peers.NGram(ids, limit, min(trials, key=trials.get))
    used = time.perf_counter() - start
    return {"parameters": model.parameters, "longest": model.longest, "trials": trials, "seconds": round(used, 2),
            "loss": model.loss(validation)}


# ---- All of it -------------------------------------------------------------

def machine():
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        cpu = next(line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": cpu, "cores": cores, "threads": torch.get_num_threads(),
            "system": f"{platform.system()} {platform.machine()}"}


def measure(data, settings):
    start, (ids, validation) = time.monotonic(), read(data)
    if len(validation) < 20 * CONFIG.context:
        raise ValueError(f"a text of {len(ids) + len(validation)} symbols is too short to compare models on")
    name = {None: "Python's manual", "-": "standard input"}.get(data, os.path.basename(data or ""))
    results = {
        "date": datetime.date.today().isoformat(), "machine": machine(), "settings": settings,
        "versions": {"Python": platform.python_version()} | {n: importlib.metadata.version(n) for n in ("torch", "transformers")},
        "text": {"name": name, "training": len(ids), "validation": len(validation)},
        "config": asdict(CONFIG), "batch": BATCH,
        "parameters": {network: sum(p.numel() for p in build(network).parameters()) for network in NETWORKS}}
    results |= measure_steps(ids, settings)
    speed = {name: row["seconds"][1] for name, row in results["steps"].items()}
    results["rates"] = choose_rates(ids, settings, speed)
    variants = recipes({network: min(tried, key=tried.get) for network, tried in results["rates"].items()})
    trained = {name: variant for name, variant in variants.items() if name != PARTS}     # it learns as our recipe does
    results |= measure_losses(ids, validation, trained, speed, settings)
    results["ngrams"] = measure_ngrams(ids, validation, results["parameters"]["tinyllm"])
    if data is None:      # the shipped model was trained on this text, for as long as `tinyllm train` does
        results["shipped"] = round(tinyllm.evaluate(tinyllm.TinyLLM.pretrained(), validation), 4)
    results["generation"] = measure_generation(settings)
    memory = measure_memory([(name, CONFIG, BATCH) for name in variants], settings, "memory")
    results["memory"] = {name: row for (name, _, _), row in memory.items()}
    results["growth"] = measure_growth(ids, settings)
    results["minutes"] = round((time.monotonic() - start) / 60, 1)
    return json.loads(json.dumps(results))     # as a reader of the file sees it


def band(three, form="{:.2f}"):
    low, middle, high = map(form.format, three)
    return f"{middle} ({low}–{high})"


def report(r):
    """The tables for the terminal."""
    def show(title, columns, rows, form):
        print("", title, tabulate(rows, columns, floatfmt=form), sep="\n")

    print(f"\n{r['machine']['cpu']}, {r['machine']['threads']} threads; " + ", ".join(map(" ".join, r["versions"].items())))
    show("Training step, time as a multiple of ours (quartiles in brackets)",
         ["", "symbols/s", "time", "of the peak", "peak MB"],
         [(name, r["symbols_per_step"] / row["seconds"][1], band(row["ratio"]), band(r["share"][name], "{:.0%}"),
           r["memory"][name]["peak"][1]) for name, row in r["steps"].items()], ".0f")
    show("Forward and backward pass alone", ["", "time"], [(name, band(row["ratio"])) for name, row in r["passes"].items()], "")
    show(f"Validation loss, nats per symbol, mean of {r['settings']['seeds']}; equal time is {r['settings']['seconds']} s",
         ["", *r["losses"]],
         [(name, *(float(np.mean(rows[name]["loss"])) for rows in r["losses"].values())) for name in r["curves"]]
         + [("n-grams", *2 * [r["ngrams"]["loss"]])], ".3f")
    show("Generation, time as a multiple of ours", ["", "", "symbols/s", "time"],
         [(title, name, run["symbols"] / row["seconds"][1], band(row["ratio"]))
          for title, run in r["generation"].items() for name, row in run["rows"].items()], ".0f")
    show("Growth", ["", "", "", "ms per step", "peak MB"],
         [(axis, row["value"], network, 1000 * row["seconds"][1], row["peak"][1]) for axis, networks in r["growth"].items()
          for network, rows in networks.items() for row in rows], ".0f")


def write(results, path):
    """All of it or nothing: whatever happens, the old file stays until the new one is complete."""
    part = Path(f"{path}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def stop(message, status):
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr)
    sys.exit(status)


def main(argv=None):
    parser = argparse.ArgumentParser("bench", description="Measure the model against its peers.")
    parser.add_argument("--data", help="text to train on; without it, Python's own manual")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements, to see that it works; writes no file")
    parser.add_argument("--seconds", type=float, help="training time after which losses are compared (default: 15)")
    parser.add_argument("--seeds", type=int, help="how often each training is repeated (default: 2)")
    parser.add_argument("--rounds", type=int, help="how often each step is timed (default: 30)")
    parser.add_argument("--out", type=Path, help=f"file for the results (default: {OUT.relative_to(ROOT)}; none with --quick)")
    parser.add_argument("--probe", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}      # nothing is fetched
    if options.probe:
        return probe(**options.probe)
    given = {name: value for name in ("seconds", "seeds", "rounds") if (value := getattr(options, name)) is not None}
    out = options.out or (None if options.quick else OUT)
    try:
        importlib.metadata.version("transformers")
        if any(value <= 0 for value in given.values()) or out and not out.parent.is_dir():
            raise ValueError("--seconds, --seeds and --rounds must be more than 0, and the folder of --out must exist")
        results = measure(options.data, (QUICK if options.quick else FULL) | given)
        report(results)
        if out:
            write(results, out)
            print(f"\nwrote {out}" + "; `make book` shows it in appendix 5" * (out == OUT))
    except importlib.metadata.PackageNotFoundError as missing:
        stop(f"{missing.name} is not installed: `make bench` does it, or pip install -e '.[bench]'", 2)
    except KeyboardInterrupt:
        stop("interrupted, nothing written", 130)
    except (OSError, RuntimeError, ValueError) as error:
        stop(str(error).splitlines()[0], 2)


if __name__ == "__main__":
    main()
