//! Walks a tree of nodes and collects what is wrong with it, all of it up to a limit.
//!
//! A reader never stops at the first problem: it notes it, takes the default, and goes on. What
//! it hands out counts only if it has noted nothing.

use crate::fault::{Fault, Location};
use crate::job_file::hyperparameters;
use crate::job_file::setting::{Setting, number, shown};
use crate::job_file::tree::{Data, Entry, Node};
use crate::suggest;

/// Problems of one file at most; what comes after is not worth reading before these are solved.
pub(super) const LIMIT: usize = 50;

/// A node with its path, such as `data.training_set`.
#[derive(Debug, Clone)]
pub(super) struct Slot<'n> {
    pub(super) node: &'n Node,
    pub(super) path: String,
    /// The line of its key, where the value itself may begin further down.
    pub(super) line: u64,
}

impl<'n> Slot<'n> {
    pub(super) fn root(node: &'n Node) -> Self {
        Self {
            node,
            path: String::new(),
            line: node.line,
        }
    }

    fn child(&self, entry: &'n Entry) -> Self {
        let path = match self.path.is_empty() {
            true => entry.key.clone(),
            false => format!("{}.{}", self.path, entry.key),
        };
        Self {
            node: &entry.value,
            path,
            line: entry.line,
        }
    }

    /// The last part of the path: what messages call it.
    pub(super) fn name(&self) -> &str {
        match self.path.rsplit('.').next() {
            Some("") | None => "the file",
            Some(name) => name,
        }
    }
}

/// A mapping whose keys have been checked.
#[derive(Debug)]
pub(super) struct Fields<'n> {
    pub(super) slot: Slot<'n>,
    entries: &'n [Entry],
}

impl<'n> Fields<'n> {
    /// The value of a key; `None` if it is left out or nothing.
    pub(super) fn get(&self, key: &str) -> Option<Slot<'n>> {
        let entry = self.entries.iter().find(|e| e.key == key)?;
        (!entry.value.is_null()).then(|| self.slot.child(entry))
    }

    /// Every entry.
    pub(super) fn all(&self) -> impl Iterator<Item = Slot<'n>> {
        self.entries.iter().map(|e| self.slot.child(e))
    }
}

/// What has been found so far.
#[derive(Debug)]
pub(super) struct Reader<'f> {
    file: &'f str,
    faults: Vec<Fault>,
    warnings: Vec<String>,
}

