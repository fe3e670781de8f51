//! The order of a job's work: a pure function from what was done last to what comes next.

use paddock_types::job::Hyperparameters;

/// One piece of a job's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Measure on the validation set, after so many steps.
    Validate {
        /// Steps done.
        after: u32,
    },
    /// Make a training step: rollouts, grades, update.
    Step {
        /// Its number, from 1.
        step: u32,
    },
    /// Write a checkpoint.
    Save {
        /// Steps done.
        after: u32,
    },
    /// The job is complete.
    Finish,
}

/// What comes after `done` (`None`: nothing was done yet).
///
/// A step is followed by its checkpoint, if it is due, then by its validation, if that is due.
/// The last step always has both.
pub fn next(done: Option<Work>, h: &Hyperparameters, has_validation: bool) -> Work {
    let steps = h.num_steps;
    let save_due = |step: u32| step == steps || step.is_multiple_of(h.save_every_n_steps);
    let test_due =
        |step: u32| has_validation && (step == steps || step.is_multiple_of(h.test_every_n_steps));
    let step_or_finish = |after: u32| {
        if after < steps {
            Work::Step { step: after + 1 }
        } else {
            Work::Finish
        }
    };
    match done {
        None if has_validation => Work::Validate { after: 0 },
        None => step_or_finish(0),
        Some(Work::Step { step }) if save_due(step) => Work::Save { after: step },
        Some(Work::Step { step } | Work::Save { after: step }) if test_due(step) => {
            Work::Validate { after: step }
        }
        Some(Work::Step { step: after } | Work::Save { after } | Work::Validate { after }) => {
            step_or_finish(after)
        }
        Some(Work::Finish) => Work::Finish,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(h: &Hyperparameters, has_validation: bool) -> Vec<Work> {
        let mut out = vec![];
        let mut done = None;
        while out.last() != Some(&Work::Finish) {
            let work = next(done, h, has_validation);
            out.push(work);
            done = Some(work);
        }
        out
    }

    #[test]
    fn a_short_job() {
        let h = Hyperparameters {
            num_steps: 3,
            save_every_n_steps: 2,
            test_every_n_steps: 2,
            ..Hyperparameters::default()
        };
        use Work::{Finish, Save, Step, Validate};
        assert_eq!(
            all(&h, true),
            [
                Validate { after: 0 },
                Step { step: 1 },
                Step { step: 2 },
                Save { after: 2 },
                Validate { after: 2 },
                Step { step: 3 },
                Save { after: 3 },
                Validate { after: 3 },
                Finish
            ]
        );
    }

    proptest! {
        #[test]
        fn every_step_comes_once_and_the_last_is_saved(
            num_steps in 1u32..40, save in 1u32..50, test in 1u32..50, has_validation: bool,
        ) {
            let h = Hyperparameters {
                num_steps, save_every_n_steps: save, test_every_n_steps: test,
                ..Hyperparameters::default()
            };
            let work = all(&h, has_validation);
            let steps: Vec<u32> = work.iter()
                .filter_map(|w| if let Work::Step { step } = w { Some(*step) } else { None })
                .collect();
            prop_assert_eq!(steps, (1..=num_steps).collect::<Vec<_>>());
            let (save, validate) =
                (Work::Save { after: num_steps }, Work::Validate { after: num_steps });
            prop_assert!(work.contains(&save));
            prop_assert_eq!(work.contains(&validate), has_validation);
        }
    }
}
