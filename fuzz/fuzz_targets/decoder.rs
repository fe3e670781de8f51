//! Any bytes in any pieces: the decoder never panics, gives no frame over its limit, and never holds
//! more than what has arrived.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paddock_wire::{Decoder, HEADER};

/// What the decoder may hold beside what has arrived.
const STEP: usize = 256 << 10;

fuzz_target!(|input: (u16, u8, &[u8])| {
    let (limit, piece, bytes) = input;
    let limit = usize::from(limit);
    let mut decoder = Decoder::new(limit);
    let mut given = 0;
    'stream: for piece in bytes.chunks(usize::from(piece) + 1) {
        decoder.buffer().extend_from_slice(piece);
        assert!(decoder.buffer().capacity() <= 2 * bytes.len() + STEP);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    assert!(frame.body.len() + HEADER - 4 <= limit);
                    given += frame.body.len() + HEADER;
                }
                Ok(None) => break,
                Err(_) => break 'stream,
            }
        }
    }
    assert!(given + decoder.pending() <= bytes.len());
});
