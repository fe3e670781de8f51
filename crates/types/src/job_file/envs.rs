//! `envs: {KEY: ${NAME}}`: passes a variable of the host on to a plugin, by name.
//!
//! Pure: the caller brings the look-up. A variable that isn't set is a fault, never an empty text.

use crate::fault::{Fault, Location};
use crate::job::JobConfig;
use crate::plugin::PluginConfig;

/// The same job with every `${NAME}` in `envs` replaced by what `lookup` has for it.
///
/// # Errors
/// One `Invalid value` for each variable that `lookup` doesn't have.
pub fn expand_envs(
    mut config: JobConfig,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<JobConfig, Vec<Fault>> {
    let mut faults = Vec::new();
    let rollout = config
        .rollout
        .iter_mut()
        .map(|plugin| ("rollout".to_owned(), plugin));
    let graders = config.graders.iter_mut().enumerate();
    let graders = graders.map(|(i, grader)| (format!("graders[{i}]"), &mut grader.plugin));
    for (place, plugin) in rollout.chain(graders) {
        expand(plugin, &place, &lookup, &mut faults);
    }
    match faults.is_empty() {
        true => Ok(config),
        false => Err(faults),
    }
}

fn expand(
    plugin: &mut PluginConfig,
    place: &str,
    lookup: &impl Fn(&str) -> Option<String>,
    faults: &mut Vec<Fault>,
) {
    for (key, value) in &mut plugin.envs {
        match replaced(value, lookup) {
            Ok(text) => *value = text,
            Err(name) => {
                let field = format!("custom_rl_pipeline.{place}.plugin.envs.{key}");
                let location = Location {
                    plugin: Some(plugin.name.clone()),
                    ..Location::default().field(field)
                };
                faults.push(
                    Fault::invalid_value(
                        format!("${{{name}}} is not set in this environment"),
                        format!("set it before the job starts: `export {name}=...`"),
                    )
                    .at(location)
                    .with("value", value.as_str()),
                );
            }
        }
    }
}

/// The text with its references replaced; the first name that isn't set otherwise.
fn replaced(text: &str, lookup: &impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let after = &rest[start + 2..];
        let name_end = after
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(after.len());
        let (name, tail) = after.split_at(name_end);
        match tail.strip_prefix('}') {
            Some(tail) if !name.is_empty() => {
                out.push_str(&rest[..start]);
                out.push_str(&lookup(name).ok_or_else(|| name.to_owned())?);
                rest = tail;
            }
            _ => {
                out.push_str(&rest[..start + 2]);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_once_and_nothing_else_is() {
        let lookup = |name: &str| (name == "A").then(|| "${A}!".to_owned());
        assert_eq!(replaced("x${A}y", &lookup), Ok("x${A}!y".into()));
        assert_eq!(replaced("$A ${} ${A", &lookup), Ok("$A ${} ${A".into()));
        assert_eq!(replaced("${B}", &lookup), Err("B".into()));
    }
}
