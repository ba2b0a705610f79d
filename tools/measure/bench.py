"""Measure the model against its peers: `python -m tools.measure.bench`, or with `--quick`, to see that it works.

What is compared is measured in turns, round by round, each round beginning with another, because no machine is
equally fast all the time. A ratio is taken within a round; what counts is the median of the rounds, with the
quartiles on both sides. The results go to the terminal and to docs/assets/bench.json, which docs/A5-peers.md
shows and explains.

Nothing of the recipe is repeated here. A step is a step of tinyllm.train at its defaults, whichever network of
tools/measure/peers.py it trains and whether with our optimizers or with AdamW in their place."""

import argparse
import contextlib
import datetime
import importlib.metadata
import io
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from tabulate import tabulate
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

import tinyllm
from tinyllm import training
from tools.measure import peers

ROOT = Path(__file__).resolve().parents[2]

OUT = ROOT / "docs" / "assets" / "bench.json"
NETWORKS = {"tinyllm": tinyllm.TinyLLM, "TransformerEncoder": peers.EncoderPeer, "GPT-2": peers.GPT2Peer}
BASE, PARTS = "tinyllm, our recipe", "TransformerEncoder, PyTorch's Muon"     # the same twice: by us, by PyTorch
TWINS = "tinyllm", "TransformerEncoder" # one network, written in two ways
CONFIG, BATCH = tinyllm.Config(), signature(tinyllm.train).parameters["batch"].default
RATES = 0.0025, 0.005, 0.01            # of AdamW; short runs choose one for each network
SQUARE = 1536                         # size of the matrices whose product is taken for the machine's peak
FULL = dict(rounds=30, seconds=15, seeds=2, repeats=2,
            grow=dict(context=(.5, 1, 2, 4, 8), width=(.5, 1, 2, 4), batch=(.25, .5, 1, 2, 4)))
QUICK = dict(rounds=5, seconds=2, seeds=1, repeats=1, grow=dict(context=(1, 2), width=(1, 2), batch=(1, 2)))


def recipes(rates):
    """{name: (network, its optimizers)}, in the order of the tables; AdamW with the rate of each network."""
    return {f"{network}, {name}": (network, recipe) for network in NETWORKS for name, recipe in (
        ("our recipe", peers.our_recipe), ("PyTorch's Muon", peers.torch_muon), ("AdamW", peers.adamw(rates[network])))
        if recipe is not peers.torch_muon or network == "TransformerEncoder"}


def read(data=None):
    """The two parts of a text, in ids."""
    return tinyllm.split(tinyllm.encode(tinyllm.load_text(data)))


def build(network, config=CONFIG, seed=0):
    torch.manual_seed(seed)
    return NETWORKS[network](config)


def train(model, ids, steps, recipe, **options):
    """tinyllm.train without its progress bar, with the optimizers of `recipe`."""
    with mock.patch.object(training, "make_optimizers", recipe), contextlib.redirect_stderr(io.StringIO()):
        return tinyllm.train(model, ids, steps=steps, **options)


# ---- Time ------------------------------------------------------------------

def seconds(action, repeat=1):
    start = time.perf_counter()
    for _ in range(repeat):
        action()
    return (time.perf_counter() - start) / repeat


def step_seconds(model, ids, recipe, steps=4, **options):
    """Mean time of a training step. The first of a run is left out: the optimizers make their tensors in it."""
    stamps = []
    train(model, ids, steps + 1, recipe, on_step=lambda step, loss: stamps.append(time.perf_counter()), **options)
    return (stamps[-1] - stamps[0]) / steps


def forward_backward(model, inputs, targets):
    F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
    model.zero_grad()


def interleave(tasks, rounds, title, warm_up=1):
    """{name: what the task returned in each round}; the rounds of the warm-up do not count."""
    names, found = list(tasks), {name: [] for name in tasks}
    order = [name for r in range(rounds + warm_up) for name in names[r % len(names):] + names[:r % len(names)]]
    for name in tqdm(order, title):
        found[name].append(tasks[name]())
    return {name: values[warm_up:] for name, values in found.items()}


def spread(values):
    """[lower quartile, median, upper quartile], four digits."""
    return [float(f"{q:.4g}") for q in np.quantile(np.asarray(values, float), (0.25, 0.5, 0.75))]


def compared(rounds, base):
    """How many times as long as `base` each took in the same round; and its seconds, by that ratio and the median
    time of `base`: so they are free of how fast the machine was just then."""
    ratios, typical = {name: np.divide(times, rounds[base]) for name, times in rounds.items()}, np.median(rounds[base])
    return {name: {"seconds": spread(rounds[base] if name == base else ratio * typical), "ratio": spread(ratio)}
            for name, ratio in ratios.items()}


