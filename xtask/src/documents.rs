//! The documents are true about the repository: paths they name exist, and so do their links.

use std::path::{Path, PathBuf};

use crate::root;

/// Every Markdown file that is the repository's own.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)
            .expect("a folder of the repository")
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            let foreign = ["target", "node_modules", "venv"].contains(&name.as_str());
            if path.is_dir() && !foreign && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found
}

/// The texts between single back quotes, code blocks left out.
fn quoted(markdown: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut in_block = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            out.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    out
}

/// A path of the repository, as opposed to any other code in back quotes.
fn is_path(text: &str) -> bool {
    const TOPS: [&str; 10] = [
        "crates/",
        "python/",
        "docs/",
        "tests/",
        "bench/",
        "examples/",
        "xtask/",
        "models/",
        ".ci/",
        "console/",
    ];
    let plain = text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "/._-{},*".contains(c));
    plain && TOPS.iter().any(|top| text.starts_with(top))
}

/// `a/{b,c}.rs` is two paths, `a/*` is a folder; a path may name a module without its ending.
fn exists(text: &str) -> bool {
    if let (Some(open), Some(close)) = (text.find('{'), text.find('}')) {
        let (before, after) = (&text[..open], &text[close + 1..]);
        return text[open + 1..close]
            .split(',')
            .all(|part| exists(&format!("{before}{part}{after}")));
    }
    let text = text
        .split('*')
        .next()
        .unwrap_or_default()
        .trim_end_matches('/');
    let path = root().join(text);
    path.exists() || path.with_extension("rs").exists() || path.with_extension("py").exists()
}

#[test]
fn the_paths_of_architecture_exist() {
    let file = root().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&file).expect("ARCHITECTURE.md, the repository's map");
    let paths: Vec<_> = quoted(&text)
        .into_iter()
        .filter(|text| is_path(text))
        .collect();
    assert!(paths.len() >= 10, "a map names its places; found {paths:?}");
    let gone: Vec<_> = paths.iter().filter(|path| !exists(path)).collect();
    assert!(
        gone.is_empty(),
        "ARCHITECTURE.md names what isn't there: {gone:?}"
    );
}

#[test]
fn the_paths_of_all_documents_exist() {
    let mut gone = Vec::new();
    for file in documents() {
        let text = std::fs::read_to_string(&file).expect("a document");
        let folder = file.parent().unwrap_or(Path::new("."));
        for path in quoted(&text).iter().filter(|text| is_path(text)) {
            if !exists(path) && !folder.join(path).exists() {
                gone.push(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(
        gone.is_empty(),
        "documents name what isn't there: {gone:#?}"
    );
}

#[test]
fn the_links_of_all_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for file in documents() {
        let text = std::fs::read_to_string(&file).expect("a document");
        let folder = file.parent().unwrap_or(Path::new("."));
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = target.split('#').next().unwrap_or_default();
            let outside = target.contains("://") || target.starts_with("mailto:");
            if !outside && !path.is_empty() && !folder.join(path).exists() {
                broken.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links lead nowhere: {broken:#?}");
}

#[test]
fn back_quotes_and_braces_are_read_right() {
    assert_eq!(quoted("a `b` c `d`\n```\n`e`\n```\n"), ["b", "d"]);
    assert!(is_path("crates/types") && !is_path("cargo xtask") && !is_path("crates/a b"));
    assert!(exists("crates/types/src/{fault,job}.rs"));
    assert!(!exists("crates/nothing"));
}
