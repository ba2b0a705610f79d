"""The command line (chapter 12)."""
import argparse, os, sys, time, tinyllm
from inspect import signature

HELP = dict(data="a file, - for standard input, or shakespeare; else Python's manual", seed="of random numbers",
            model="checkpoint; else the package's", init="checkpoint to start from", tokens="symbols to add",
            out="model file; for inspect, heat map folder", prompt="text to start from", steps="training steps",
            device="auto, cpu, cuda or mps", temperature="0: the likeliest", top_k="only the k likeliest")

def main(argv=None):
    """Run a command: each function below is one, and its parameters are the options."""
    parser = argparse.ArgumentParser("tinyllm", description="Train, run and inspect a small model.")
    commands = parser.add_subparsers(required=True, dest="run", metavar="train | generate | inspect")
    for run in (train, generate, inspect):
        command = commands.add_parser(run.__name__, help=run.__doc__, description=run.__doc__)
        for name, option in signature(run).parameters.items():
            flag = name if name == "prompt" else "--" + name.replace("_", "-")
            text = HELP[name] + f" (default: {option.default})" * (option.default not in (None, option.empty))
            command.add_argument(flag, type=option.annotation, default=option.default, help=text)
    options = vars(parser.parse_args(argv))
    sys.stdout and sys.stdout.reconfigure(errors="replace")  # a terminal may not know each character
    sys.stderr = sys.stderr or open(os.devnull, "w")  # closed, it would stop the progress bar
    try:
        globals()[options.pop("run")](**options)
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(130)  # nobody reads on, or Ctrl-C: nothing is left to be said
    except (ArithmeticError, AssertionError, ImportError, OSError, RuntimeError, ValueError) as error:
        time.sleep(3 * int(os.environ.get("LOCAL_RANK", 0)))  # under torchrun, the first to end ends all
        parser.exit(2, f"tinyllm: {(str(error) or repr(error)).splitlines()[0]}\n")

def train(data: str = None, steps: int = None, seed: int = 0, init: str = None,
          device: str = "auto", out: str = "tinyllm.safetensors"):
    """train a model on a text and save it"""
    file = os.path.realpath(out)
    if (file == os.path.realpath(data or "") or os.path.exists(file) and not os.path.isfile(file)
            or not os.access(os.path.dirname(file), os.W_OK)):
        raise OSError(f"cannot save the model as {out!r}: give a new file in a folder you may write to")
    import torch
    torch.set_float32_matmul_precision("medium")  # quicker products of matrices (chapter 9)
    device = torch.accelerator.current_accelerator() or "cpu" if device == "auto" else device
    if "WORLD_SIZE" in os.environ:  # started by torchrun: one process for each device
        assert data != "-", "torchrun's processes would share standard input: give --data a file"
        str(device) == "cpu" or torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group()
    torch.manual_seed(seed)
    model = (tinyllm.TinyLLM() if init is None else tinyllm.TinyLLM.load(init)).to(device)
    training, validation = tinyllm.split(tinyllm.load_ids(data))
    try:
        tinyllm.train(model, training, seed=seed, **{} if steps is None else {"steps": steps})
    except KeyboardInterrupt:
        print("interrupted: keeping the weights so far", file=sys.stderr)
    if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
        model.save(out)
        print(f"saved {out}", flush=True)
        print(f"val_loss {tinyllm.evaluate(model, validation):.4f} nats per symbol")

def generate(prompt: str, model: str = None, tokens: int = 200, temperature: float = 0.8,
             top_k: int = None, seed: int = 0):
    """continue a text"""
    for step in tinyllm.generate(tinyllm.TinyLLM.load(model), prompt, tokens, temperature, top_k, seed):
        print(prompt + step.text, end="", flush=True)
        prompt = ""  # it is written once, with the first step
    print(prompt)

def inspect(prompt: str, model: str = None, out: str = None):
    """print parameters, shapes and next symbols; draw attention"""
    llm = tinyllm.TinyLLM.load(model)
    with tinyllm.trace(llm) as log:
        symbols = tinyllm.next_symbols(llm, prompt)
    print(tinyllm.ledger(llm), log, symbols, sep="\n\n")
    for kind in ("png", "svg") if out else ():
        os.makedirs(out, exist_ok=True)
        tinyllm.draw_attention(llm, prompt).savefig(os.path.join(out, f"attention.{kind}"))
