"""Note what a chapter reads while it runs.

Python imports a module of this name when it starts. tools/site/kernel.py puts this folder at the head of
PYTHONPATH for the process in which a chapter runs, and the processes which that one starts inherit it. Python
then announces each file it opens, and each folder it lists, to the hook that is set up here.

BOOK_ROOT is the book's folder, BOOK_READS the folder for the notes: one file a process, a line for each
thing read, as JSON: [kind, path from BOOK_ROOT, date, size]. kind is

    begun    this process is watched
    file     a file was read (date and size say which state of it; null: it was not there)
    names    a folder was listed
    doubt    something was started that cannot be watched, and it knows of the package
"""

import importlib.machinery
import importlib.util
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def watch(root, notes):
    root = os.path.realpath(root)
    seen = set()
    outside = [os.path.realpath(sys.prefix) + os.sep, os.path.join(root, ".cache") + os.sep, HERE + os.sep]

    def note(kind, path=""):
        name = os.path.relpath(path, root) if path else ""
        if (os.getpid(), kind, name) in seen:       # a fork has notes of its own
            return
        seen.add((os.getpid(), kind, name))
        try:
            state = os.stat(path or root)
            state = [state.st_mtime_ns, state.st_size]
        except OSError:
            state = [None, None]
        line = json.dumps([kind, name, *state]) + "\n"
        number = os.open(os.path.join(notes, str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(number, line.encode())
        os.close(number)

    def within(path):
        """The path if it is part of the book, or None."""
        if isinstance(path, int):
            return None
        path = os.path.realpath(os.fsdecode(os.curdir if path is None else path))
        if path != root and not path.startswith(root + os.sep):
            return None
        if any((path + os.sep).startswith(folder) for folder in outside):
            return None
        if os.path.basename(os.path.dirname(path)) == "__pycache__" and path.endswith(".pyc"):
            return importlib.util.source_from_cache(path)
        return path

    def opened(path, mode, flags):
        if isinstance(flags, int) and flags & os.O_WRONLY:
            return
        if path := within(path):
            note("file", path)

    def listed(path=None):
        # the import system lists folders to know where modules are: those it takes, it also opens
        caller = sys._getframe(2).f_code.co_filename
        if caller.startswith("<frozen importlib"):
            return
        path = within(path)
        if path and path != root:                   # root is on sys.path: importlib.metadata lists it too
            note("names", path)

    def started(arguments, environment):
        words = [arguments] if isinstance(arguments, (str, bytes)) else list(arguments or [])
        words = [os.fsdecode(word) for word in words if isinstance(word, (str, bytes, os.PathLike))]
        path = os.environ.get("PYTHONPATH", "")
        if environment is not None:
            names = {os.fsdecode(name): os.fsdecode(value) for name, value in dict(environment).items()}
            path = names.get("PYTHONPATH", "")
        program = os.path.basename(words[0]).lower() if words else ""
        python = program.startswith("python") or program.partition(".")[0] in ("tinyllm", "torchrun")
        options = [word for word in words[1:3] if word.startswith("-") and not word.startswith("--")]
        deaf = any({*"IES"} & {*word} for word in options)      # Python's options for being left alone
        if python and HERE in path.split(os.pathsep) and not deaf:
            return                                  # it will take notes itself
        text = " ".join(words)
        if python or root in text or "tinyllm" in text:
            note("doubt")

    def spawned(path, arguments, environment):
        started(arguments, environment)

    handlers = {
        "open": opened,
        "os.listdir": listed,
        "os.scandir": listed,
        "subprocess.Popen": lambda program, arguments, folder, environment: started(arguments, environment),
        "os.system": lambda command: started(command, None),
        "os.posix_spawn": spawned,
        "os.exec": spawned,
        "os.spawn": lambda mode, path, arguments, environment: started(arguments, environment),
    }

    def hook(event, arguments):
        handler = handlers.get(event)
        if handler is not None:
            handler(*arguments)

    class Safetensors:
        """safetensors opens files in Rust, which Python does not announce: note it before."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "safetensors":
                return None
            sys.meta_path.remove(Safetensors)
            spec = importlib.util.find_spec(name)
            if spec is None:
                return None
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                original = module.safe_open

                def safe_open(filename, *arguments, **options):
                    opened(filename, "r", 0)
                    return original(filename, *arguments, **options)

                module.safe_open = safe_open

            spec.loader.exec_module = exec_module
            return spec

    note("begun")
    sys.meta_path.insert(0, Safetensors)
    sys.addaudithook(hook)


if "BOOK_ROOT" in os.environ and "BOOK_READS" in os.environ:
    watch(os.environ["BOOK_ROOT"], os.environ["BOOK_READS"])

# The module of this name that would have been imported without us.
others = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
if found := importlib.machinery.PathFinder.find_spec("sitecustomize", others):
    found.loader.exec_module(importlib.util.module_from_spec(found))
