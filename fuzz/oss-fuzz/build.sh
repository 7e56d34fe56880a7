#!/bin/bash -eu
# Builds every fuzz target into $OUT, with its corpus and the maximum length of its inputs. OSS-Fuzz runs this in the folder of the sources, with
# its own nightly toolchain; fuzz/oss-fuzz/check runs it without one.
cargo fuzz build -O --debug-assertions
built=$(echo fuzz/target/*/release)
cargo fuzz list | while read -r target; do
    cp "$built/$target" "$OUT/"
    if [ -d "fuzz/corpus/$target" ]; then
        (cd "fuzz/corpus/$target" && zip -q -r - .) > "$OUT/${target}_seed_corpus.zip"
    fi
    longest=$(sed -n 's|^// Longest input: ||p' "fuzz/fuzz_targets/$target.rs")
    printf '[libfuzzer]\nmax_len = %s\n' "${longest:-4096}" > "$OUT/$target.options"
done
