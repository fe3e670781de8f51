//! The wire format, pinned; and any bytes, survived.

use bytes::Bytes;
use paddock_wire::{
    Answer, DEFAULT_LIMIT, Decoder, Frame, FrameReader, HEADER, Kind, Number, Outbox, Raised,
    StackFrame, header,
};
use proptest::prelude::*;

fn kinds() -> impl Strategy<Value = Kind> {
    proptest::sample::select(vec![
        Kind::Call,
        Kind::Answer,
        Kind::Hello,
        Kind::Cancel,
        Kind::Drain,
        Kind::Dump,
        Kind::Stacks,
        Kind::Log,
    ])
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let frame = (
        kinds(),
        any::<u64>(),
        any::<u32>(),
        proptest::collection::vec(any::<u8>(), 0..300),
    )
        .prop_map(|(kind, call, attempt, body)| Frame {
            kind,
            call,
            attempt,
            body: Bytes::from(body),
        });
    proptest::collection::vec(frame, 0..20)
}

/// Writes frames through an outbox whose socket takes `takes` bytes at a time.
fn written(frames: &[Frame], takes: usize) -> Vec<u8> {
    let mut outbox = Outbox::new(DEFAULT_LIMIT);
    for frame in frames {
        outbox
            .push(frame.kind, frame.call, frame.attempt, frame.body.clone())
            .expect("short");
    }
    let mut out = Vec::new();
    let mut blocked = false;
    while !outbox.is_empty() {
        outbox
            .flush(|slices| {
                blocked = !blocked;
                if blocked {
                    return Err(std::io::ErrorKind::WouldBlock.into());
                }
                let bytes: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
                let count = bytes.len().min(takes);
                out.extend_from_slice(&bytes[..count]);
                Ok(count)
            })
            .expect("the socket takes it");
    }
    out
}

proptest! {
    #[test]
    fn what_is_written_is_read(frames in frames(), takes in 1usize..500, gives in 1usize..500) {
        let bytes = written(&frames, takes);
        let mut decoder = Decoder::new(DEFAULT_LIMIT);
        let mut read = Vec::new();
        for piece in bytes.chunks(gives) {
            decoder.buffer().extend_from_slice(piece);
            while let Some(frame) = decoder.next_frame().expect("whole frames") {
                read.push(frame);
            }
        }
        prop_assert_eq!(read, frames);
        prop_assert_eq!(decoder.pending(), 0);
    }

    #[test]
    fn any_bytes_neither_panic_nor_take_memory(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20),
    ) {
        let mut decoder = Decoder::new(DEFAULT_LIMIT);
        let mut arrived = 0;
        'stream: for piece in pieces {
            arrived += piece.len();
            decoder.buffer().extend_from_slice(&piece);
            prop_assert!(decoder.buffer().capacity() <= 2 * arrived + (256 << 10));
            loop {
                match decoder.next_frame() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'stream,
                }
            }
        }
    }

    /// Frames of which some bytes are changed, under a small limit: most of it is nearly right.
    #[test]
    fn damaged_frames_are_refused_or_read_within_the_limit(
        frames in frames(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        gives in 1usize..500,
        limit in 13usize..400,
    ) {
        let mut bytes = written(&frames, 300);
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let mut decoder = Decoder::new(limit);
        let mut read = 0;
        'stream: for piece in bytes.chunks(gives) {
            decoder.buffer().extend_from_slice(piece);
            prop_assert!(decoder.buffer().capacity() <= 2 * bytes.len() + (256 << 10));
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => {
                        prop_assert!(frame.body.len() + 13 <= limit);
                        read += HEADER + frame.body.len();
                    }
                    Ok(None) => break,
                    Err(_) => break 'stream,
                }
            }
        }
        prop_assert!(read + decoder.pending() <= bytes.len());
    }

    /// The same from a stream that is cut wherever its reader likes.
    #[test]
    fn a_stream_of_any_bytes_ends(bytes in proptest::collection::vec(any::<u8>(), 0..2000), limit in 13usize..3000) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let frames = runtime.block_on(async {
            let mut reader = FrameReader::new(&bytes[..], limit);
            let mut frames = 0;
            while let Ok(Some(_)) = reader.next().await {
                frames += 1;
            }
            frames
        });
        prop_assert!(frames * HEADER <= bytes.len());
    }

    /// JSON that an answer may nearly be.
    #[test]
    fn damaged_answers_are_answers_or_errors(
        rewards in proptest::collection::vec(any::<f64>(), 0..4),
        text in ".*",
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let answer = Answer {
            error: text.clone(),
            rewards: rewards.into_iter().map(Number::Float).collect(),
            bad_result: Some(text),
            residue: vec!["2 threads still run".into()],
            ..Answer::default()
        };
        let mut bytes = serde_json::to_vec(&answer).expect("JSON");
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = Answer::parse(&bytes);
    }

    #[test]
    fn any_answer_body_is_an_answer_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Answer::parse(&body);
    }

    #[test]
    fn answers_roundtrip(rewards in proptest::collection::vec(any::<f64>(), 0..5), error in ".*") {
        let answer = Answer {
            error,
            rewards: rewards.into_iter().map(Number::Float).collect(),
            ..Answer::default()
        };
        let bytes = serde_json::to_vec(&answer).expect("JSON");
        let back = Answer::parse(&bytes).expect("an answer");
        // `nan` is not equal to itself; its text is.
        prop_assert_eq!(format!("{back:?}"), format!("{answer:?}"));
    }
}

#[test]
fn the_bytes_of_a_frame() {
    let head = header(Kind::Call, 0x0102_0304_0506_0708, 3, 2, DEFAULT_LIMIT).expect("short");
    let bytes: Vec<String> = head
        .iter()
        .chain(b"{}")
        .map(|b| format!("{b:02x}"))
        .collect();
    insta::assert_snapshot!(bytes.join(" "), @"0f 00 00 00 01 08 07 06 05 04 03 02 01 03 00 00 00 7b 7d");
}

#[test]
fn the_json_of_an_answer() {
    let answer = Answer {
        rewards: vec![Number::Float(1.0), Number::Float(f64::NAN)],
        raised: Some(Raised {
            kind: "KeyError".into(),
            message: "'answer'".into(),
            traceback: "Traceback …".into(),
            frames: vec![StackFrame {
                file: "plugins/reward.py".into(),
                line: 12,
                function: "reward".into(),
                code: "x['answer']".into(),
            }],
        }),
        residue: vec!["2 threads still run".into()],
        ..Answer::default()
    };
    insta::assert_snapshot!(
        serde_json::to_string(&answer).expect("JSON"),
        @r#"{"status":"success","rewards":[1.0,{"$float":"nan"}],"raised":{"type":"KeyError","message":"'answer'","traceback":"Traceback …","frames":[{"file":"plugins/reward.py","line":12,"function":"reward","code":"x['answer']"}]},"residue":["2 threads still run"]}"#
    );
}
