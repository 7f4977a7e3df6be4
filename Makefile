# A thin front of CMake: names for what people do. `make help` lists them.
BUILD = build
PREFIX ?= /usr/local
MODEL = examples/models/mobilenet_v2.onnx
CMAKE_FLAGS ?=
JOBS ?= $(shell nproc)

# ccache, where it is installed: the builds of tests, bare roots (tests/fresh-root) and copies of the tree share what
# one of them has compiled.
CCACHE := $(shell command -v ccache)
ifneq ($(CCACHE),)
export CMAKE_C_COMPILER_LAUNCHER = $(CCACHE)
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR = 1
# a miss costs no second run of the preprocessor
export CCACHE_DEPEND = 1
endif

.PHONY: all amalgamation coverage deb wheel release site page demo demo-mcu bench-arena test test-long check install fuzz compare stress stress-programs stress-pools bench bench-pools bench-results clean help
all: $(BUILD)/build.ninja
	cmake --build $(BUILD) --target libtenure tenure_preload tenure_torch tenure_command completions

# Without the tests, which need more than a user has. A configuring that failed leaves no build.ninja.
$(BUILD)/build.ninja:
	cmake --preset release -DTENURE_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS)

.PHONY: with-tests
with-tests:
	tools/install-deps check
	cmake --preset release -DTENURE_TESTS=ON -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS)

demo: ## installs what is missing, builds, plans a real network and runs it in its plan
	tools/install-deps build
	$(MAKE) all
	$(BUILD)/tenure plan $(MODEL) -o $(BUILD)/mobilenet_v2.html -o $(BUILD)/mobilenet_v2.svg -o $(BUILD)/mobilenet_v2.json
	$(BUILD)/tenure verify $(MODEL) --plan $(BUILD)/mobilenet_v2.json
	$(BUILD)/tenure run $(MODEL) --weights random:1 --check naive
	@echo "The picture: $(CURDIR)/$(BUILD)/mobilenet_v2.html (open it in a browser)"

demo-mcu: ## a microcontroller: how large the arena is, a plan inside the model, firmware around it
	tools/install-deps build
	$(MAKE) all
	examples/firmware/demo.sh $(BUILD)

# A make of their own runs them, so that it finds the ccache that was just installed.
test test-long: TIER = $(if $(findstring long,$@),long,test)
test: ## installs what is missing, builds, runs what guards every commit: 15 to 20 minutes on two cores
test-long: ## every other test, and all cases of those that could try any number: about an hour on two cores
test test-long:
	tools/install-deps $(TIER)
	$(MAKE) --no-print-directory run-tests TIER=$(TIER)

.PHONY: run-tests
run-tests:
	cmake --preset release -DTENURE_TESTS=ON -DTENURE_PRESET_TESTS=ON -DTENURE_WERROR=ON -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS)
	tools/run-tests $(TIER)

check: with-tests ## the quick tests of the release build: two minutes after a build
	cmake --build $(BUILD) --target tenure_gate
	TENURE_COUNT=10 ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS) --label-regex quick

install: ## PREFIX, DESTDIR: command, library, headers, pkg-config file, man pages
	tools/install-deps build
	$(MAKE) all
	cmake --install $(BUILD) --prefix $(PREFIX)

deb: ## Debian packages in build-deb/: libtenure0, libtenure-dev, tenure, python3-tenure; lintian judges them
	tools/install-deps deb
	tools/make-deb build-deb

wheel: ## a Python wheel with the library inside, in build-wheel/: pip install build-wheel/tenure-*.whl needs nothing else
	tools/install-deps build
	tools/make-wheel build-wheel

release: ## the files of a release in build-release/: source, wheel, Debian packages, page, npm package, SBOM, checksums; made twice
	tools/install-deps deb
	tools/install-deps web
	tools/make-release build-release --twice

site: ## the documentation as pages to read in a browser: build-site/index.html
	tools/install-deps site
	mkdocs build --quiet

page: ## the page in a browser and the npm package: build-web/tenure.html, build-web/npm/
	tools/install-deps web
	web/build build-web

fuzz: ## builds the fuzzers with clang; run build-fuzz/fuzz/fuzz_onnx and its like
	tools/install-deps test
	cmake --preset fuzz
	cmake --build build-fuzz

stress: with-tests ## a million random problems against brute force; STRESS="--seed 1 --count N --planner P"
	cmake --build $(BUILD) --target stress
	$(BUILD)/tests/stress --jobs 2 $(STRESS)

stress-pools: with-tests ## 10^8 random operations against a plain model of each pool (2 minutes)
	cmake --build $(BUILD) --target test_pool_pools
	$(BUILD)/tests/test_pool_pools all $(or $(OPERATIONS),20000000)

bench-pools: all ## nanoseconds and lost bytes of every pool; FILES="trace.csv ..."
	cmake --build $(BUILD) --target bench_pools
	$(BUILD)/bench/pools $(FILES)

compare: all ## 35 networks against ONNX Runtime: errors (3 GB of weights are made up); COMPARE="--model NAME"
	/usr/bin/python3 tests/engine/compare_ort.py $(BUILD)/tenure $(BUILD)/ort --set all $(COMPARE)

bench: all ## planners x problems; FILES="a.csv b.csv", BENCH="--set scale|packings|all ..."
	cmake --build $(BUILD) --target bench_planners
	$(BUILD)/bench/planners $(BENCH) $(FILES)

bench-arena: all ## heads of arenas, ours beside TFLite Micro's; FOLDERS="models ..."
	python3 bench/arena.py $(BUILD)/tenure $(or $(FOLDERS),examples/models)

bench-results: all ## writes bench/results.md (some four minutes, on a quiet machine)
	cmake --build $(BUILD) --target bench_planners
	$(BUILD)/bench/planners --set all --markdown > bench/results.md

amalgamation: ## build/tenure_plan.c and .h: the planners as one file and one header (docs/embedding.md)
	tools/amalgamate $(BUILD)

coverage: ## branches that the quick tests reach, by file and room; ROOMS="plan program engine"
	tools/install-deps check
	tools/coverage $(ROOMS)

clean:
	rm -rf $(BUILD) build-coverage build-asan build-tsan build-fuzz build-minimal build-deb build-site build-web

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile
