//! The Python tests, in an environment made for them under `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report::Report;
use crate::step::{run, works};

/// Pythons to try, best first.
const NAMES: [&str; 6] = [
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python",
];
const OLD: &str = "import sys; sys.exit(sys.version_info < (3, 11))";

/// Runs what is in `python/tests`.
pub(crate) fn tests(root: &Path, report: &mut Report) {
    const NAME: &str = "python tests";
    let Some(python) = find() else {
        return report.broken(
            NAME,
            "no Python 3.11 or newer was found (set PADDOCK_PYTHON)",
        );
    };
    match environment(root, &python) {
        Ok(python) => {
            let python = python.to_string_lossy();
            let ended = run(&root.join("python"), &python, &["-m", "pytest", "-q"]);
            report.ran(NAME, &ended);
        }
        Err(why) => report.broken(NAME, &why),
    }
}

/// A Python that is new enough.
fn find() -> Option<String> {
    let chosen = std::env::var("PADDOCK_PYTHON").ok();
    let usual = NAMES.into_iter().map(str::to_owned);
    chosen
        .into_iter()
        .chain(usual)
        .find(|python| works(python, &["-c", OLD]))
}

/// The Python of an environment that has what `python/pyproject.toml` names for tests. It is made
/// anew when that file has changed.
fn environment(root: &Path, base: &str) -> Result<PathBuf, String> {
    let wanted = requirements(root, base)?;
    let folder = root.join("target").join("python-tests");
    let python = folder.join("bin").join("python");
    let stamp = folder.join("made-of.txt");
    let made_of = format!("{base}\n{}", wanted.join("\n"));
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|text| text == made_of) {
        return Ok(python);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| format!("target/python-tests: {e}"))?;
    }
    let place = folder.to_string_lossy().into_owned();
    let python_text = python.to_string_lossy().into_owned();
    if works("uv", &["--version"]) {
        expect(root, "uv", &["venv", "--quiet", "--python", base, &place])?;
        let args = ["pip", "install", "--quiet", "--python", &python_text];
        expect(root, "uv", &[&args, refs(&wanted).as_slice()].concat())?;
    } else {
        expect(root, base, &["-m", "venv", &place])?;
        let args = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ];
        expect(
            root,
            &python_text,
            &[&args, refs(&wanted).as_slice()].concat(),
        )?;
    }
    std::fs::write(&stamp, made_of).map_err(|e| format!("target/python-tests: {e}"))?;
    Ok(python)
}

/// The packages of the `base` and `test` extras.
fn requirements(root: &Path, python: &str) -> Result<Vec<String>, String> {
    const READ: &str = "import sys, tomllib
extras = tomllib.load(open(sys.argv[1], 'rb'))['project']['optional-dependencies']
print('\\n'.join(extras['base'] + extras['test']))";
    let file = root.join("python").join("pyproject.toml");
    let output = Command::new(python).args(["-c", READ]).arg(&file).output();
    let output = output.map_err(|e| format!("{python}: {e}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("{} can't be read: {error}", file.display()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(str::to_owned).collect())
}

fn refs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn expect(folder: &Path, program: &str, args: &[&str]) -> Result<(), String> {
    match run(folder, program, args).ok {
        true => Ok(()),
        false => Err(format!(
            "{program} {} failed",
            args.first().copied().unwrap_or_default()
        )),
    }
}
