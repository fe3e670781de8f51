//! Finds a Python that plugins can run on.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use paddock_types::{Fault, SubKind};
use tokio::process::Command;

/// The oldest version that the SDK's worker runs on.
const OLDEST: (u32, u32) = (3, 11);
/// Names that are tried, in this order, after the setting.
const NAMES: [&str; 4] = ["python3.13", "python3.12", "python3.11", "python3"];
/// How long an interpreter may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(20);
/// The variable that names an interpreter.
const SETTING: &str = "PADDOCK_PYTHON";

const QUESTION: &str = "import sys, sysconfig; \
    print(sys.executable, *sys.version_info[:2], sys.version.split()[0], sysconfig.get_platform(), sep='\\n')";

/// An interpreter that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// Where it is.
    pub path: PathBuf,
    /// Its version, such as `3.11.7`.
    pub version: String,
    /// The platform it was built for.
    pub platform: String,
}

/// The first interpreter that is new enough.
pub(crate) async fn find() -> Result<Python, Fault> {
    let mut seen = Vec::new();
    let setting = std::env::var(SETTING).ok().filter(|name| !name.is_empty());
    let only_setting = setting.is_some();
    let names = setting
        .into_iter()
        .chain(NAMES.map(str::to_owned))
        .take(if only_setting { 1 } else { NAMES.len() });
    for name in names {
        match ask(&name).await {
            Ok(python) => return Ok(python),
            Err(reason) => seen.push(format!("{name}: {reason}")),
        }
    }
    let (major, minor) = OLDEST;
    Err(Fault::call_plugin(
        SubKind::Create,
        format!("no Python {major}.{minor} or newer was found"),
        format!("install one, or name it in the variable {SETTING}"),
    )
    .with("tried", seen))
}

async fn ask(name: &str) -> Result<Python, String> {
    let asked = Command::new(name)
        .args(["-I", "-c", QUESTION])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(PATIENCE, asked).await {
        Err(_) => return Err(format!("no answer within {} s", PATIENCE.as_secs())),
        Ok(Err(error)) => return Err(error.to_string()),
        Ok(Ok(output)) => output,
    };
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let line = words.lines().find(|l| !l.trim().is_empty());
        return Err(line.unwrap_or("it does not run").trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    read(&text).ok_or_else(|| "it does not say what it is".to_owned())?
}

/// Reads the answer; `None` if it is none, an error if it is too old.
fn read(text: &str) -> Option<Result<Python, String>> {
    let mut lines = text.lines();
    let path = lines.next()?;
    let version = (
        lines.next()?.parse::<u32>().ok()?,
        lines.next()?.parse::<u32>().ok()?,
    );
    let (full, platform) = (lines.next()?, lines.next()?);
    if version < OLDEST {
        return Some(Err(format!("it is {full}, which is too old")));
    }
    Some(Ok(Python {
        path: path.into(),
        version: full.to_owned(),
        platform: platform.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_interpreter_is_not_taken() {
        let new = read("/usr/bin/python3\n3\n12\n3.12.1\nlinux-x86_64\n").expect("an answer");
        assert_eq!(new.expect("new enough").version, "3.12.1");
        let old = read("/usr/bin/python3\n3\n9\n3.9.2\nlinux-x86_64\n").expect("an answer");
        assert_eq!(old.err().as_deref(), Some("it is 3.9.2, which is too old"));
        assert!(read("hello").is_none());
    }

    #[tokio::test]
    async fn what_is_not_there_is_said() {
        let reason = ask("/no/such/python").await.expect_err("it is not there");
        assert!(reason.contains("No such file"), "{reason}");
    }
}
