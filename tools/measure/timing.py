"""What a step costs: time, memory and growth of the networks that bench compares, measured in turns.

Nothing of the recipe is repeated here. A step is a step of tinyllm.train at its defaults, whichever network of
peers.py it trains and whether with our optimizers or with AdamW in their place."""

import contextlib
import io
import json
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
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

import tinyllm
from tinyllm import training
from tools.measure import peers

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = {"tinyllm": tinyllm.TinyLLM, "TransformerEncoder": peers.EncoderPeer, "GPT-2": peers.GPT2Peer}
BASE, PARTS = "tinyllm, our recipe", "TransformerEncoder, PyTorch's Muon"     # the same twice: by us, by PyTorch
TWINS = "tinyllm", "TransformerEncoder" # one network, written in two ways
CONFIG, BATCH = tinyllm.Config(), signature(tinyllm.train).parameters["batch"].default
RATES = 0.0025, 0.005, 0.01            # of AdamW; short runs choose one for each network
SQUARE = 1536                         # size of the matrices whose product is taken for the machine's peak


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
