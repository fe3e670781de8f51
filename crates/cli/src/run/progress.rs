//! What is shown while a job runs: a bar in a terminal, now and then a line elsewhere.
//!
//! It listens and draws; nothing waits for it, and nothing is decided here.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use paddock_engine::JobEvent;
use paddock_types::step::{StepRecord, ValidationRecord};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::output::{harmless, number};
use crate::time::short_span;

/// Between two lines of the same sort, where there is no bar.
const PACE: Duration = Duration::from_secs(3);

/// Shows events until no more can come.
pub(super) async fn watch(mut events: UnboundedReceiver<JobEvent>, json: bool) {
    let mut shown: Box<dyn Shown + Send> = match std::io::stderr().is_terminal() && !json {
        true => Box::new(Bar::new()),
        false => Box::new(Lines::default()),
    };
    while let Some(event) = events.recv().await {
        shown.event(event);
    }
    shown.end();
}

trait Shown {
    fn event(&mut self, event: JobEvent);
    fn end(&mut self);
}

/// A step in words.
fn step_text(record: &StepRecord, of: u32) -> String {
    let (reward, loss) = (record.reward.mean, record.update.loss);
    let seconds = record.rollout_seconds + record.update_seconds;
    let dropped: u64 = record.dropped.values().sum();
    let dropped = if dropped > 0 {
        format!(", {dropped} samples dropped")
    } else {
        String::new()
    };
    format!(
        "step {}/{of}: reward {reward:.3}, loss {loss:.4}, {seconds:.1} s{dropped}",
        record.step
    )
}

fn validation_text(record: &ValidationRecord) -> String {
    let when = match record.step {
        0 => "before the first step".to_owned(),
        step => format!("after step {step}"),
    };
    let left: u64 = record.left_out.values().sum();
    let left = if left > 0 {
        format!(", {left} left out")
    } else {
        String::new()
    };
    let reward = number(record.reward.map(|reward| reward.mean));
    format!(
        "validation {when}: reward {reward} over {} trajectories{left}",
        record.trajectories
    )
}

/// The bar of a terminal: first what is being prepared, then the steps.
struct Bar {
    bar: ProgressBar,
    begun: Option<(Instant, u32)>,
    reward: String,
    flight: String,
    left: String,
}

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(style("{spinner} {wide_msg}"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self {
            bar,
            begun: None,
            reward: String::new(),
            flight: String::new(),
            left: String::new(),
        }
    }

    fn draw(&self) {
        let parts = [&self.reward, &self.flight, &self.left];
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|p| !p.is_empty())
            .map(String::as_str)
            .collect();
        self.bar.set_message(parts.join("  "));
    }

    fn step(&mut self, record: &StepRecord, of: u32) {
        let done = record.step;
        if self.bar.length() != Some(of.into()) {
            self.bar.set_length(of.into());
            self.bar
                .set_style(style("{spinner} step {pos}/{len} {bar:14} {wide_msg}"));
        }
        self.bar.set_position(done.into());
        let (begun, first) = *self.begun.get_or_insert((Instant::now(), done));
        if done > first {
            let each = begun.elapsed().as_secs_f64() / f64::from(done - first);
            self.left = format!(
                "{} left",
                short_span(each * f64::from(of.saturating_sub(done)))
            );
        }
        self.reward = format!(
            "reward {:.3}  loss {:.4}",
            record.reward.mean, record.update.loss
        );
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━━╌")
}

impl Shown for Bar {
    fn event(&mut self, event: JobEvent) {
        match event {
            JobEvent::Phase { name, detail } => {
                return self
                    .bar
                    .set_message(format!("{name}: {}", harmless(&detail)));
            }
            JobEvent::Step { record, of } => self.step(&record, of),
            JobEvent::Flight {
                rollouts,
                grades,
                done,
                of,
            } => {
                self.flight = format!("{} in flight, {done}/{of}", rollouts + grades);
            }
            JobEvent::Validation(record) => self.bar.println(validation_text(&record)),
            JobEvent::Warning(text) => self.bar.println(format!("warning: {}", harmless(&text))),
            JobEvent::Checkpoint(_) => return,
        }
        self.draw();
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Lines on standard error, where there is no terminal: never more than one a few seconds, apart
/// from what is rare and worth a look.
#[derive(Default)]
struct Lines {
    last: Option<Instant>,
    held: Option<String>,
}

impl Lines {
    fn now_and_then(&mut self, text: String) {
        if self.last.is_some_and(|last| last.elapsed() < PACE) {
            self.held = Some(text);
            return;
        }
        self.last = Some(Instant::now());
        self.held = None;
        eprintln!("{text}");
    }
}

impl Shown for Lines {
    fn event(&mut self, event: JobEvent) {
        match event {
            JobEvent::Phase { name, detail } => {
                self.now_and_then(format!("{name}: {}", harmless(&detail)));
            }
            JobEvent::Step { record, of } => self.now_and_then(step_text(&record, of)),
            JobEvent::Validation(record) => {
                self.end();
                eprintln!("{}", validation_text(&record));
            }
            JobEvent::Warning(text) => {
                self.end();
                eprintln!("warning: {}", harmless(&text));
            }
            JobEvent::Flight { .. } | JobEvent::Checkpoint(_) => {}
        }
    }

    fn end(&mut self) {
        if let Some(text) = self.held.take() {
            eprintln!("{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use paddock_types::step::Spread;

    use super::*;

    #[test]
    fn steps_and_validations_in_words() {
        let mut record = StepRecord {
            step: 3,
            ..StepRecord::default()
        };
        record.reward.mean = 0.5;
        record.dropped.insert("discard".into(), 2);
        assert_eq!(
            step_text(&record, 10),
            "step 3/10: reward 0.500, loss 0.0000, 0.0 s, 2 samples dropped"
        );
        let record = ValidationRecord {
            reward: Some(Spread::default()),
            trajectories: 5,
            ..ValidationRecord::default()
        };
        assert_eq!(
            validation_text(&record),
            "validation before the first step: reward 0.000 over 5 trajectories"
        );
        let nothing = validation_text(&ValidationRecord::default());
        assert_eq!(
            nothing,
            "validation before the first step: reward - over 0 trajectories"
        );
    }
}
