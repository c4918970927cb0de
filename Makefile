# Everything runs in .venv, which the first target that needs it sets up: python3 (3.11 or later) with pip is enough.

PYTHON ?= python3
VENV := .venv
STUDIO := .venv-label-studio
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TEXTS := src/cual/serve/web/page/texts
# Two makes at once must not install into the same place; without flock, one make alone is still safe.
LOCK := $(if $(shell command -v flock),flock Makefile)

# A Debian package, as root or through sudo.
install = { apt="$$(test $$(id -u) = 0 || echo sudo) apt-get"; \
	$$apt update -qq && DEBIAN_FRONTEND=noninteractive $$apt install -y -qq --no-install-recommends $(1) >/dev/null; }

.DEFAULT_GOAL := help
.PHONY: help demo serve-demo test test-attacks test-page test-postgres test-ray test-label-studio test-slow mutants fuzz check texts bench clean distclean

help:  ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(INSTALLED)  ## learn digits one by one and write out/demo/demo.html (about a minute)
	$(BIN)/cual demo --out out/demo

serve-demo: $(INSTALLED)  ## open the labelling page on handwritten digits
	$(BIN)/python -m cual.serve.demo out/serve-demo
	$(BIN)/cual serve out/serve-demo --open

test: $(INSTALLED)  ## run the tests and the examples in docstrings, two at a time
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-attacks: $(INSTALLED)  ## real processes under attack, under load and killed; a short day in production
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "attacks and not postgres and not slow"

# A browser on a busy machine may be late once; what is wrong is wrong twice, and a second run is named at the end.
test-page: $(INSTALLED)  ## the labelling page in a real Chromium (installed with apt if it is missing)
	@command -v chromium >/dev/null || $(call install,chromium)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m page --reruns 1 -rfER

test-postgres: $(INSTALLED)  ## the service on a real PostgreSQL (installed with apt if it is missing)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(call install,postgresql)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "postgres and not slow" -n 2 --dist loadfile

test-ray: $(INSTALLED)  ## embedding, adaptations and streams on Ray clusters of two nodes, which are killed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "ray and not slow" tests/bridges

test-label-studio: $(INSTALLED) $(STUDIO)/.installed  ## the bridge to a real Label Studio (installs it: 1 GB)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m label_studio

test-slow: $(INSTALLED)  ## the tests that take minutes
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -m slow

mutants: $(INSTALLED) $(VENV)/.mutants  ## bugs put in by hand and by Cosmic Ray, which the tests must notice (hours)
	$(BIN)/python tests/mutants.py
	PYTHONPATH=tests $(BIN)/python -m mutation

fuzz: $(INSTALLED)  ## the property tests on examples that nobody has tried yet
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --hypothesis-profile=search $$(grep -rl hypothesis tests --include='test_*.py')

check: $(INSTALLED)  ## format, lint, types, and which room may import which
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

texts: $(INSTALLED)  ## collect what the page says, for those who translate it
	$(BIN)/pybabel -q extract -k tr -k trn:1,2 -k said -k said_n:1,2 --no-location --sort-output --omit-header -o $(TEXTS)/page.pot src/cual/serve
	@set -e; for po in $(TEXTS)/*.po; do $(BIN)/pybabel -q update -i $(TEXTS)/page.pot -o $$po -l $$(basename $$po .po) \
		--no-fuzzy-matching --ignore-obsolete --omit-header; done

bench: $(INSTALLED)  ## measure the speed of what is in benchmarks/
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

clean:  ## remove caches and output
	rm -rf out build dist .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## remove the environment as well
	rm -rf $(VENV) $(STUDIO)

$(STUDIO)/.installed:
	$(PYTHON) -m venv $(STUDIO)
	$(STUDIO)/bin/python -m pip install --quiet --disable-pip-version-check label-studio==1.23.2
	touch $@

$(VENV)/.mutants: $(INSTALLED)
	@$(LOCK) $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[mutants]"
	touch $@

# The stamp is asked for again under the lock: whoever waited for another make finds the work done.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "cual needs Python 3.11 or later; say which: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(LOCK) sh -ec ' \
		if [ -e $(INSTALLED) ] && [ -z "$$(find pyproject.toml -newer $(INSTALLED))" ]; then exit 0; fi; \
		if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
			echo "making $(VENV)"; \
			$(PYTHON) -m venv --clear $(VENV) 2>/dev/null || { \
				$(PYTHON) -m venv --clear --without-pip $(VENV); \
				$(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }; \
		fi; \
		echo "installing cual and what it needs into $(VENV)"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"; \
		touch $(INSTALLED)'
