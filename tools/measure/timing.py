"""What a step costs: time, memory and growth of the networks that bench compares, measured in turns.

Nothing of the recipe is repeated here. A step is a step of tinyllm.train at its defaults, whichever network of
peers.py it trains and whether with our optimizers or with AdamW in their place. Each network trains with the
setting of torch.set_float32_matmul_precision that is quicker for it, ours with the one of `tinyllm train`."""

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
from tinyllm import generation, training
from tools.measure import peers

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = {"tinyllm": tinyllm.TinyLLM, "TransformerEncoder": peers.EncoderPeer, "GPT-2": peers.GPT2Peer}
BASE, PARTS = "tinyllm, our recipe", "TransformerEncoder, PyTorch's Muon"     # the same twice: by us, by PyTorch
TWINS = "tinyllm", "TransformerEncoder" # one network, written in two ways
PRECISION = dict.fromkeys(NETWORKS, "medium")       # of matrix products; measure_precision chooses for the peers
CONFIG, BATCH = tinyllm.Config(), signature(tinyllm.train).parameters["batch"].default
RATES = 0.0025, 0.005, 0.01            # of AdamW; short runs choose one for each network
SQUARE = 1536                         # size of the matrices whose product is taken for the machine's peak


def recipes(rates):
    """{name: (network, its optimizers)}, in the order of the tables; AdamW with the rate of each network."""
    return {f"{network}, {name}": (network, recipe) for network in NETWORKS for name, recipe in (
        ("our recipe", peers.our_recipe), ("PyTorch's Muon", peers.torch_muon), ("AdamW", peers.adamw(rates[network])))
        if recipe is not peers.torch_muon or network == "TransformerEncoder"}


def build(network, config=CONFIG, seed=0):
    torch.manual_seed(seed)
    return NETWORKS[network](config)


@contextlib.contextmanager
def precision(model):
    """Inside the with block, matrix products are made in the way that PRECISION has for this network."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(next(PRECISION[n] for n, network in NETWORKS.items() if isinstance(model, network)))
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def train(model, ids, steps, recipe, **options):
    """tinyllm.train without its progress bar, with the optimizers of `recipe`."""
    with precision(model), mock.patch.object(training, "make_optimizers", recipe), contextlib.redirect_stderr(io.StringIO()):
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
    with precision(model):
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


def measure_precision(ids, settings):
    """{network: {setting: milliseconds of a step}}; the quicker one is used from here on, except for ours."""
    def timed(network, setting):
        with mock.patch.dict(PRECISION, {network: setting}):
            return 1000 * step_seconds(build(network), ids, peers.our_recipe)

    tasks = {(n, s): lambda n=n, s=s: timed(n, s) for n in NETWORKS for s in ("highest", "medium")}
    rounds = interleave(tasks, max(3, settings["rounds"] // 3), "precision")
    found = {n: {s: spread(rounds[n, s]) for s in ("highest", "medium")} for n in NETWORKS}
    PRECISION.update((n, min(row, key=lambda s: row[s][1])) for n, row in found.items() if n != "tinyllm")
    return found


def measure_steps(ids, settings):
    """Training steps, their forward and backward pass alone, and the share of the machine's peak."""
    variants, models = recipes(dict.fromkeys(NETWORKS, RATES[0])), {network: build(network) for network in NETWORKS}
    seen, square = [], torch.randn(SQUARE, SQUARE)
    hook = models["tinyllm"].register_forward_pre_hook(lambda model, inputs: seen.append(inputs[0]))
    train(models["tinyllm"], ids, 1, peers.our_recipe)
    hook.remove()
    inputs = torch.cat(seen)                                # a step gives the model its batch in parts
    batch, symbols = (inputs, inputs.roll(-1, dims=1)), inputs.numel()
    with FlopCounterMode(display=False) as counter:         # the same matrices are multiplied in all three
        forward_backward(models["tinyllm"], *batch)
    flops = counter.get_total_flops()

    tasks = {name: lambda n=network, r=recipe: step_seconds(models[n], ids, r)
             for name, (network, recipe) in variants.items()}
    tasks |= {n: lambda n=n: seconds(lambda: forward_backward(models[n], *batch), repeat=4) for n in NETWORKS}

    def multiply():                                         # in the better of the two ways
        with precision(models["tinyllm"]):
            medium = [seconds(lambda: square @ square) for _ in range(3)]
        return min(medium + [seconds(lambda: square @ square) for _ in range(3)])

    tasks["peak"] = multiply
    rounds = interleave(tasks, settings["rounds"], "training steps")
    peak = np.divide(2 * SQUARE**3, rounds["peak"])         # FLOP per second, in each round
    return {"symbols_per_step": symbols, "flops": {"per_step": flops, "peak": spread(peak)},
            "steps": compared({name: rounds[name] for name in variants}, BASE),
            "passes": compared({name: rounds[name] for name in NETWORKS}, "tinyllm"),
            "share": {name: spread(flops / np.array(rounds[name]) / peak) for name in variants}}


def write_greedily(model, tokens, cache=True):
    """tinyllm.generate at temperature 0, for any network; without a cache everything is computed for each symbol."""
    next_logits = generation.next_logits
    with mock.patch.object(generation, "next_logits", lambda model, ids, past: next_logits(model, ids, past if cache else None)):
        return [step.id for step in tinyllm.generate(model, "T", tokens, temperature=0)]


def measure_generation(settings):
    """Greedy text, one symbol at a time: once as far as the window reaches, and once four windows long. There
    ours slides its window, and GPT-2 gets a table of positions that is long enough."""
    found, models = {}, {n: build(n).eval() for n in TWINS}
    for title, tokens in (("one window", CONFIG.context - 1), ("four windows", 4 * CONFIG.context)):
        gpt2, start = build("GPT-2", replace(CONFIG, context=tokens + 1)).eval(), tinyllm.encode("T")[None]
        tasks = {"tinyllm": lambda: write_greedily(models["tinyllm"], tokens),
                 "GPT-2": lambda: gpt2.generate(start, tokens, True)}
        tasks |= {f"{n}, no cache": lambda m=m: write_greedily(m, tokens, False) for n, m in models.items()}
        tasks["GPT-2, no cache"] = lambda: gpt2.generate(start, tokens, False)
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


def probe(variant, config, batch, setting):
    """In the new process: its memory when all that it needs is loaded, and at the peak of some training steps."""
    network, recipe = recipes(dict.fromkeys(NETWORKS, RATES[0]))[variant]
    PRECISION[network] = setting
    ids = tinyllm.split(tinyllm.load_ids())[0]
    train(build(network, replace(CONFIG, context=2)), ids, 2, recipe, batch=1)    # parts of torch are loaded late
    before = peak_megabytes()
    train(build(network, tinyllm.Config(**config)), ids, 5, recipe, batch=batch)
    print(json.dumps({"before": before, "peak": peak_megabytes()}))


def run_probe(variant, config, batch):
    network = variant.partition(",")[0]
    arguments = json.dumps({"variant": variant, "config": asdict(config), "batch": batch, "setting": PRECISION[network]})
    run = subprocess.run([sys.executable, "-m", "tools.measure.timing", arguments], cwd=ROOT, capture_output=True, text=True)
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


if __name__ == "__main__":
    probe(**json.loads(sys.argv[1]))
