//! What `paddock explain` knows: a page for each kind of fault, and the tables of settings.
//!
//! The pages are `docs/errors/*.md`, built in; the tables are the very rows that job files are
//! read by. Nothing is explained here that isn't in force.

use crate::fault::{FaultKind, SubKind};
use crate::job_file::hyperparameters::{HYPERPARAMETERS, default_of};
use crate::job_file::setting::Setting;
use crate::job_file::{RUNTIME, SETTINGS};
use crate::suggest;

/// A page on one kind or sub-kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The kind's text, such as `Invalid value`.
    pub name: &'static str,
    /// The file's name in `docs/errors`, without its ending.
    pub slug: &'static str,
    /// The page.
    pub markdown: &'static str,
}

macro_rules! page {
    ($name:expr, $slug:literal) => {
        Page {
            name: $name.as_str(),
            slug: $slug,
            markdown: include_str!(concat!("../../../docs/errors/", $slug, ".md")),
        }
    };
}

/// Every page, kinds before sub-kinds, in the order of the documentation.
pub const PAGES: [Page; 13] = [
    page!(FaultKind::Internal, "internal-error"),
    page!(FaultKind::Unknown, "unknown-error"),
    page!(FaultKind::CallPlugin, "call-plugin-error"),
    page!(FaultKind::InvalidData, "invalid-data"),
    page!(FaultKind::InvalidValue, "invalid-value"),
    page!(FaultKind::LossNan, "loss-nan"),
    page!(SubKind::Timeout, "timeout"),
    page!(SubKind::Eof, "eof"),
    page!(SubKind::Raised, "500"),
    page!(SubKind::Oom, "faas-oom"),
    page!(SubKind::Create, "create-faas-fault"),
    page!(SubKind::AbnormalReward, "abnormal-reward"),
    page!(SubKind::ReturnedFailure, "returned-failure"),
];

impl Page {
    /// Its first sentence: the kind in short.
    pub fn summary(&self) -> &'static str {
        let body = self
            .markdown
            .lines()
            .find(|line| !line.is_empty() && !line.starts_with('#'));
        let body = body.unwrap_or_default();
        match body.find(". ") {
            Some(end) => &body[..=end],
            None => body,
        }
    }
}

/// The page on a kind. Case, separators and a `Call plugin error: ` in front are no difference;
/// so are the names under which the sub-kinds are known in Chinese.
pub fn page(text: &str) -> Option<&'static Page> {
    let text = text.trim().trim_matches('"');
    let last = text.rsplit(": ").next().unwrap_or(text);
    if last.contains("返回异常数值") {
        return page("Abnormal reward");
    }
    let wanted = fold(last);
    PAGES
        .iter()
        .find(|page| fold(page.name) == wanted || fold(page.slug) == wanted)
}

/// The topic that a text likely meant.
pub fn nearest(text: &str) -> Option<&'static str> {
    let topics = || PAGES.iter().map(|page| page.name).chain(TABLES);
    let part = fold(text);
    let within = |name: &&str| part.chars().count() >= 3 && fold(name).contains(&part);
    suggest::nearest(text, topics()).or_else(|| topics().find(within))
}

/// The topics that are tables of settings.
pub const TABLES: [&str; 3] = ["hyperparameters", "runtime", "settings"];

/// A setting in words.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Described {
    /// Its key.
    pub name: &'static str,
    /// What holds if it is left out.
    pub default: String,
    /// What it may be.
    pub allowed: String,
    /// What it does.
    pub meaning: &'static str,
}

/// A table of settings by its topic.
pub fn table(topic: &str) -> Option<Vec<Described>> {
    match fold(topic).as_str() {
        "hyperparameters" | "hyperparameter" => Some(
            HYPERPARAMETERS
                .iter()
                .map(|row| described(row, default_of(row)))
                .collect(),
        ),
        "runtime" => Some(plain(RUNTIME)),
        "settings" => Some(plain(SETTINGS)),
        _ => None,
    }
}

fn plain<T>(rows: &[Setting<T>]) -> Vec<Described> {
    rows.iter()
        .map(|row| described(row, row.otherwise.unwrap_or_default().to_owned()))
        .collect()
}

fn described<T>(row: &Setting<T>, default: String) -> Described {
    Described {
        name: row.name,
        default,
        allowed: row.allowed(),
        meaning: row.meaning,
    }
}

fn fold(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_is_enough_for_a_hint() {
        assert_eq!(nearest("OOM"), Some("FaaS OOM"));
        assert_eq!(nearest("reward"), Some("Abnormal reward"));
        assert_eq!(nearest("xy"), None);
    }

    #[test]
    fn every_kind_has_a_page_of_its_own() {
        let names = FaultKind::ALL.map(FaultKind::as_str).into_iter();
        let names: Vec<_> = names.chain(SubKind::ALL.map(SubKind::as_str)).collect();
        assert_eq!(PAGES.map(|page| page.name).to_vec(), names);
        for name in names {
            let page = page(name).unwrap_or_else(|| panic!("no page on {name}"));
            assert_eq!(
                page.markdown.lines().next(),
                Some(format!("# {name}").as_str())
            );
            assert!(page.summary().ends_with('.'), "{name}: {}", page.summary());
            for part in [
                "参考文档",
                "## What is kept with it",
                "## Likely causes",
                "## What to do",
            ] {
                let parts = page.markdown.contains(part) || name == "Call plugin error";
                assert!(parts, "{name} lacks \"{part}\"");
            }
        }
    }

    #[test]
    fn every_page_of_the_folder_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder of pages")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        let mut pages: Vec<String> = PAGES.iter().map(|p| format!("{}.md", p.slug)).collect();
        files.sort();
        pages.sort();
        assert_eq!(files, pages);
    }

    #[test]
    fn topics_are_found_as_people_write_them() {
        assert_eq!(page("invalid-value").map(|p| p.name), Some("Invalid value"));
        assert_eq!(
            page("Call plugin error: FaaS OOM").map(|p| p.slug),
            Some("faas-oom")
        );
        assert_eq!(
            page("Reward 返回异常数值").map(|p| p.slug),
            Some("abnormal-reward")
        );
        assert_eq!(page("nonsense"), None);
        assert_eq!(nearest("Time out"), Some("Timeout"));
        for topic in TABLES {
            let rows = table(topic).unwrap_or_else(|| panic!("no table {topic}"));
            assert!(
                rows.iter()
                    .all(|row| !row.default.is_empty() && !row.meaning.is_empty())
            );
        }
    }
}
