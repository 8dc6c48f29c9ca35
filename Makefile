# Everything a fresh machine with Python 3.11 or later and make needs is set up by these commands.
# The first of them that is new enough.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
BIN := .venv/bin
SEED ?= 1
SIM ?=
START ?=
LOTS ?=
MUTANTS ?=
WHY ?=

.PHONY: run test check docs dist why interop sim soak bench requirements mutants clean

run: .venv/run
	$(BIN)/ottla start $(START)

# Three lots, one after the other; one of them: make test LOTS=simulated, real or alone. A test that
# looks at a wall clock gets a second attempt, for a busy machine can starve it: tests/lots/verdict.py.
test: .venv/test
	$(BIN)/python -m tests.lots $(LOTS)

check: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy $(filter-out examples/why/%,$(wildcard examples/*.py examples/*/*.py))
	$(BIN)/hadolint Dockerfile
	$(BIN)/compose-lint docker-compose.yml docker-compose.secure.yml
	$(BIN)/python -m pytest -q tests/tidy

# The documentation as a site, in build/site; a dead link or a public name without a place fails it.
docs: .venv/docs
	$(BIN)/python docs/site/build.py

# Source distribution, wheels for every machine and for this one, sums and components, in dist/.
dist: .venv/dist
	$(BIN)/python -m deploy.release

# The program of each claim in docs/why, with figures of this machine in build/why. Some of them in a
# few seconds: make why WHY="--quick cap acks".
why: .venv/run
	$(BIN)/python -m examples.why $(WHY)

interop: .venv/test
	$(BIN)/python -m pytest -m interop

# One seed: make sim SEED=7, of a cluster: make sim SIM=--cluster SEED=7. All seeds from there on for
# an hour: SIM="--cluster --minutes 60"; until interrupted: SIM="--cluster --seeds 5000-".
sim: .venv/test
	$(BIN)/python -m tests.simulation $(SIM) $(SEED)

soak: .venv/test
	$(BIN)/python -m pytest -m soak

bench: .venv/test
	$(BIN)/python -m benchmarks

requirements: .venv/test
	$(BIN)/python -m tests.requirements

# Plants one bug at a time in a copy of the tree, and expects a test to fail. Some of them:
# make mutants MUTANTS="short-* sendfile-never-used"; their names: MUTANTS=--list.
mutants: .venv/test
	$(BIN)/python -m tests.mutants $(MUTANTS)

clean:
	rm -rf .venv .venv-interop .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info protocol/records/*.so

# Without pip a half-made one would be taken for whole the next time: Debian has it apart.
.venv/bin/python:
	@for one in $(PYTHON); do \
		if $$one -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			echo "$$one -m venv .venv"; $$one -m venv .venv && exit; rm -rf .venv; exit 1; \
		fi; \
	done; echo "Ottla needs Python 3.11 or later. Say where it is: make run PYTHON=/path/to/it" >&2; exit 1

# Found by path as well: in the directory above a clone that is called ottla, Python would take the
# clone for a package without code before it asks the finder of an editable installation.
define install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".$(EXTRAS)"
	$(BIN)/python -c "import sys, sysconfig; open(sysconfig.get_path('purelib') + '/ottla-tree.pth', 'w').write(sys.argv[1])" "$(CURDIR)"
	touch $@
endef

# What is installed is the tree itself, except for what is compiled from it.
INSTALLED := pyproject.toml setup.py $(wildcard protocol/records/*.pyx protocol/records/*.pxd broker/network/*.pyx broker/network/*.pxd)

.venv/run: $(INSTALLED) | .venv/bin/python
	$(install)

.venv/test: EXTRAS = [test,dev]
.venv/test: $(INSTALLED) | .venv/bin/python
	$(install)

.venv/docs: EXTRAS = [docs]
.venv/docs: $(INSTALLED) | .venv/bin/python
	$(install)

.venv/dist: EXTRAS = [dist]
.venv/dist: $(INSTALLED) | .venv/bin/python
	$(install)
