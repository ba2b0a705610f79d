# All that is needed is Python 3.11 or newer and make; the rest goes into .venv/.
# Everything is run as `python -m …` from this folder, so its path may hold any letters.

PYTHON ?= python3
PY := .venv/bin/python

export NO_MKDOCS_2_WARNING := 1
export JUPYTER_PLATFORM_DIRS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# What the built book depends on.
SOURCES = mkdocs.yml constraints.txt $(shell find docs tools tinyllm -type f ! -name '*.pyc' ! -name '.*' 2>/dev/null)

.PHONY: help book test quick coverage mutants audit serve tangle check stitch weights bench ablation wheel clean FORCE
.DELETE_ON_ERROR:

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

book: tangle  ## package and site out of the chapters: site/index.html
	@$(MAKE) --no-print-directory site/index.html
	@echo "The book is in site/index.html"

test: check  ## all tests, over the built book
	@$(MAKE) --no-print-directory site/index.html
	@$(PY) -m pytest

quick: .venv/ready  ## the tests that need no built book, within two minutes
	@$(PY) -m pytest -m "not site"

coverage: .venv/ready  ## which lines and branches of tinyllm/ the tests reach
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	@$(PY) -m coverage run -m pytest -q -m "not site and not book"
	@$(PY) -m coverage combine -q
	@$(PY) -m coverage report

mutants: .venv/ready  ## is each small change of the model's code noticed by a test? (long)
	@$(PY) tools/mutants.py

audit: .venv/ready  ## known vulnerabilities of the pinned versions; asks over the network
	@$(PY) -m venv .cache/audit && .cache/audit/bin/python -m pip install -qq pip-audit
	@.cache/audit/bin/python -m pip_audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt

serve: tangle  ## the book live in the browser; tangles on save, ends with Ctrl-C
	@$(PY) -m mkdocs serve

tangle: .venv/ready  ## docs/*.md -> tinyllm/*.py
	@$(PY) tools/book.py tangle

check: .venv/ready  ## do chapters and package agree?
	@$(PY) tools/book.py check

stitch: .venv/ready  ## edits in tinyllm/*.py -> docs/*.md
	@$(PY) tools/book.py stitch

weights: tangle  ## train tinyllm/pretrained.safetensors anew, about 2 minutes
	@$(PY) -m tinyllm train --out .cache/pretrained.safetensors
	@mv .cache/pretrained.safetensors tinyllm/pretrained.safetensors

ablation: .venv/ready  ## the table of chapter 9: train again and again, one choice changed at a time, most of an hour (ARGS=…)
	@$(PY) tools/ablation.py $(ARGS)

bench: .venv/bench  ## the model measured against its peers, a quarter of an hour (QUICK=1, DATA=file, ARGS=…)
	@$(PY) tools/bench.py $(if $(QUICK),--quick) $(if $(DATA),--data '$(DATA)') $(ARGS)

wheel: .venv/ready  ## dist/*.whl, the same bytes from the same sources
	@$(PY) -m pip wheel -qq --no-deps --no-build-isolation -w dist .

clean:  ## remove what make has built (.venv/ stays)
	rm -rf site site.new site.old .cache dist .pytest_cache .hypothesis .entangled
	find docs tools tests tinyllm \( -name __pycache__ -o -name '.*.new' \) -prune -exec rm -rf {} +

# The old site stays until the new one is complete, and comes back if a build was killed while it
# changed places. Its date is that of the build's start: what is edited meanwhile makes it out of date.
.PRECIOUS: site/index.html
site/index.html: $(SOURCES)
	@if [ -e site.old ] && [ ! -e site ]; then mv site.old site; fi
	@mkdir -p .cache && touch .cache/build-started && rm -rf site.new site.old
	@$(PY) -m mkdocs build --strict -d site.new
	@touch -r .cache/build-started site.new/index.html
	@if [ -e site ]; then mv site site.old; fi && mv site.new site && rm -rf site.old

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
