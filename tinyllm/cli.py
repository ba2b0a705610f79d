"""The command line (appendix 6)."""
import argparse
from contextlib import suppress
import os
import sys
from pathlib import Path
import tinyllm

def main(argv=None):
    """Run one of the commands; what goes wrong is one line and exit status 2."""
    parser = argparse.ArgumentParser("tinyllm", description="A small language model.")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("train", help="train a model on a text and save it").add_argument
    add("--data", metavar="FILE", help="text, - for standard input (default: Python's manual)")
    add("--encoding", help="of the text (default: UTF-8); utf-8 keeps bytes that are no UTF-8")
    add("--steps", type=int, default=10_000, help="training steps (default: 10000)")
    add("--seed", type=int, default=0, help="of random numbers (default: 0)")
    add("--init", metavar="FILE", help="checkpoint to start from")
    add("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    add("--out", metavar="FILE", default="tinyllm.safetensors", help="where to save the model")
    add = commands.add_parser("generate", help="continue a text").add_argument
    add("prompt", help="text to continue")
    add("--model", metavar="FILE", help="checkpoint (default: the package's own)")
    add("--tokens", type=int, default=200, help="symbols to add (default: 200)")
    add("--temperature", type=float, default=0.8, help="0: always the likeliest (default: 0.8)")
    add("--top-k", type=int, metavar="K", help="draw from the K likeliest alone")
    add("--seed", type=int, default=0, help="of random numbers (default: 0)")
    add = commands.add_parser("inspect", help="print sizes, shapes, next symbols").add_argument
    add("prompt", help="text to read")
    add("--model", metavar="FILE", help="checkpoint (default: the package's own)")
    options = vars(parser.parse_args(argv))
    run = {"train": train, "generate": generate, "inspect": inspect}[options.pop("command")]
    sys.stdout.reconfigure(errors=sys.stdout.errors.replace("strict", "replace"))    # ? for 中
    try:
        run(**options)
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(130)                                         # nobody reads on, or Ctrl-C
    except Exception as error:                                # whatever it is: its first line
        parser.exit(2, f"tinyllm: {error}".splitlines()[0] + "\n")

def train(data, encoding, steps, seed, init, device, out):
    file, text = Path(out).resolve(), Path(data or "").resolve()
    blocked = file.exists() and not file.is_file() or not os.access(file.parent, os.W_OK)
    if blocked or file == text:
        raise OSError(f"cannot save as {out!r}: give a new file in a folder you may write to")
    import torch
    best = torch.accelerator.current_accelerator() or "cpu"
    if "WORLD_SIZE" in os.environ:                            # one of torchrun's processes
        torch.distributed.init_process_group()
        if device != "cpu" and torch.accelerator.is_available():
            torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(seed)
    model = tinyllm.TinyLLM() if init is None else tinyllm.TinyLLM.load(init)
    training, held_out = tinyllm.split(tinyllm.encode(tinyllm.load_text(data, encoding)))
    model.to(best if device == "auto" else device)
    with suppress(KeyboardInterrupt):                         # Ctrl-C keeps the weights so far
        tinyllm.train(model, training, steps, seed=seed)
    if int(os.environ.get("RANK", 0)) == 0:
        model.save(out)
        print(f"saved {out}\nval_loss {tinyllm.evaluate(model, held_out):.4f} nats per symbol")

def generate(prompt, model, tokens, temperature, top_k, seed):
    llm = tinyllm.TinyLLM.pretrained() if model is None else tinyllm.TinyLLM.load(model)
    steps = tinyllm.generate(llm, prompt, tokens, temperature, top_k, seed)
    print(prompt, end="")
    for step in steps:
        print(step.text, end="", flush=True)
    print()

def inspect(prompt, model):
    llm = tinyllm.TinyLLM.pretrained() if model is None else tinyllm.TinyLLM.load(model)
    with tinyllm.trace(llm) as log:
        symbols = tinyllm.next_symbols(llm, prompt)
    print(tinyllm.ledger(llm), log, sep="\n\n", end="\n\n")
    print(*(f"{name:>4}  {probability:.4f}" for name, probability in symbols), sep="\n")
