# List the tasks
default:
    @just --list

# The gate, at most 20 minutes: formatting, clippy, all tests, fuzz smoke of what changed
check:
    .ci/run

# What the gate leaves out, at most 90 minutes: all parts, or those named (--list; --without-advisories; root)
full *PARTS:
    .ci/full {{PARTS}}

# What takes hours: all parts, or those named (--list; root)
nightly *PARTS:
    .ci/nightly {{PARTS}}

# The tests, as in the README
test *ARGS:
    cargo test --workspace {{ARGS}}

# The tests twice at once, beside a server on the default ports
parallel *ARGS:
    .ci/parallel {{ARGS}}

# The end-to-end tests in namespaces; a missing privilege is a failure
e2e:
    JITLAT_REQUIRE_PRIVILEGED=1 cargo test -p jitlat

# Each attack on a server for SECONDS, with an honest client beside it (root)
hostile SECONDS='60':
    JITLAT_REQUIRE_PRIVILEGED=1 JITLAT_HOSTILE_SECONDS={{SECONDS}} cargo test -p jitlat --test hostile -- --nocapture

# A program that adds to an archive, killed KILLS times at random: nothing torn, nothing twice; SEED chooses the moments
archive-kills KILLS='200' SEED='1':
    JITLAT_KILLS={{KILLS}} JITLAT_SEED={{SEED}} cargo test -p jitlat --test integration -- archive::a_writer_that_is_killed --nocapture

# A monitor killed KILLS times at random while results come: each judged once, each message told once; SEED chooses the moments
alert-kills KILLS='200' SEED='1':
    JITLAT_KILLS={{KILLS}} JITLAT_SEED={{SEED}} cargo test -p jitlat --test e2e -- alerts::each_result --nocapture

# A monitor that pushes and its collector, killed KILLS times at random beside new tests: each is there once (root); SEED chooses the moments
push-kills KILLS='200' SEED='1':
    JITLAT_REQUIRE_PRIVILEGED=1 JITLAT_KILLS={{KILLS}} JITLAT_SEED={{SEED}} cargo test -p jitlat --test e2e -- collectors_that_are_killed --nocapture

# Ingest of a collector: TESTS of 1000 packets into an archive, beside SQLite alone with the same bytes in the same run
ingest TESTS='3000':
    cargo build --release -p jitlat-benches --bin ingest && ./target/release/ingest {{TESTS}}

# How often `changed` and `worse` fire of TESTS of simulated paths that do not change, and how soon of paths that do (minutes)
alert-rates TESTS='300':
    JITLAT_TESTS={{TESTS}} cargo test --profile fast -p jitlat-monitor --lib -- alerts::rates::table --ignored --nocapture

# What each instrument and protocol reports minus what captures at both hosts say (root, tcpdump)
bias PACKETS='2000':
    cargo build --release -p jitlat
    python3 benches/bias.py target/release/jitlat {{PACKETS}}

# The Python module: its wheel built, installed in a fresh environment and tested there (minutes; needs python3 with venv)
python:
    python/check

# Five hosts in network namespaces with one file: a mesh, its archive, alerts, and the page at http://127.0.0.1:2680/ (root)
mesh *ARGS:
    examples/mesh/run {{ARGS}}

# The Python module on Spark, Dask and Ray, each a real cluster on this machine with a worker killed: the answers of one process (minutes; needs Java)
cluster *ARGS:
    examples/cluster/run {{ARGS}}

# The verdict on some 200 simulated tests of every kind: the tables of docs/metrics/verdict.md (minutes)
verdicts VARIANTS='200' FIRST='0':
    JITLAT_VARIANTS={{VARIANTS}} JITLAT_FIRST={{FIRST}} cargo test --profile fast -p jitlat-store --test verdicts -- confusion_matrix --ignored --nocapture

# Adding a metric, a protocol or an output is one file: three patches, applied to a copy, compiled and tried
patches:
    cargo test -p jitlat --test integration -- patches:: --ignored

# Server, client and an impaired path on this machine
demo *ARGS:
    cargo run --release -p jitlat -- demo {{ARGS}}

