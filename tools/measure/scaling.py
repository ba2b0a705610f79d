"""Train models of several sizes, all for the same compute, and write what comes out to docs/assets/scaling.json,
from which chapter 12 reads. A quarter of an hour on one core.

Compute is counted as in the literature: 6·N·D, six operations for each parameter N and each symbol D that is
trained on. N has the parameters that multiply: the matrices of the blocks and the head. The embedding is not in it,
because a row that is looked up costs no multiplication. The sizes differ in width; everything else of the recipe
(learning rates, batch, schedule over the steps of the run) is that of tinyllm.train, which was tuned for one width,
the book's own. The law that is fitted to the rows stands in the chapter.

    python -m tools.measure.scaling --data FILE
"""

import argparse
import json
import time
from inspect import signature
from pathlib import Path

import torch

from tinyllm import Config, TinyLLM, encode, evaluate, load_text, split, train
from tools.measure.bench import stop, write

WIDTHS = (16, 32, 48, 64, 96, 128, 192)
BUDGETS = (250, 500, 1000)     # in steps of the book's own model, the unit that its readers know
SEEDS = 3
LEFT_OUT = 64                  # the width that the fit never sees: the book's own
SAMPLE = 2**15                 # symbols of the validation text on which all are compared
RESULTS = Path(__file__).resolve().parents[2] / "docs" / "assets" / "scaling.json"
BATCH = signature(train).parameters["batch"].default


def sized(width):
    """The Config of the book with another width: heads of 16 columns, an FFN twice as wide."""
    return Config(d_model=width, n_heads=width // 16, d_ff=2 * width)


def multiplying(config):
    """N: the parameters that take part in a multiplication for every symbol."""
    C, F = config.d_model, config.d_ff
    return config.n_layers * (4 * C * C + 2 * C * F) + C * config.vocab_size


def steps_for(compute, config):
    """So many steps that 6·N·D is this compute."""
    each = 6 * multiplying(config) * BATCH * config.context
    return max(1, round(compute / each))


def run(ids, config, steps, seed):
    """(validation loss in nats per symbol, seconds of training) of one run."""
    torch.manual_seed(seed)
    model = TinyLLM(config)
    training, validation = split(ids)
    start = time.perf_counter()
    train(model, training, steps=steps, seed=seed)
    seconds = time.perf_counter() - start
    return round(evaluate(model, validation[:SAMPLE]), 4), round(seconds, 1)


def measure(ids, widths=WIDTHS, budgets=BUDGETS, seeds=SEEDS):
    """One row for each budget and size, as soon as it is there."""
    unit = 6 * multiplying(Config()) * BATCH * Config().context
    for budget in budgets:
        for width in widths:
            config = sized(width)
            N, steps = multiplying(config), steps_for(budget * unit, config)
            D = steps * BATCH * config.context
            losses, seconds = zip(*[run(ids, config, steps, seed) for seed in range(seeds)])
            yield dict(budget=budget * unit, width=width, N=N, D=D, steps=steps,
                       losses=losses, seconds=seconds)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="FILE", help="text, as for tinyllm train (default: Python's manual)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file for the results (default: %(default)s)")
    options = parser.parse_args(argv)
    text = Path(options.data).name if options.data else "Python's manual"
    try:
        ids, rows = encode(load_text(options.data)), []
        for row in measure(ids):
            rows.append(row)
            print(f"{row['budget']:.1e} operations, {row['N']:7,} parameters, {row['steps']:6,} steps: {row['losses']}", flush=True)
            write(dict(text=text, batch=BATCH, context=Config().context, left_out=LEFT_OUT, rows=rows), options.out)
    except KeyboardInterrupt:
        stop("interrupted; the rows so far are written", 130)
    except (OSError, ValueError) as error:
        stop(str(error).splitlines()[0], 2)


if __name__ == "__main__":
    main()
