//! The checkpoints of a job on disk, and which of them are kept.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of the checkpoint after `step`.
pub fn folder(job_dir: &Path, step: u32) -> PathBuf {
    job_dir.join("checkpoints").join(format!("step-{step:06}"))
}

/// The folder of a job's newest checkpoint, if it has one.
pub fn newest(job_dir: &Path) -> Option<PathBuf> {
    let last = steps(job_dir).ok()?.into_iter().max()?;
    Some(folder(job_dir, last))
}

/// The steps whose checkpoints are kept: the last `limit`, and the best by validation.
pub fn kept(steps: &[u32], validations: &BTreeMap<u32, f64>, limit: u32) -> Vec<u32> {
    let mut sorted = steps.to_vec();
    sorted.sort_unstable();
    let last = sorted.iter().rev().take(limit.max(1) as usize).copied();
    let measured = sorted
        .iter()
        .filter_map(|step| Some((*step, *validations.get(step)?)));
    // The later one wins between equals: it has seen more.
    let best = measured.max_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    let mut kept: Vec<u32> = last.chain(best.map(|(step, _)| step)).collect();
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// Removes the checkpoints that are not kept.
pub fn prune(job_dir: &Path, validations: &BTreeMap<u32, f64>, limit: u32) -> io::Result<()> {
    let steps = steps(job_dir)?;
    let kept = kept(&steps, validations, limit);
    for step in steps.into_iter().filter(|step| !kept.contains(step)) {
        fs::remove_dir_all(folder(job_dir, step))?;
    }
    Ok(())
}

/// The steps that have a checkpoint.
fn steps(job_dir: &Path) -> io::Result<Vec<u32>> {
    let mut steps = vec![];
    for entry in fs::read_dir(job_dir.join("checkpoints"))? {
        let name = entry?.file_name();
        steps.extend(
            name.to_str()
                .and_then(|n| n.strip_prefix("step-")?.parse::<u32>().ok()),
        );
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_and_the_best_are_kept() {
        let validations = BTreeMap::from([(10, 0.7), (20, 0.9), (30, 0.9), (40, 0.2)]);
        assert_eq!(kept(&[10, 20, 30, 40, 50], &validations, 1), [30, 50]);
        assert_eq!(kept(&[10, 20], &validations, 3), [10, 20]);
        assert_eq!(kept(&[10, 20], &BTreeMap::new(), 1), [20]);
    }

    #[test]
    fn others_are_removed() -> io::Result<()> {
        let job = tempfile::tempdir()?;
        for step in [10, 20, 30] {
            fs::create_dir_all(folder(job.path(), step))?;
        }
        prune(job.path(), &BTreeMap::from([(10, 1.0)]), 1)?;
        assert!(folder(job.path(), 10).exists());
        assert!(!folder(job.path(), 20).exists());
        assert!(folder(job.path(), 30).exists());
        assert_eq!(newest(job.path()), Some(folder(job.path(), 30)));
        assert_eq!(newest(&job.path().join("none")), None);
        Ok(())
    }
}
