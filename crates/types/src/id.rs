//! Ids as types, with a prefix in text form.
//!
//! `JobId` and `CallId` sort by the time they were made. `SampleId` and `TrajectoryId` are
//! positions in a job (phase, step, row, generation): the same job with the same seed has the
//! same ids, which is what lets a restart recognise finished work.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a {what} id (they look like \"{example}\")")]
pub struct BadId {
    text: String,
    what: &'static str,
    example: &'static str,
}

/// Crockford's base 32 in lower case: no letters that are mistaken for digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 13;

fn encode(mut n: u64) -> String {
    let mut out = [0u8; DIGITS];
    for slot in out.iter_mut().rev() {
        *slot = ALPHABET[(n & 31) as usize];
        n >>= 5;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn decode(text: &str) -> Option<u64> {
    if text.len() != DIGITS {
        return None;
    }
    text.bytes().try_fold(0u64, |n, byte| {
        let digit = ALPHABET.iter().position(|&a| a == byte)? as u64;
        n.checked_mul(32)?.checked_add(digit)
    })
}

/// Low bits that count within a millisecond of a process.
const COUNTER: u64 = (1 << 10) - 1;

/// 44 bits of milliseconds since 1970, 10 bits of the process, 10 bits that grow with each id.
fn next_stamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let millis = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64);
    // The low bits start with the process id, so that two processes of one millisecond differ.
    let fresh = (millis << 20) | (u64::from(std::process::id() & 0x3ff) << 10);
    let mut last = LAST.load(Ordering::Relaxed);
    loop {
        let next = fresh.max(after(last));
        match LAST.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return next,
            Err(seen) => last = seen,
        }
    }
}

/// The stamp after this one. A full millisecond runs over into the next, never into the range of
/// another process.
const fn after(last: u64) -> u64 {
    if last & COUNTER == COUNTER {
        last - COUNTER + (1 << 20)
    } else {
        last + 1
    }
}

macro_rules! stamped_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            /// A new id, greater than every earlier one of this process.
            #[expect(clippy::new_without_default, reason = "a default id would hide that each is new")]
            pub fn new() -> Self {
                Self(next_stamp())
            }

            /// The number behind the text, as frames carry it.
            pub const fn to_u64(self) -> u64 {
                self.0
            }

            /// The id that a frame's number stands for.
            pub const fn from_u64(n: u64) -> Self {
                Self(n)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), encode(self.0))
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(decode)
                    .map(Self)
                    .ok_or_else(|| BadId {
                        text: text.to_owned(),
                        what: $what,
                        example: concat!($prefix, "_01k2m3n4p5q6r"),
                    })
            }
        }

        text_serde!($name);
    };
}

macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .into()
            }
        }

        #[cfg(feature = "schema")]
        impl utoipa::ToSchema for $name {}
    };
}

stamped_id!(
    /// A job: `job_…`.
    JobId, "job", "job"
);
stamped_id!(
    /// One plugin call over all its attempts: `call_…`.
    CallId, "call", "call"
);

/// Whether rollouts feed the trainer or only measure it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Trained on.
    Train,
    /// A validation pass.
    Test,
}

impl Phase {
    /// `train` or `test`, as plugins see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Test => "test",
        }
    }
}

/// A dataset row drawn for a step: `smp_<job>_train_000012_0003`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleId {
    /// Its job.
    pub job: JobId,
    /// Training or validation.
    pub phase: Phase,
    /// The step it was drawn for, from 1; a validation before the first step has 0.
    pub step: u32,
    /// Its position in the step's draw, from 0.
    pub index: u32,
}

impl SampleId {
    /// The id of its rollout number `generation` (from 0).
    pub const fn trajectory(self, generation: u32) -> TrajectoryId {
        TrajectoryId {
            sample: self,
            generation,
        }
    }
}

/// One rollout of a sample: `trj_<job>_train_000012_0003_05`. Sorts in the order of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrajectoryId {
    /// Its sample.
    pub sample: SampleId,
    /// Which of the sample's rollouts, from 0.
    pub generation: u32,
}

impl fmt::Display for SampleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            job,
            phase,
            step,
            index,
        } = self;
        write!(
            f,
            "smp_{}_{}_{step:06}_{index:04}",
            encode(job.0),
            phase.as_str()
        )
    }
}

impl fmt::Display for TrajectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SampleId {
            job,
            phase,
            step,
            index,
        } = self.sample;
        let generation = self.generation;
        let (job, phase) = (encode(job.0), phase.as_str());
        write!(f, "trj_{job}_{phase}_{step:06}_{index:04}_{generation:02}")
    }
}

fn sample_from(parts: &[&str]) -> Option<SampleId> {
    let [job, phase, step, index] = parts else {
        return None;
    };
    Some(SampleId {
        job: JobId(decode(job)?),
        phase: match *phase {
            "train" => Phase::Train,
            "test" => Phase::Test,
            _ => return None,
        },
        step: step.parse().ok()?,
        index: index.parse().ok()?,
    })
}

impl FromStr for SampleId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let parts: Vec<&str> = text.split('_').collect();
        match parts.as_slice() {
            ["smp", rest @ ..] => sample_from(rest),
            _ => None,
        }
        .ok_or_else(|| BadId {
            text: text.to_owned(),
            what: "sample",
            example: "smp_01k2m3n4p5q6r_train_000012_0003",
        })
    }
}

impl FromStr for TrajectoryId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let parts: Vec<&str> = text.split('_').collect();
        match parts.as_slice() {
            ["trj", rest @ .., generation] => sample_from(rest)
                .and_then(|sample| Some(sample.trajectory(generation.parse().ok()?))),
            _ => None,
        }
        .ok_or_else(|| BadId {
            text: text.to_owned(),
            what: "trajectory",
            example: "trj_01k2m3n4p5q6r_train_000012_0003_05",
        })
    }
}

text_serde!(SampleId);
text_serde!(TrajectoryId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_and_read_back() {
        let (a, b) = (CallId::new(), CallId::new());
        assert!(a < b);
        assert!(a.to_string() < b.to_string(), "text order is time order");
        assert_eq!(a.to_string().parse::<CallId>(), Ok(a));
        assert!("call_x".parse::<CallId>().is_err());
        assert!(
            a.to_string().parse::<JobId>().is_err(),
            "the prefix tells the kinds apart"
        );
    }

    #[test]
    fn a_full_millisecond_keeps_to_its_process() {
        let process = |stamp: u64| (stamp >> 10) & 0x3ff;
        let mut stamp = (5 << 20) | (7 << 10);
        for _ in 0..5000 {
            let next = after(stamp);
            assert!(next > stamp);
            assert_eq!(process(next), 7);
            stamp = next;
        }
    }

    #[test]
    fn positions_read_back_and_sort_in_training_order() {
        let sample = SampleId {
            job: JobId::new(),
            phase: Phase::Train,
            step: 12,
            index: 3,
        };
        let (first, last) = (sample.trajectory(2), sample.trajectory(11));
        assert!(first.to_string() < last.to_string());
        assert_eq!(first.to_string().parse::<TrajectoryId>(), Ok(first));
        assert_eq!(sample.to_string().parse::<SampleId>(), Ok(sample));
        assert!(sample.to_string().parse::<TrajectoryId>().is_err());
    }
}
