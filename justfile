# List the tasks
default:
    @just --list

# What CI runs: formatting, clippy, tests, fuzz smoke
check:
    bash .ci/run

# The tests, as in the README
test *ARGS:
    cargo test --workspace {{ARGS}}

# The end-to-end tests in namespaces; a missing privilege is a failure
e2e:
    JITLAT_REQUIRE_PRIVILEGED=1 cargo test -p jitlat

# Server, client and an impaired path on this machine
demo *ARGS:
    cargo run --release -p jitlat -- demo {{ARGS}}

# Every fuzz target for SECONDS each (needs a nightly toolchain and cargo-fuzz)
fuzz SECONDS='600':
    cd fuzz && for t in $(cargo +nightly fuzz list); do cargo +nightly fuzz run $t -- -max_total_time={{SECONDS}} || exit 1; done

# Ratios against plain baselines measured in the same run (root for SCHED_FIFO)
bench:
    cargo build --release -p jitlat -p jitlat-benches && for b in analysis report rate pacing passive two_way readers; do ./target/release/$b; done

# API documentation
docs:
    cargo doc --workspace --no-deps --open

# Licences and advisories of the dependencies
deny:
    cargo deny check
