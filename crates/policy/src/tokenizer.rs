//! The vocabulary of the byte-level models: ids 0 to 255 are bytes, the rest are markers.
//!
//! Text becomes bytes and nothing else, so that no text, whatever it says, can forge a marker.
//! The layout is part of every checkpoint: [`hash`] changes when it does, and old checkpoints are
//! then refused rather than read wrongly.

use sha2::{Digest, Sha256};

/// Size of the vocabulary; a multiple of 8, the last ids are unused.
pub const VOCAB: usize = 272;

/// Fills a row of a batch; never part of a sequence.
pub const PAD: u32 = 256;
/// Begins a conversation.
pub const BOS: u32 = 257;
/// Opens a system message.
pub const SYSTEM: u32 = 258;
/// Opens a user message.
pub const USER: u32 = 259;
/// Opens an assistant message.
pub const ASSISTANT: u32 = 260;
/// Opens a tool's result.
pub const TOOL: u32 = 261;
/// Ends a message: the model samples it to end its turn.
pub const END: u32 = 262;
/// Opens a tool call inside an assistant message.
pub const TOOL_CALL: u32 = 263;
/// Ends a tool call.
pub const TOOL_CALL_END: u32 = 264;
/// Opens the model's thinking.
pub const THINK: u32 = 265;
/// Ends the model's thinking.
pub const THINK_END: u32 = 266;
/// Opens the list of tools that the model may call.
pub const TOOLS: u32 = 267;

/// The markers with their names, in the order of their ids from 256.
pub const MARKERS: [(&str, u32); 12] = [
    ("pad", PAD),
    ("bos", BOS),
    ("system", SYSTEM),
    ("user", USER),
    ("assistant", ASSISTANT),
    ("tool", TOOL),
    ("end", END),
    ("tool_call", TOOL_CALL),
    ("tool_call_end", TOOL_CALL_END),
    ("think", THINK),
    ("think_end", THINK_END),
    ("tools", TOOLS),
];

/// The bytes of a text as ids.
pub fn encode_text(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// The bytes among `tokens` as text: markers are left out, broken UTF-8 becomes U+FFFD.
pub fn decode(tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens
        .iter()
        .filter_map(|&id| u8::try_from(id).ok())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `tokens` as text in which markers show, as `<end>`: for people to read, never to be read back.
pub fn show(tokens: &[u32]) -> String {
    let mut out = String::new();
    for part in tokens.chunk_by(|a, b| (*a < 256) == (*b < 256)) {
        if part[0] < 256 {
            out.push_str(&decode(part));
            continue;
        }
        for id in part {
            match MARKERS.iter().find(|(_, marker)| marker == id) {
                Some((name, _)) => out.push_str(&format!("<{name}>")),
                None => out.push_str(&format!("<{id}>")),
            }
        }
    }
    out
}

/// SHA-256 of the layout in hex. A checkpoint names it.
pub fn hash() -> String {
    let mut hasher = Sha256::new();
    hasher.update(format!("paddock bytes {VOCAB}\n"));
    for (name, id) in MARKERS {
        hasher.update(format!("{id} {name}\n"));
    }
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markers_follow_the_bytes_without_a_gap() {
        for (index, (_, id)) in MARKERS.iter().enumerate() {
            assert_eq!(*id as usize, 256 + index);
            assert!((*id as usize) < VOCAB);
        }
        assert_eq!(VOCAB % 8, 0);
    }

    #[test]
    fn the_layout_is_pinned() {
        assert_eq!(hash().len(), 64);
        assert_eq!(
            show(&[BOS, USER, 104, 105, END, 270]),
            "<bos><user>hi<end><270>"
        );
    }

    proptest! {
        #[test]
        fn any_text_comes_back_and_holds_no_marker(text in any::<String>()) {
            let ids = encode_text(&text);
            prop_assert!(ids.iter().all(|&id| id < 256));
            prop_assert_eq!(decode(&ids), text);
        }

        #[test]
        fn any_ids_decode(ids in prop::collection::vec(0u32..400, 0..64)) {
            let _ = decode(&ids);
            let _ = show(&ids);
        }
    }
}