def measure_steps(ids, settings):
    """Training steps, their forward and backward pass alone, and the share of the machine's peak."""
    variants, models = recipes(dict.fromkeys(NETWORKS, RATES[0])), {network: build(network) for network in NETWORKS}
    seen, square = [], torch.randn(SQUARE, SQUARE)
    hook = models["tinyllm"].register_forward_pre_hook(lambda model, inputs: seen.append(inputs[0]))
    train(models["tinyllm"], ids, 1, peers.our_recipe)
    hook.remove()
    [inputs] = seen
    batch, symbols = (inputs, inputs.roll(-1, dims=1)), inputs.numel()
    with FlopCounterMode(display=False) as counter:         # the same matrices are multiplied in all three
        forward_backward(models["tinyllm"], *batch)
    flops = counter.get_total_flops()

    tasks = {name: lambda n=network, r=recipe: step_seconds(models[n], ids, r)
             for name, (network, recipe) in variants.items()}
    tasks |= {n: lambda n=n: seconds(lambda: forward_backward(models[n], *batch), repeat=4) for n in NETWORKS}

    tasks["peak"] = lambda: min(seconds(lambda: square @ square) for _ in range(3))
    rounds = interleave(tasks, settings["rounds"], "training steps")
    peak = np.divide(2 * SQUARE**3, rounds["peak"])         # FLOP per second, in each round
    return {"symbols_per_step": symbols, "flops": {"per_step": flops, "peak": spread(peak)},
            "steps": compared({name: rounds[name] for name in variants}, BASE),
            "passes": compared({name: rounds[name] for name in NETWORKS}, "tinyllm"),
            "share": {name: spread(flops / np.array(rounds[name]) / peak) for name in variants}}


def write_greedily(model, tokens):
    """tinyllm.generate at temperature 0, for any network."""
    return [step.id for step in tinyllm.generate(model, "T", tokens, temperature=0)]


def measure_generation(settings):
    """Greedy text, one symbol at a time: once as far as the window reaches, and once four windows long. There
    our loop slides its window, and GPT-2 gets a table of positions that is long enough."""
    found, models = {}, {n: build(n).eval() for n in TWINS}
    for title, tokens in (("one window", CONFIG.context - 1), ("four windows", 4 * CONFIG.context)):
        gpt2, start = build("GPT-2", replace(CONFIG, context=tokens + 1)).eval(), tinyllm.encode("T")[None]
        tasks = {n: lambda m=m: write_greedily(m, tokens) for n, m in models.items()}
        tasks["GPT-2, no cache"] = lambda: gpt2.generate(start, tokens, False)
        tasks["GPT-2, with its cache"] = lambda: gpt2.generate(start, tokens, True)
        tasks = {name: lambda task=task: seconds(task) for name, task in tasks.items()}
        rounds = interleave(tasks, max(3, settings["rounds"] // 3), f"generation, {title}")
        found[title] = {"symbols": tokens, "rows": compared(rounds, "tinyllm")}
    return found


# ---- Memory and growth: every measurement in a process of its own -----------

def peak_megabytes():
    """The most memory this process has held so far."""
    try:     # Linux: this program alone; elsewhere the kernel's figure for the process
        return float(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) / 1024
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def probe(variant, config, batch):
    """In the new process: its memory when all that it needs is loaded, and at the peak of some training steps."""
    network, recipe = recipes(dict.fromkeys(NETWORKS, RATES[0]))[variant]
    ids = read()[0]
    train(build(network, replace(CONFIG, context=2)), ids, 2, recipe, batch=1)    # parts of torch are loaded late
    before = peak_megabytes()
    train(build(network, tinyllm.Config(**config)), ids, 5, recipe, batch=batch)
    print(json.dumps({"before": before, "peak": peak_megabytes()}))


def run_probe(variant, config, batch):
    arguments = json.dumps({"variant": variant, "config": asdict(config), "batch": batch})
    command = [sys.executable, "-m", "tools.measure.bench", "--probe", arguments]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if run.returncode:
        raise RuntimeError(f"measuring {variant} failed: {(run.stderr.strip() or 'killed').splitlines()[-1]}")
    return json.loads(run.stdout)


def measure_memory(points, settings, title):
    """{point: {"before": …, "peak": …}} for points (variant, config, batch)."""
    tasks = {point: lambda point=point: run_probe(*point) for point in points}
    found = interleave(tasks, settings["repeats"], title, warm_up=0)
    return {point: {key: spread([one[key] for one in values]) for key in values[0]} for point, values in found.items()}


def measure_growth(ids, settings):
    """Step time and memory at several contexts, widths and batches, the rest as it is."""
    c, rows, tasks = CONFIG, [], {}
    for axis, factors in settings["grow"].items():
        for x in factors:
            config = {"context": replace(c, context=round(c.context * x)), "batch": c,
                      "width": replace(c, d_model=round(c.d_model * x), d_ff=round(c.d_ff * x))}[axis]
            batch = round(BATCH * x) if axis == "batch" else BATCH
            value = {"context": config.context, "width": config.d_model, "batch": batch}[axis]
            rows += [(axis, network, value, (f"{network}, our recipe", config, batch)) for network in TWINS]
    for axis, network, value, (variant, config, batch) in rows:     # what the axes have in common is measured once
        tasks[variant, config, batch] = lambda model=build(network, config), batch=batch: step_seconds(
            model, ids, peers.our_recipe, 2, batch=batch)
    times = interleave(tasks, 2 * settings["repeats"], "growth: time")
    memory = measure_memory(tasks, settings, "growth: memory")
    found = {axis: {network: [] for network in TWINS} for axis in settings["grow"]}
    for axis, network, value, point in rows:
        found[axis][network].append({"value": value, "seconds": spread(times[point])} | memory[point])
    return found


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
