"""A small GPT-style Transformer: everything visible, measurable, open to intervention."""
from importlib import import_module

HOME = {name: module for module, names in {  # public name -> the module, and so chapter, it is from
    "config": "Config", "text": "encode decode symbol load_text load_ids split",
    "mask": "causal_mask", "model": "TinyLLM", "training": "train evaluate",
    "generation": "generate distribution next_logits",
    "microscope": "ledger trace intervene zero_head next_symbols attention_maps draw_attention",
}.items() for name in names.split()}
__all__, __dir__ = [*HOME], lambda: __all__  # what help() and the Tab key show

def __getattr__(name):  # called when a public name is first used
    if name not in HOME:
        raise AttributeError(f"module 'tinyllm' has no attribute {name!r}")
    return getattr(import_module("tinyllm." + HOME[name]), name)
