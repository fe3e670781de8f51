//! Rebuilds the crate when a migration is added: the macro that embeds them sees only known files.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
