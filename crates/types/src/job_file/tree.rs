//! YAML as a tree of nodes that know their lines.
//!
//! Scalars stay the text that was written: what a number is gets decided by the field that it
//! fills, not by YAML's rules. Depth and size are bounded before anything is kept, so that no
//! text, however hostile, costs more than its own length.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Value};

/// Levels of nesting at most.
const MAX_DEPTH: usize = 32;
/// Nodes at most, those that aliases repeat included.
const MAX_NODES: usize = 20_000;
/// Bytes of a job file at most.
const MAX_BYTES: usize = 1 << 20;

/// A value with the line that it begins on.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// From 1.
    pub(super) line: u64,
    /// What it is.
    pub(super) data: Data,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub(super) enum Data {
    /// A text or number. `plain`: written without quotes.
    Scalar { text: String, plain: bool },
    /// A list.
    List(Vec<Node>),
    /// A mapping, in its order.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The key's line.
    pub(super) line: u64,
    pub(super) value: Node,
}

impl Node {
    /// True for what YAML takes as nothing: an empty value, `~`, `null`.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.data, Data::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// In words, for messages.
    pub(super) fn what(&self) -> &'static str {
        match &self.data {
            Data::Scalar { .. } if self.is_null() => "nothing",
            Data::Scalar { .. } => "a single value",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
        }
    }

    /// As JSON, with plain scalars read by YAML's core schema.
    pub(super) fn to_json(&self) -> Value {
        match &self.data {
            Data::Scalar { text, plain: false } => Value::String(text.clone()),
            Data::Scalar { .. } if self.is_null() => Value::Null,
            Data::Scalar { text, .. } => plain_json(text),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|e| (e.key.clone(), e.value.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

fn plain_json(text: &str) -> Value {
    match text {
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let number = text.parse::<i64>().ok().map(Value::from).or_else(|| {
        let finite = text.parse::<f64>().ok().filter(|x| x.is_finite())?;
        serde_json::Number::from_f64(finite).map(Value::Number)
    });
    number.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Why a text is no job file at all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) line: u64,
    pub(super) message: String,
    pub(super) advice: &'static str,
}

/// Reads the one document of a text.
pub(super) fn read(text: &str) -> Result<Node, Broken> {
    if text.len() > MAX_BYTES {
        return Err(Broken {
            line: 1,
            message: format!("the file has {} bytes; {MAX_BYTES} are allowed", text.len()),
            advice: "keep data out of the job file: name its files under `data`",
        });
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    build(text).or_else(|broken| match quoted(text) {
        // `{KEY: ${KEY}}` is how people write it, though YAML wants quotes there.
        Some(quoted) => build(&quoted).map_err(|_| broken),
        None => Err(broken),
    })
}

/// The text with every `: ${NAME}` that a `,` or `}` follows put in quotes; `None` without any.
fn quoted(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(": ${") {
        let (before, from) = rest.split_at(start + 2);
        out.push_str(before);
        let end = from[2..]
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .map_or(from.len(), |at| at + 2);
        let (reference, after) = match from[end..].starts_with('}') {
            true => from.split_at(end + 1),
            false => from.split_at(end),
        };
        if after.trim_start_matches(' ').starts_with([',', '}']) && reference.ends_with('}') {
            found = true;
            out.push('"');
            out.push_str(reference);
            out.push('"');
        } else {
            out.push_str(reference);
        }
        rest = after;
    }
    out.push_str(rest);
    found.then_some(out)
}

enum Frame {
    List(u64, Vec<Node>),
    Map(u64, Vec<Entry>, Option<(String, u64)>),
}

#[derive(Default)]
struct Builder {
    stack: Vec<(Frame, usize)>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
}

fn build(text: &str) -> Result<Node, Broken> {
    let mut parser = Parser::new_from_str(text);
    let mut builder = Builder::default();
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|e| scan_error(&e))?;
        builder.event(event, span.start.line().max(1) as u64)?;
    }
    builder.root.ok_or_else(|| Broken {
        line: 1,
        message: "the file is empty".into(),
        advice: "begin with `name:`; examples/arithmetic/job.yaml shows a whole job",
    })
}

fn scan_error(error: &ScanError) -> Broken {
    Broken {
        line: error.marker().line().max(1) as u64,
        message: format!(
            "not valid YAML: {} (column {})",
            error.info(),
            error.marker().col() + 1
        ),
        advice: "check indentation and quotes at this line and the one above it",
    }
}

impl Builder {
    fn event(&mut self, event: Event<'_>, line: u64) -> Result<(), Broken> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => Err(Broken {
                line,
                message: "a second document begins here".into(),
                advice: "keep one job a file: remove the `---`",
            }),
            Event::Scalar(text, style, anchor, _) => {
                let data = Data::Scalar {
                    text: text.into_owned(),
                    plain: style == ScalarStyle::Plain,
                };
                self.add(Node { line, data }, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                self.open(Frame::List(line, Vec::new()), anchor, line)
            }
            Event::MappingStart(anchor, _) => {
                self.open(Frame::Map(line, Vec::new(), None), anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned().ok_or_else(|| Broken {
                    line,
                    message: "an alias stands inside its own anchor".into(),
                    advice: "write the value out",
                })?;
                self.nodes += count(&node);
                self.add(node, 0)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, frame: Frame, anchor: usize, line: u64) -> Result<(), Broken> {
        if let Some((Frame::Map(_, _, None), _)) = self.stack.last() {
            return Err(key_error(line));
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(Broken {
                line,
                message: format!("nested deeper than {MAX_DEPTH} levels"),
                advice: "a job file needs five levels at most",
            });
        }
        self.stack.push((frame, anchor));
        Ok(())
    }

    fn close(&mut self) -> Result<(), Broken> {
        let Some((frame, anchor)) = self.stack.pop() else {
            return Ok(());
        };
        let node = match frame {
            Frame::List(line, items) => Node {
                line,
                data: Data::List(items),
            },
            Frame::Map(line, entries, _) => Node {
                line,
                data: Data::Map(entries),
            },
        };
        self.add(node, anchor)
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Broken> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Broken {
                line: node.line,
                message: format!("more than {MAX_NODES} values"),
                advice: "keep data out of the job file: name its files under `data`",
            });
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some((Frame::List(_, items), _)) => items.push(node),
            Some((Frame::Map(_, entries, pending), _)) => match pending.take() {
                None => match node.data {
                    Data::Scalar { text, .. } => *pending = Some((text, node.line)),
                    _ => return Err(key_error(node.line)),
                },
                Some((key, line)) => {
                    if let Some(first) = entries.iter().find(|e| e.key == key) {
                        return Err(Broken {
                            line,
                            message: format!(
                                "the key \"{key}\" stands here again; line {} has it already",
                                first.line
                            ),
                            advice: "keep one of the two",
                        });
                    }
                    entries.push(Entry {
                        key,
                        line,
                        value: node,
                    });
                }
            },
        }
        Ok(())
    }
}

fn key_error(line: u64) -> Broken {
    Broken {
        line,
        message: "a key must be a word".into(),
        advice: "quote the value if it begins with `{` or `[`",
    }
}

fn count(node: &Node) -> usize {
    1 + match &node.data {
        Data::Scalar { .. } => 0,
        Data::List(items) => items.iter().map(count).sum(),
        Data::Map(entries) => entries.iter().map(|e| count(&e.value)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        read(text).expect("valid YAML").to_json()
    }

    #[test]
    fn lines_and_texts_are_kept() {
        let root = read("a: \"1e-6\"\nb:\n  - c: 2\n").expect("valid YAML");
        let Data::Map(entries) = &root.data else {
            panic!("a mapping, got {root:?}")
        };
        assert_eq!((entries[1].line, entries[1].value.line), (2, 3));
        assert_eq!(
            root.to_json(),
            serde_json::json!({"a": "1e-6", "b": [{"c": 2}]})
        );
    }

    #[test]
    fn an_unquoted_reference_in_braces_reads_as_meant() {
        assert_eq!(
            json("envs: {KEY: ${KEY}, OTHER: ${B_2} }\n"),
            serde_json::json!({"envs": {"KEY": "${KEY}", "OTHER": "${B_2}"}})
        );
    }

    #[test]
    fn what_is_broken_says_where() {
        assert_eq!(read("a: 1\na: 2").expect_err("twice").line, 2);
        assert_eq!(read("a: [1, 2\nb: 3\n").expect_err("open list").line, 2);
        assert!(read("").expect_err("empty").message.contains("empty"));
        assert!(read("a: 1\n---\nb: 2\n").is_err());
        assert!(read(&"[".repeat(5000)).is_err());
    }

    #[test]
    fn repeated_aliases_end() {
        let mut text = String::from("a0: &a0 [x]\n");
        for i in 1..30 {
            text.push_str(&format!("a{i}: &a{i} [*a{0}, *a{0}]\n", i - 1));
        }
        assert!(
            read(&text)
                .expect_err("too many")
                .message
                .contains("more than")
        );
    }
}
