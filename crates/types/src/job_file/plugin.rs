//! The plugins of a job file: functions, environments, limits.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::job::GraderConfig;
use crate::job_file::PIPELINE_KEYS;
use crate::job_file::reader::{Fields, Reader, Slot};
use crate::job_file::setting::{Kind, Setting, shown};
use crate::plugin::{Concurrency, InstanceSize, PluginConfig, RuntimeOverrides};

type Row = Setting<RuntimeOverrides>;

const fn row(
    name: &'static str,
    kind: Kind<RuntimeOverrides>,
    default: &'static str,
    meaning: &'static str,
) -> Row {
    Setting {
        name,
        kind,
        otherwise: Some(default),
        meaning,
        also: &[],
    }
}

fn instances() -> Vec<String> {
    InstanceSize::all().map(|size| size.to_string()).collect()
}

fn concurrencies() -> Vec<String> {
    vec!["process".into(), "thread".into()]
}

/// The limits that `runtime:` may set.
pub const RUNTIME: &[Row] = &[
    row(
        "instance",
        Kind::Choice(instances, |r, name| r.instance = InstanceSize::parse(name)),
        "cpu1mem2",
        "size of one instance: cores (a cap) and GiB (reserved)",
    ),
    row(
        "timeout",
        Kind::Whole(1, 900, |r, n| r.timeout = Some(n)),
        "900",
        "seconds for one call",
    ),
    row(
        "max_concurrency",
        Kind::Whole(1, 100, |r, n| r.max_concurrency = Some(n)),
        "10",
        "calls that one instance runs at once",
    ),
    row(
        "min_replicas",
        Kind::Whole(0, 10_000, |r, n| r.min_replicas = Some(n)),
        "1",
        "instances kept",
    ),
    row(
        "max_replicas",
        Kind::Whole(1, 10_000, |r, n| r.max_replicas = Some(n)),
        "10",
        "instances at most",
    ),
    row(
        "queue_timeout",
        Kind::Whole(1, 1_000_000, |r, n| r.queue_timeout = Some(n)),
        "3600",
        "seconds that a call may wait for a slot",
    ),
    row(
        "concurrency",
        Kind::Choice(concurrencies, |r, name| {
            r.concurrency = Some(match name {
                "thread" => Concurrency::Thread,
                _ => Concurrency::Process,
            });
        }),
        "process for graders, thread for rollouts",
        "how a `def` function runs at once",
    ),
];

const PLUGIN_KEYS: &[&str] = &["name", "python_func", "envs", "runtime"];
const GRADERS_SHAPE: &str =
    "a list of graders, each `{plugin: {name: ..., python_func: \"module:function\"}, weight: 1}`";

/// Reads `custom_rl_pipeline`.
pub(super) fn pipeline(
    reader: &mut Reader<'_>,
    slot: &Slot<'_>,
) -> (Option<PluginConfig>, Vec<GraderConfig>) {
    let Some(fields) = reader.fields(slot, PIPELINE_KEYS) else {
        return (None, Vec::new());
    };
    let mut names = BTreeMap::new();
    let rollout = fields.get("rollout").and_then(|slot| {
        let fields = reader.fields(&slot, &["plugin"])?;
        wrapped(reader, &fields, &mut names)
    });
    let Some(slot) = fields.get("graders") else {
        reader.missing(
            &fields,
            "graders",
            &format!("at least one grader is needed: write {GRADERS_SHAPE}"),
        );
        return (rollout, Vec::new());
    };
    let items = reader.items(&slot, GRADERS_SHAPE);
    if items.is_empty() && matches!(&slot.node.data, super::tree::Data::List(_)) {
        reader.refuse(&slot, "graders is empty".into(), "at least one grader");
    }
    let graders = items
        .iter()
        .filter_map(|item| grader(reader, item, &mut names))
        .collect();
    (rollout, graders)
}

fn grader(
    reader: &mut Reader<'_>,
    slot: &Slot<'_>,
    names: &mut BTreeMap<String, String>,
) -> Option<GraderConfig> {
    let fields = reader.fields(slot, &["plugin", "weight"])?;
    let plugin = wrapped(reader, &fields, names);
    let weight = match fields.get("weight") {
        Some(slot) => reader.number(&slot, "a number from -1000000 to 1000000", |x| {
            x.abs() <= 1e6
        }),
        None => Some(1.0),
    };
    Some(GraderConfig {
        plugin: plugin?,
        weight: weight?,
    })
}

