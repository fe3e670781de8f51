//! One program run as a step: its output goes to the terminal as it comes, and its closing lines
//! are kept for the end.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// How a step ended.
pub(crate) struct Ended {
    /// True if the program ended with 0.
    pub(crate) ok: bool,
    /// The runner's own closing lines.
    pub(crate) closing: Vec<String>,
}

/// True if a program can be started and says it is well.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs a command in a folder and passes its output on.
pub(crate) fn run(folder: &Path, program: &str, args: &[&str]) -> Ended {
    eprintln!("\n$ {program} {}", args.join(" "));
    let closing = Arc::new(Mutex::new(Vec::new()));
    let ok = match follow(folder, program, args, &closing) {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{program} could not be run: {error}");
            false
        }
    };
    let closing = closing
        .lock()
        .map(|lines| lines.clone())
        .unwrap_or_default();
    Ended { ok, closing }
}

fn follow(
    folder: &Path,
    program: &str,
    args: &[&str],
    closing: &Arc<Mutex<Vec<String>>>,
) -> std::io::Result<ExitStatus> {
    let mut child = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let out = child
        .stdout
        .take()
        .map(|pipe| pass_on(pipe, std::io::stdout(), closing));
    let err = child
        .stderr
        .take()
        .map(|pipe| pass_on(pipe, std::io::stderr(), closing));
    for reader in [out, err].into_iter().flatten() {
        let _ = reader.join();
    }
    child.wait()
}

fn pass_on(
    pipe: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    closing: &Arc<Mutex<Vec<String>>>,
) -> thread::JoinHandle<()> {
    let closing = Arc::clone(closing);
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let _ = to.write_all(&line).and_then(|()| to.write_all(b"\n"));
            let text = String::from_utf8_lossy(&line);
            if is_closing(&text)
                && let Ok(mut closing) = closing.lock()
            {
                closing.push(text.trim().trim_matches('=').trim().to_owned());
            }
        }
    })
}

/// The lines that nextest, cargo test and pytest end with.
fn is_closing(line: &str) -> bool {
    let line = line.trim().trim_matches('=').trim();
    let pytest = line.contains(" in ")
        && line.ends_with('s')
        && line
            .split(' ')
            .next()
            .is_some_and(|n| n.parse::<u32>().is_ok())
        && [" passed", " failed", " error", " skipped"]
            .iter()
            .any(|word| line.contains(word));
    pytest || line.starts_with("test result:") || line.starts_with("Summary [")
}

#[cfg(test)]
mod tests {
    use super::is_closing;

    #[test]
    fn closing_lines_are_known() {
        for line in [
            "     Summary [   0.184s] 38 tests run: 38 passed, 0 skipped",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s",
            "===== 3 failed, 80 passed, 1 skipped in 12.30s =====",
            "83 passed in 4.20s",
        ] {
            assert!(is_closing(line), "{line}");
        }
        assert!(!is_closing("test tests::a ... ok"));
        assert!(!is_closing("waited in vain for 3 passed trains"));
    }
}
