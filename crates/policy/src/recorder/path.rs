//! A path of the record as one token sequence.

use std::borrow::Borrow;

use paddock_types::trajectory::Tokens;

use super::tree::Entry;
use crate::tokenizer::END;

/// The tokens of a run of entries. A turn that was cut short has no end marker of its own: where
/// something follows it, the template puts one, untrained.
pub(super) fn assemble<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Tokens {
    let mut out = Tokens::default();
    for entry in entries {
        if out.ids.last().is_some_and(|&id| id != END) {
            push(&mut out, &[END]);
        }
        let Tokens {
            ids,
            mask,
            logprobs,
        } = entry.tokens.borrow();
        out.ids.extend(ids);
        out.mask.extend(mask);
        out.logprobs.extend(logprobs);
    }
    out
}

/// Adds tokens that nobody sampled.
pub(super) fn push(tokens: &mut Tokens, ids: &[u32]) {
    tokens.ids.extend(ids);
    tokens.mask.resize(tokens.ids.len(), false);
    tokens.logprobs.resize(tokens.ids.len(), 0.0);
}
