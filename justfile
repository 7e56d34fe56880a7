# List the tasks
default:
    @just --list

# Run the gate, at most 20 minutes: formatting, clippy, all tests, fuzz smoke of what changed
check:
    .ci/run

# Checks that are not in the gate, at most 90 minutes: all parts, or the named ones (--list; --without-advisories; root)
full *PARTS:
    .ci/full {{PARTS}}

# Checks that take hours: all parts, or the named ones (--list; root)
nightly *PARTS:
    .ci/nightly {{PARTS}}

# Run the tests, as in the README
test *ARGS:
    cargo test --workspace {{ARGS}}

# The tests twice in parallel, while a server runs on the default ports
parallel *ARGS:
    .ci/parallel {{ARGS}}

# Run the end-to-end tests in namespaces; a missing privilege is a failure
e2e:
    JITLAT_REQUIRE_PRIVILEGED=1 cargo test -p jitlat

# Each attack on a server for SECONDS, while an honest client uses it (root)
hostile SECONDS='60':
    JITLAT_REQUIRE_PRIVILEGED=1 JITLAT_HOSTILE_SECONDS={{SECONDS}} cargo test -p jitlat --test hostile -- --nocapture

# A program that adds to an archive, killed KILLS times at random: nothing torn, nothing twice; SEED determines the moments
archive-kills KILLS='200' SEED='1':
    JITLAT_KILLS={{KILLS}} JITLAT_SEED={{SEED}} cargo test -p jitlat --test integration -- archive::a_writer_that_is_killed --nocapture

# A monitor killed KILLS times at random while results arrive: each judged once, each message sent once; SEED determines the moments
alert-kills KILLS='200' SEED='1':
    JITLAT_KILLS={{KILLS}} JITLAT_SEED={{SEED}} cargo test -p jitlat --test e2e -- alerts::each_result --nocapture

# A monitor that pushes and its collector, killed KILLS times at random during tests: each test is stored once (root); SEED determines the moments
push-kills KILLS='200' SEED='1':
    JITLAT_REQUIRE_PRIVILEGED=1 JITLAT_KILLS={{KILLS}} JITLAT_SEED={{SEED}} cargo test -p jitlat --test e2e -- collectors_that_are_killed --nocapture

# Ingest of a collector: TESTS of 1000 packets into an archive, compared with SQLite alone with the same bytes in the same run
ingest TESTS='3000':
    cargo build --release -p jitlat-benches --bin ingest && ./target/release/ingest {{TESTS}}

# How often `changed` and `worse` fire in TESTS of simulated paths that do not change, and how soon on paths that do (minutes)
alert-rates TESTS='300':
    JITLAT_TESTS={{TESTS}} cargo test --profile fast -p jitlat-monitor --lib -- alerts::rates::table --ignored --nocapture

# How often `jitlat compare` finds a difference between equal paths, and how often it finds a real one, in TESTS pairs of each kind, or only of runs of PACKETS (minutes)
compare-rates TESTS='200' SEED='1' PACKETS='':
    JITLAT_TESTS={{TESTS}} JITLAT_SEED={{SEED}} JITLAT_PACKETS={{PACKETS}} cargo test --profile fast -p jitlat-verdict --lib -- compare::rates::table --ignored --nocapture

# Reported delays of each instrument and protocol minus those of captures at both hosts (root, tcpdump)
bias PACKETS='2000':
    cargo build --release -p jitlat
    python3 benches/bias.py target/release/jitlat {{PACKETS}}

# The Python module: builds its wheel, installs it in a fresh environment and tests it there (minutes; needs python3 with venv)
python:
    python/check

# Run a mesh of five hosts in network namespaces: its archive, alerts, and the page at http://127.0.0.1:2680/ (root)
mesh *ARGS:
    examples/mesh/run {{ARGS}}

# The Python module on Spark, Dask and Ray, each a real cluster on this machine with a worker killed, compared with one process (minutes; needs Java)
cluster *ARGS:
    examples/cluster/run {{ARGS}}

# A year of 100 hosts on two collectors, published to a lake: the same figures from every program (needs Java; --minutes 20)
year *ARGS:
    examples/year/run {{ARGS}}

# The verdict on about 200 simulated tests of every kind: the tables of docs/metrics/verdict.md (minutes)
verdicts VARIANTS='200' FIRST='0':
    JITLAT_VARIANTS={{VARIANTS}} JITLAT_FIRST={{FIRST}} cargo test --profile fast -p jitlat-store --test verdicts -- confusion_matrix --ignored --nocapture

# How often intervals of loss, median and p99 contain the truth in TESTS simulated tests: the tables of docs/metrics/intervals.md (minutes)
coverage TESTS='1000' SEED='1':
    JITLAT_TESTS={{TESTS}} JITLAT_SEED={{SEED}} JITLAT_PAGE="$PWD/docs/metrics/intervals.md" cargo test --profile fast -p jitlat-core --lib -- dependence::coverage::table --ignored --nocapture

