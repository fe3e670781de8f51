//! The report of `paddock grade`, as people read it.

use super::report::{Agreement, Disagreement, MAX_DISAGREEMENTS, Report, Sum, UNNAMED};
use crate::failure::Failure;
use crate::output::{Out, counted, facts, number, table, text};
use crate::{fault, time};

/// Disagreements that a terminal shows.
const SHOWN: usize = 20;

impl Report {
    /// Prints it for people.
    pub(super) fn print(&self, out: &mut Out) -> Result<(), Failure> {
        let mut rows = facts();
        let mut fact = |name: &str, value: String| {
            rows.add_row([name.to_owned(), value]);
        };
        fact("samples", self.samples.to_string());
        fact("trajectories", self.trajectories.to_string());
        fact("graded", self.graded.to_string());
        fact("without reward", counted(&self.ungraded));
        fact("reward", spread(&self.reward));
        if self.graders.len() > 1 {
            for (grader, sum) in &self.graders {
                fact(&format!("  {grader}"), spread(sum));
            }
        }
        fact(
            "calls",
            format!("{}, failed: {}", self.calls, counted(&self.failed_calls)),
        );
        if self.trajectories > self.samples {
            fact(
                "BON, AON, AvgN",
                format!(
                    "{}, {}, {}",
                    share(self.bon),
                    share(self.aon),
                    share(self.avg_n)
                ),
            );
        }
        if let Some(agreement) = &self.agreement {
            let Agreement {
                field,
                marked,
                agree,
                share,
                ..
            } = agreement;
            fact(
                "agreement",
                format!("{agree} of {marked} marks in {field} ({})", percent(*share)),
            );
        }
        fact("took", time::span(self.seconds));
        out.line(text(&mut rows))?;
        self.print_groups(out)?;
        self.print_disagreements(out)
    }

    fn print_groups(&self, out: &mut Out) -> Result<(), Failure> {
        if self.groups.keys().all(|name| name == UNNAMED) {
            return Ok(());
        }
        let mut rows = table(&[
            &self.by,
            "#trajectories",
            "#graded",
            "#mean reward",
            "#accuracy",
            "#marked",
        ]);
        for (name, group) in &self.groups {
            rows.add_row([
                name.clone(),
                group.trajectories.to_string(),
                group.graded.to_string(),
                number(group.mean_reward),
                share(group.accuracy),
                share(group.marked_accuracy),
            ]);
        }
        out.line("")?;
        out.line(text(&mut rows))
    }

    fn print_disagreements(&self, out: &mut Out) -> Result<(), Failure> {
        let Some(agreement) = &self.agreement else {
            return Ok(());
        };
        if agreement.disagreements.is_empty() {
            return Ok(());
        }
        out.line("")?;
        out.line(format!("disagreements with {}:", agreement.field))?;
        for one in agreement.disagreements.iter().take(SHOWN) {
            let Disagreement {
                line,
                trajectory,
                group,
                reward,
                mark,
            } = one;
            let group = group.as_deref().unwrap_or("-");
            out.line(format!(
                "  line {line}, trajectory {trajectory} ({group}): reward {reward}, marked {mark}"
            ))?;
        }
        let total = agreement.marked - agreement.agree;
        if total > SHOWN as u64 {
            out.line(format!(
                "  … and {} more: --json has the first {MAX_DISAGREEMENTS}",
                total - SHOWN as u64
            ))?;
        }
        Ok(())
    }

    /// The fault of the first call that was given up, if any was.
    pub(super) fn print_fault(&self, recorded: &str) {
        let Some((plugin, line, verdict)) = &self.first_given_up else {
            return;
        };
        if let Some(fault) = super::given_up(plugin, recorded, *line, verdict) {
            eprint!(
                "\nthe first call that was given up:\n{}",
                fault::report(&fault)
            );
        }
    }
}

fn spread(sum: &Sum) -> String {
    match sum.count {
        0 => "-".into(),
        _ => format!(
            "mean {}, from {} to {}",
            number(sum.mean),
            number(sum.min),
            number(sum.max)
        ),
    }
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), percent)
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}