fn wrapped(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    names: &mut BTreeMap<String, String>,
) -> Option<PluginConfig> {
    let Some(slot) = fields.get("plugin") else {
        reader.missing(
            fields,
            "plugin",
            "name the function: `plugin: {name: ..., python_func: \"plugins.file:function\"}`",
        );
        return None;
    };
    let fields = reader.fields(&slot, PLUGIN_KEYS)?;
    let python_func = match fields.get("python_func") {
        Some(slot) => function(reader, &slot),
        None => {
            reader.missing(
                &fields,
                "python_func",
                "name the function as `module.path:function`",
            );
            None
        }
    };
    let name_slot = fields.get("name");
    let name = match &name_slot {
        Some(slot) => name(reader, slot),
        None => python_func
            .as_deref()
            .and_then(|f| f.split_once(':'))
            .map(|(_, f)| f.to_owned()),
    };
    let at = name_slot.unwrap_or_else(|| slot.clone());
    if let Some(name) = &name
        && let Some(first) = names.insert(name.clone(), slot.path.clone())
    {
        let message = format!("the name {} is taken by {first}", shown(name));
        reader.refuse(&at, message, "a name of its own for each plugin");
    }
    let envs = fields
        .get("envs")
        .map(|slot| envs(reader, &slot))
        .unwrap_or_default();
    let runtime = fields
        .get("runtime")
        .map(|slot| runtime(reader, &slot))
        .unwrap_or_default();
    Some(PluginConfig {
        name: name?,
        python_func: python_func?,
        envs,
        runtime,
    })
}

/// Longest name of a plugin, in characters.
const MAX_NAME: usize = 64;

fn name(reader: &mut Reader<'_>, slot: &Slot<'_>) -> Option<String> {
    let text = reader.text(slot)?;
    let fits = text.chars().count() <= MAX_NAME
        && !text.chars().any(|c| c.is_control() || c == '/')
        && text.trim() == text;
    if !fits {
        let allowed = "1 to 64 characters without `/`, control characters or space around them";
        reader.refuse(slot, format!("name is {}", shown(&text)), allowed);
        return None;
    }
    Some(text)
}

fn function(reader: &mut Reader<'_>, slot: &Slot<'_>) -> Option<String> {
    let text = reader.text(slot)?;
    if !is_function(&text) {
        let message = format!("python_func is {}", shown(&text));
        reader.refuse(
            slot,
            message,
            "module.path:function, such as \"plugins.reward:reward_fn\"",
        );
        return None;
    }
    Some(text)
}

/// True for `module.path:function`.
pub fn is_function(text: &str) -> bool {
    let word = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && chars.all(|c| c.is_alphanumeric() || c == '_')
    };
    text.split_once(':')
        .is_some_and(|(module, function)| module.split('.').all(word) && word(function))
}

fn envs(reader: &mut Reader<'_>, slot: &Slot<'_>) -> BTreeMap<String, String> {
    let Some(fields) = reader.open(slot, "a mapping of names to texts") else {
        return BTreeMap::new();
    };
    let mut out = BTreeMap::new();
    for slot in fields.all() {
        let key = slot.path[fields.slot.path.len() + 1..].to_owned();
        let fits = !key.is_empty()
            && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !key.starts_with(|c: char| c.is_ascii_digit());
        if !fits {
            let fault = Fault::invalid_value(
                format!("{} is no name of an environment variable", shown(&key)),
                "use letters, digits and `_`, and begin with a letter",
            );
            reader.note(&slot, fault.with("value", key));
        } else if slot.node.is_null() {
            out.insert(key, String::new());
        } else if let Some(text) = reader.scalar(&slot, "a text, or ${NAME} to pass one on") {
            out.insert(key, text);
        }
    }
    out
}

fn runtime(reader: &mut Reader<'_>, slot: &Slot<'_>) -> RuntimeOverrides {
    let mut limits = RuntimeOverrides::default();
    let known: Vec<_> = RUNTIME.iter().map(|row| row.name).collect();
    let Some(fields) = reader.fields(slot, &known) else {
        return limits;
    };
    reader.settings(&fields, RUNTIME, &mut limits);
    if let (Some(min), Some(max)) = (limits.min_replicas, limits.max_replicas)
        && min > max
        && let Some(slot) = fields.get("min_replicas")
    {
        let allowed = format!("a whole number from 0 to max_replicas ({max})");
        reader.refuse(&slot, format!("min_replicas is \"{min}\""), &allowed);
    }
    limits
}
