# The few commands everyone needs. `just` without arguments lists them; each also works without just.

_default:
    @just --list

# All tests: formatting, lints, Rust, Python.
test:
    cargo xtask test

# Formatting and lints alone.
lint:
    cargo xtask lint

# The numbers in the documentation: `just bench calls`, `just bench policy`.
bench *ARGS:
    cargo run --release -p paddock-bench -- {{ARGS}}

# Runs a job: `just run examples/arithmetic`.
run *ARGS="examples/arithmetic":
    cargo paddock run {{ARGS}}

# Accepts the snapshots that the last test run changed.
accept:
    cargo insta accept --workspace
