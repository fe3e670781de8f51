//! One call of a command, tried again by the rules of a job.

use paddock_types::retry::{Next, Tries};
use paddock_types::{CallId, Verdict};

/// Makes attempts, numbered from 1, until one decides: that one, and its verdict. What isn't the
/// call's own fault is tried again whatever `retries` says.
pub(crate) async fn until_decided(
    id: CallId,
    retries: u32,
    mut make: impl AsyncFnMut(u32) -> Verdict,
) -> (u32, Verdict) {
    let mut tries = Tries::default();
    let mut attempt = 1;
    loop {
        let verdict = make(attempt).await;
        match tries.after(&verdict, retries, jitter(id, attempt)) {
            Next::Again(wait) => tokio::time::sleep(wait).await,
            Next::Done | Next::Fail | Next::Drop => return (attempt, verdict),
        }
        attempt += 1;
    }
}

/// Spreads the waits between tries: from the call's own number, so that nothing random is needed.
fn jitter(id: CallId, attempt: u32) -> f64 {
    let mixed = (id.to_u64() ^ u64::from(attempt)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}
