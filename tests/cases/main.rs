//! Plugins that go wrong in every way, and some that must not, through the real executable.
//!
//! Two lists in one format: this folder's own (`cases.toml`, `plugins/`), and the shared one beside
//! the repository (`PADDOCK_SHARED`), which is skipped aloud where it isn't there. What makes a case
//! hold stands in `holds.rs`. `PADDOCK_CASE=text` runs only the cases whose name has the text.

mod caller;
mod case;
mod holds;
mod innocents;
mod peer;
mod processes;
mod project;
mod run;
mod text;

use std::path::{Path, PathBuf};

#[test]
fn the_repositorys_own_cases_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    run::all(&folder.join("cases.toml"), &folder.join("plugins"));
}

#[test]
fn the_shared_cases_hold() {
    let shared = std::env::var_os("PADDOCK_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let cases = shared.join("cases");
    if !cases.join("cases.toml").is_file() {
        eprintln!("skipped: PADDOCK_SHARED names no folder with cases/cases.toml");
        return;
    }
    run::all(&cases.join("cases.toml"), &cases);
}
