//! PyTorch as a process that makes one run whenever it is asked for one, so that the two sides
//! can take turns: what else the machine does hits both.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};

use super::{Options, Seconds};

/// A running peer; it ends with its input.
pub(super) struct Torch {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Torch {
    /// Starts it on a model's folder.
    pub(super) fn start(options: &Options, model: &Path) -> anyhow::Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("policy_torch.py");
        let mut child = Command::new(&options.python)
            .arg(script)
            .arg(model)
            .args(["--threads", &options.threads.to_string()])
            .args(["--sequences", &options.sequences.to_string()])
            // Settings that hold the peer's libraries back.
            .env_remove("OPENBLAS_CORETYPE")
            .env_remove("OPENBLAS_L2_SIZE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start \"{}\"", options.python.display()))?;
        let (asks, answers) = (child.stdin.take(), child.stdout.take());
        let answers = BufReader::new(answers.context("the peer has no output")?);
        Ok(Self {
            child,
            asks,
            answers,
        })
    }

    /// One run of a case.
    pub(super) fn measure(&mut self, prompt: usize, completion: usize) -> anyhow::Result<Seconds> {
        let asked = match &mut self.asks {
            Some(asks) => writeln!(asks, "{prompt}+{completion}"),
            None => Ok(()),
        };
        let mut line = String::new();
        if asked.is_err() || self.answers.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            bail!(
                "PyTorch's side ended with {status} (it needs torch and numpy; --python names another Python)"
            );
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        drop(self.asks.take());
        // It ended when its input did; how, nobody asks any more.
        let _ = self.child.wait();
    }
}
