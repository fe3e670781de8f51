//! Any body of an ANSWER is an answer or an error, and none of its numbers passes for a finite one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paddock_wire::Answer;

fuzz_target!(|body: &[u8]| {
    let Ok(answer) = Answer::parse(body) else {
        return;
    };
    for number in &answer.rewards {
        assert!(number.finite().is_none_or(f64::is_finite));
        assert!(!number.to_string().is_empty());
    }
});