impl<'f> Reader<'f> {
    pub(super) fn new(file: &'f str) -> Self {
        Self {
            file,
            faults: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The faults, in the order of their lines, and the warnings.
    pub(super) fn finish(mut self) -> (Vec<Fault>, Vec<String>) {
        self.faults.sort_by_key(|f| f.location.line);
        self.faults.truncate(LIMIT);
        (self.faults, self.warnings)
    }

    /// Notes something that is allowed and likely not meant.
    pub(super) fn warn(&mut self, slot: &Slot<'_>, what: &str) {
        self.warnings
            .push(format!("{}:{}: {} {what}", self.file, slot.line, slot.path));
    }

    /// Notes a fault at a place.
    pub(super) fn note(&mut self, slot: &Slot<'_>, fault: Fault) {
        let mut place = Location::line(self.file, slot.line);
        if !slot.path.is_empty() {
            place = place.field(slot.path.clone());
        }
        self.faults.push(fault.at(place));
    }

    /// Notes an `Invalid value` with what is allowed.
    pub(super) fn refuse(&mut self, slot: &Slot<'_>, message: String, allowed: &str) {
        let fault = Fault::invalid_value(
            format!("{message}; allowed: {allowed}"),
            format!("write {allowed}"),
        );
        let value = match &slot.node.data {
            Data::Scalar { text, .. } => text.clone(),
            _ => slot.node.what().to_owned(),
        };
        self.note(slot, fault.with("value", value).with("allowed", allowed));
    }

    /// Notes a key that must be there and isn't.
    pub(super) fn missing(&mut self, fields: &Fields<'_>, key: &str, advice: &str) {
        let slot = &fields.slot;
        let path = match slot.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", slot.path),
        };
        let place = Slot {
            node: slot.node,
            path,
            line: slot.line,
        };
        self.note(
            &place,
            Fault::invalid_value(format!("{key} is missing"), advice),
        );
    }

    /// The fields of a mapping. Unknown keys are noted, with the nearest right spelling.
    pub(super) fn fields<'n>(&mut self, slot: &Slot<'n>, known: &[&str]) -> Option<Fields<'n>> {
        let fields = self.open(slot, &format!("a mapping of {}", known.join(", ")))?;
        for entry in fields
            .entries
            .iter()
            .filter(|e| !known.contains(&e.key.as_str()))
        {
            let at = slot.child(entry);
            let fault = super::unknown::key(&entry.key, slot.name(), known);
            self.note(&at, fault);
        }
        Some(fields)
    }

    /// A mapping with any keys.
    pub(super) fn open<'n>(&mut self, slot: &Slot<'n>, allowed: &str) -> Option<Fields<'n>> {
        match &slot.node.data {
            Data::Map(entries) => Some(Fields {
                slot: slot.clone(),
                entries,
            }),
            _ => {
                self.refuse(
                    slot,
                    format!("{} is {}", slot.name(), slot.node.what()),
                    allowed,
                );
                None
            }
        }
    }

    /// The items of a list.
    pub(super) fn items<'n>(&mut self, slot: &Slot<'n>, allowed: &str) -> Vec<Slot<'n>> {
        match &slot.node.data {
            Data::List(items) => items
                .iter()
                .enumerate()
                .map(|(i, node)| Slot {
                    node,
                    path: format!("{}[{i}]", slot.path),
                    line: node.line,
                })
                .collect(),
            _ => {
                self.refuse(
                    slot,
                    format!("{} is {}", slot.name(), slot.node.what()),
                    allowed,
                );
                Vec::new()
            }
        }
    }

    /// A text that isn't empty.
    pub(super) fn text(&mut self, slot: &Slot<'_>) -> Option<String> {
        let text = self.scalar(slot, "a text")?;
        if text.trim().is_empty() {
            self.refuse(slot, format!("{} is empty", slot.name()), "a text");
            return None;
        }
        Some(text)
    }

    /// Whatever single value stands there, as text.
    pub(super) fn scalar(&mut self, slot: &Slot<'_>, allowed: &str) -> Option<String> {
        match &slot.node.data {
            Data::Scalar { text, .. } => Some(text.clone()),
            _ => {
                self.refuse(
                    slot,
                    format!("{} is {}", slot.name(), slot.node.what()),
                    allowed,
                );
                None
            }
        }
    }

    /// A finite number for which `holds`.
    pub(super) fn number(
        &mut self,
        slot: &Slot<'_>,
        allowed: &str,
        holds: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        let text = self.scalar(slot, allowed)?;
        match number(text.trim()) {
            Ok(x) if holds(x) => Some(x),
            Ok(_) => {
                self.refuse(
                    slot,
                    format!("{} is {}", slot.name(), shown(&text)),
                    allowed,
                );
                None
            }
            Err(why) => {
                self.refuse(slot, format!("{} {why}", slot.name()), allowed);
                None
            }
        }
    }

    /// Sets whatever rows of a table the mapping has.
    pub(super) fn settings<T>(&mut self, fields: &Fields<'_>, rows: &[Setting<T>], target: &mut T) {
        for row in rows {
            let Some(slot) = fields.get(row.name) else {
                continue;
            };
            let Some(text) = self.scalar(&slot, &row.allowed()) else {
                continue;
            };
            if let Err(refusal) = row.set(target, &text) {
                self.note(&slot, hyperparameters::refused(&refusal, &text));
            }
        }
    }

    /// Notes that a name is unknown, with the nearest of those that are known.
    pub(super) fn unknown_name(&mut self, slot: &Slot<'_>, name: &str, known: &[&str]) {
        let nearest = suggest::nearest(name, known.iter().copied());
        let mut fault = Fault::invalid_value(
            format!(
                "{} is {}; allowed: {}{}",
                slot.name(),
                shown(name),
                known.join(", "),
                suggest::hint(nearest)
            ),
            format!("write {}", known.join(" or ")),
        )
        .with("value", name)
        .with("allowed", known.to_vec());
        if let Some(nearest) = nearest {
            fault = fault.with("nearest", nearest);
        }
        self.note(slot, fault);
    }
}
