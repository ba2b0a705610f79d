# All that is needed is Python 3.11 or newer and make; the rest goes into .venv/.
# Everything is run as `python -m …` from this folder, so its path may hold any letters.

PYTHON ?= python3
PY := .venv/bin/python

export NO_MKDOCS_2_WARNING := 1
export JUPYTER_PLATFORM_DIRS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help book test quick coverage mutants audit serve tangle check stitch weights drawings bench ablation scaling keys wheel clean FORCE
.DELETE_ON_ERROR:

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

# Only what changed is done again, one build waits for another, and site/ is whole or not touched:
# tools/site/publish.py sees to it.
book: tangle  ## package and site out of the chapters: site/index.html
	@$(PY) -m tools.site
	@echo "The book is in site/index.html"

test: check  ## all tests, over the built book
	@$(PY) -m tools.site
	@$(PY) -m pytest

# `make -j book test`: compare the two sides after they were made equal, not while.
ifneq ($(filter book serve tangle weights,$(MAKECMDGOALS)),)
check: | tangle
endif

quick: .venv/ready  ## the tests that need no built book, within two minutes
	@$(PY) -m pytest -m "not site"

coverage: .venv/ready  ## which lines and branches of tinyllm/ the tests reach
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	@$(PY) -m coverage run -m pytest -q -m "not site and not book"
	@$(PY) -m coverage combine -q
	@$(PY) -m coverage report

mutants: .venv/ready  ## is each small change of the model's code noticed by a test? (long)
	@$(PY) -m tools.measure.mutants

audit: .venv/ready  ## known vulnerabilities of the pinned versions; asks over the network
	@$(PY) -m venv .cache/audit && .cache/audit/bin/python -m pip install -qq pip-audit
	@.cache/audit/bin/python -m pip_audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt

serve: .venv/ready  ## the book live in the browser, at once; tangles on save, ends with Ctrl-C (ARGS=…)
	@$(PY) -m mkdocs serve $(ARGS)

tangle: .venv/ready  ## docs/*.md -> tinyllm/*.py
	@$(PY) -m tools.chapters tangle

check: .venv/ready  ## do chapters and package agree?
	@$(PY) -m tools.chapters check

stitch: .venv/ready  ## edits in tinyllm/*.py -> docs/*.md
	@$(PY) -m tools.chapters stitch

weights: tangle  ## train tinyllm/pretrained.safetensors anew and record the run, some minutes
	@$(PY) -m tools.measure.weights

drawings: tangle  ## docs/assets/drawing/*.svg out of the model: the architecture, a head, the gradient, …
	@$(PY) -m tools.site.drawing

ablation: .venv/ready  ## the table of chapter 9: train again and again, one choice changed at a time, about half an hour (ARGS="--data FILE")
	@$(PY) -m tools.measure.ablation $(ARGS)

scaling: .venv/ready  ## the figure of chapter 12: seven sizes at equal compute, a quarter of an hour (ARGS="--data FILE")
	@$(PY) -m tools.measure.scaling $(ARGS)

bench: .venv/bench  ## the model measured against its peers, a quarter of an hour (QUICK=1, DATA=file, ARGS=…)
	@$(PY) -m tools.measure.bench $(if $(QUICK),--quick) $(if $(DATA),--data '$(DATA)') $(ARGS)

keys: .venv/ready  ## from a key to the finished picture of the map, beside the forward pass alone (needs Chromium)
	@$(PY) -m tools.site
	@$(PY) -m tools.measure.keys

wheel: .venv/ready  ## dist/*.whl, the same bytes from the same sources
	@$(PY) -m pip wheel -qq --no-deps --no-build-isolation -w dist .

clean:  ## remove what make has built (.venv/ stays)
	rm -rf site site.new site.old .cache dist .pytest_cache .hypothesis .entangled
	find docs tools tests tinyllm \( -name __pycache__ -o -name '.*.new' \) -prune -exec rm -rf {} +

# The environment is ready when this folder's path is in .venv/ready; that is written last,
# so an interrupted installation is repeated, and so is one in a folder that was moved.
HERE = import os; here = ascii(os.getcwd()); ready = ".venv/ready"
ifneq ($(shell $(PY) -c '$(HERE); print(open(ready).read() == here)' 2>/dev/null),True)
.venv/ready: FORCE
endif

.venv/ready: pyproject.toml constraints.txt
	@rm -f .venv/ready
	@$(PY) -m pip --version >/dev/null 2>&1 || { \
	    "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	        echo "The book needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=/path/to/python3.11" >&2; exit 1; }; \
	    "$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	        echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }; \
	    "$(PYTHON)" -m venv --clear .venv; }
	@echo "Setting up .venv/ (the first time takes some minutes) …"
	@$(PY) -m pip install -qq -c constraints.txt -e '.[book,test]'
	@$(PY) -c '$(HERE); open(ready, "w").write(here)'

# What only the measurements need is not installed before somebody measures.
.venv/bench: .venv/ready
	@$(PY) -m pip install -qq -c constraints.txt -e '.[bench]'
	@touch $@