# Adding a metric, a protocol or an output is one file: three patches, applied to a copy, compiled and tested
patches:
    cargo test -p jitlat --test integration -- patches:: --ignored

# Run server, client and an impaired path on this machine
demo *ARGS:
    cargo run --release -p jitlat -- demo {{ARGS}}

# Run every fuzz target for SECONDS, one for each processor at a time (needs a nightly toolchain and cargo-fuzz)
fuzz SECONDS='600':
    fuzz/run {{SECONDS}}

# All fuzz targets together for HOURS; then prints the executions of each, and adds the new inputs to the corpora
fuzz-long HOURS='8':
    fuzz/run $(( {{HOURS}} * 3600 * $(nproc) / $(cd fuzz && cargo +nightly fuzz list | wc -l) )) && fuzz/minimise

# Lines of code that each fuzz target aims at and its corpus executes (needs the llvm-tools of nightly)
fuzz-coverage *TARGETS:
    fuzz/coverage-report {{TARGETS}}

# Mutants of the code in .cargo/mutants.toml, one at a time, to find those that no test notices: of one FILE, or of all (days)
mutants FILE='':
    cargo mutants -j1 {{ if FILE == "" { "" } else { "--no-config --test-workspace=false --minimum-test-timeout 60 --file " + FILE } }}

# Measure ratios against plain baselines in the same run (root for SCHED_FIFO)
bench:
    cargo build --release -p jitlat -p jitlat-benches && for b in analysis report rate pacing passive two_way readers view stamps headers; do ./target/release/$b; done

# The packet path alone, compared with bare loops, an echo and a ring reader: RUNS of SECONDS each (about 20 minutes; root, on an otherwise idle machine)
bench-packets SECONDS='2' RUNS='3':
    cargo build --release -p jitlat -p jitlat-benches --bin jitlat --bin ends --bin rate --bin blast --bin two_way --bin live
    for b in ends rate blast two_way live; do ./target/release/$b {{SECONDS}} {{RUNS}}; done

# Archives: rates from Parquet, and a simulated year of a mesh for MINUTES; compared with DuckDB if $PYTHON (python3) has it
scale MINUTES='1':
    cargo build --release -p jitlat-benches --bin scale && ./target/release/scale {{MINUTES}}

# Captures of MINUTES at two points, made here, analysed whole and in PARTS: the joined parts equal the whole; the memory of each
captures-in-parts MINUTES='60' PARTS='6':
    cargo build --release -p jitlat
    python3 benches/parts.py target/release/jitlat {{MINUTES}} {{PARTS}}

# Sizes of pages of 1000 and of ten million packets, and the time until Chromium first draws them
pages:
    cargo test --release -p jitlat-report --test integration -- html::sizes_and_times --ignored --nocapture

# Build the API documentation
docs:
    cargo doc --workspace --no-deps --open

# Check licences, sources and bans of the dependencies, and known vulnerabilities (from the network, or ADVISORY_DB)
deny *OPTIONS:
    packaging/check-dependencies {{OPTIONS}}

# The small program for a board, a static file (docs/guide/boards.md has the targets); without TARGET for this machine
board TARGET='':
    packaging/board {{TARGET}}

# Programs that releases and checks need and Debian does not have, into target/tools
tools:
    packaging/tools

# Build docs/ as a site in target/site, and check its links
site:
    PATH="$PWD/target/tools/bin:$PATH" mdbook build && packaging/check-site target/site

# The Debian package, static file, image and unit, each tested (root); PROFILE dev is quicker
check-package PROFILE='release':
    PATH="$PWD/target/tools/bin:$PATH" packaging/check {{PROFILE}}

# Test the build without optional features: its size, its crates, and measurements (minutes)
small:
    cargo test -p jitlat --test integration -- --ignored --nocapture small::

# The program compiled from scratch, with its features and without: bytes, crates and processor-seconds against their limits (minutes)
slim *BUILDS:
    .ci/slim {{BUILDS}}

# Check that the pure crates compile for systems other than Linux
portable:
    packaging/check-portable x86_64-pc-windows-gnu aarch64-apple-darwin x86_64-unknown-freebsd

# Every crate as it would be published: packed, and built from the package
publish-dry-run:
    cargo publish --dry-run --workspace --exclude jitlat-benches --exclude jitlat-waiting --locked --allow-dirty

# All published files of the committed revision, from a clean clone, into dist/ (docs/releases.md)
release *FOLDER:
    packaging/release {{FOLDER}}

# Check that a release built twice in different folders is identical
reproducible:
    packaging/reproducible