# Every fuzz target for SECONDS each, one for each processor at a time (needs a nightly toolchain and cargo-fuzz)
fuzz SECONDS='600':
    fuzz/run {{SECONDS}}

# All fuzz targets together for HOURS; then the executions of each, and what they found added to the corpora
fuzz-long HOURS='8':
    fuzz/run $(( {{HOURS}} * 3600 * $(nproc) / $(cd fuzz && cargo +nightly fuzz list | wc -l) )) && fuzz/minimise

# How many lines of the code that each fuzz target aims at its corpus executes (needs the llvm-tools of nightly)
fuzz-coverage *TARGETS:
    fuzz/coverage-report {{TARGETS}}

# Faults put one at a time into what .cargo/mutants.toml lists: which does no test notice? Of one FILE, or of all (days)
mutants FILE='':
    cargo mutants -j1 {{ if FILE == "" { "" } else { "--no-config --test-workspace=false --minimum-test-timeout 60 --file " + FILE } }}

# Ratios against plain baselines measured in the same run (root for SCHED_FIFO)
bench:
    cargo build --release -p jitlat -p jitlat-benches && for b in analysis report rate pacing passive two_way readers view stamps; do ./target/release/$b; done

# The packet path alone, beside bare loops, an echo and a ring reader: RUNS of SECONDS each (some 20 minutes; root, on a machine that does nothing else)
bench-packets SECONDS='2' RUNS='3':
    cargo build --release -p jitlat -p jitlat-benches --bin jitlat --bin ends --bin rate --bin blast --bin two_way --bin live
    for b in ends rate blast two_way live; do ./target/release/$b {{SECONDS}} {{RUNS}}; done

# Archives: rates from Parquet, and a simulated year of a mesh for MINUTES; DuckDB beside it where $PYTHON (python3) has it
scale MINUTES='1':
    cargo build --release -p jitlat-benches --bin scale && ./target/release/scale {{MINUTES}}

# Captures of MINUTES at two points, made here, analysed whole and in PARTS: joined they are the same; the memory each takes
captures-in-parts MINUTES='60' PARTS='6':
    cargo build --release -p jitlat
    python3 benches/parts.py target/release/jitlat {{MINUTES}} {{PARTS}}

# How large pages of 1000 and of ten million packets are, and when Chromium first draws them
pages:
    cargo test --release -p jitlat-report --test integration -- html::sizes_and_times --ignored --nocapture

# API documentation
docs:
    cargo doc --workspace --no-deps --open

# Licences, sources and bans of the dependencies, and known vulnerabilities (from the network, or ADVISORY_DB)
deny *OPTIONS:
    packaging/check-dependencies {{OPTIONS}}

# The programs that releases and checks need and Debian does not have, into target/tools
tools:
    packaging/tools

# docs/ as a site in target/site, its links checked
site:
    PATH="$PWD/target/tools/bin:$PATH" mdbook build && packaging/check-site target/site

# The Debian package, static file, image and unit, each tried (root); PROFILE dev is quicker
check-package PROFILE='release':
    PATH="$PWD/target/tools/bin:$PATH" packaging/check {{PROFILE}}

# The build without optional features: its size, its crates, and that it measures (minutes)
small:
    cargo test -p jitlat --test integration -- --ignored --nocapture small::

# The program compiled from nothing, with its features and without: bytes, crates and processor-seconds against their limits (minutes)
slim *BUILDS:
    .ci/slim {{BUILDS}}

# The pure crates compile for systems other than Linux
portable:
    packaging/check-portable x86_64-pc-windows-gnu aarch64-apple-darwin

# Every crate as it would be published: packed, and built from what was packed
publish-dry-run:
    cargo publish --dry-run --workspace --exclude jitlat-benches --exclude jitlat-waiting --locked --allow-dirty

# All that is published of the committed revision, from a clean clone, into dist/ (docs/releases.md)
release *FOLDER:
    packaging/release {{FOLDER}}

# A release made twice in different places is the same
reproducible:
    packaging/reproducible
