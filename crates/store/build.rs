//! Rebuilds the crate when a migration is added: the macro that embeds them sees only known files.

#[expect(clippy::print_stdout, reason = "cargo reads a build script's standard output")]
fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
