use std::collections::BTreeMap;

use paddock_types::trajectory::Tokens;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::template::{render, render_message};
use crate::tokenizer::{ASSISTANT, THINK, THINK_END, encode_text, show};

fn said(text: &str) -> Sampled {
    let mut tokens = encode_text(text);
    tokens.push(END);
    ended(tokens, Finish::Stop)
}

fn ended(tokens: Vec<u32>, finish: Finish) -> Sampled {
    let logprobs = (0..tokens.len()).map(|i| -0.5 - i as f32).collect();
    Sampled {
        tokens,
        logprobs,
        finish,
    }
}

fn user(text: &str) -> Message {
    Message::text("user", text)
}

/// One turn of the wrapped client; the history grows by the reply.
fn ask(recorder: &mut Recorder, history: &mut Vec<Message>, text: &str) {
    let turn = recorder.open(history.clone(), None, true);
    history.push(recorder.close(turn, &said(text)).message);
}

fn trained(conversation: &Conversation) -> String {
    let Tokens { ids, mask, .. } = &conversation.tokens;
    let sampled: Vec<u32> = ids
        .iter()
        .zip(mask)
        .filter(|(_, m)| **m)
        .map(|(id, _)| *id)
        .collect();
    show(&sampled)
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::content).collect()
}

#[test]
fn two_turns_and_what_stands_between() {
    let mut recorder = Recorder::new(None);
    let mut history = vec![user("a")];
    ask(&mut recorder, &mut history, "1");
    history.push(user("b"));
    ask(&mut recorder, &mut history, "2");
    let out = recorder.finish();
    assert_eq!(
        show(&out.tokens.ids),
        "<bos><user>a<end><assistant>1<end><user>b<end><assistant>2<end>"
    );
    assert_eq!(trained(&out), "1<end>2<end>");
    assert_eq!(out.tokens.ids, render(&out.messages, None));
    assert_eq!(out.finish_reason, "stop");
    assert_eq!((out.turns, out.usage.completion_tokens), (2, 4));
    assert_eq!(out.usage.total_tokens, out.usage.prompt_tokens + 4);
    assert!(out.dropped.is_empty() && out.side.is_empty());
}

#[test]
fn a_dumped_reply_is_no_edit() {
    let mut recorder = Recorder::new(None);
    let turn = recorder.open(vec![user("a")], None, true);
    let mut tokens = vec![THINK];
    tokens.extend(encode_text("hm"));
    tokens.push(THINK_END);
    tokens.extend(encode_text("1"));
    tokens.push(END);
    recorder.close(turn, &ended(tokens.clone(), Finish::Stop));
    let dumped = Message(
        json!({"content": "1", "refusal": null, "role": "assistant", "annotations": []})
            .as_object()
            .cloned()
            .unwrap_or_default(),
    );
    let turn = recorder.open(vec![user("a"), dumped, user("b")], None, true);
    assert_eq!(
        show(&turn.prompt),
        "<bos><user>a<end><assistant><think>hm<think_end>1<end><user>b<end><assistant>"
    );
    recorder.close(turn, &said("2"));
    assert_eq!(
        trained(&recorder.finish()),
        "<think>hm<think_end>1<end>2<end>"
    );
}

#[test]
fn other_reasoning_is_an_edit() {
    let mut recorder = Recorder::new(None);
    let turn = recorder.open(vec![user("a")], None, true);
    let mut reply = recorder.close(turn, &said("1")).message;
    reply.0.insert("reasoning_content".into(), "put in".into());
    let turn = recorder.open(vec![user("a"), reply, user("b")], None, true);
    recorder.close(turn, &said("2"));
    let out = recorder.finish();
    assert_eq!(trained(&out), "2<end>");
    assert_eq!(texts(&out.dropped), ["1"]);
}

#[test]
fn an_edit_cuts_back_to_the_last_shared_message() {
    let mut recorder = Recorder::new(None);
    let mut history = vec![user("a")];
    for (reply, next) in [("1", "b"), ("2", "c"), ("3", "d")] {
        ask(&mut recorder, &mut history, reply);
        history.push(user(next));
    }
    // The second exchange is replaced by a summary.
    history.splice(2..6, [user("summary")]);
    ask(&mut recorder, &mut history, "4");
    let out = recorder.finish();
    assert_eq!(texts(&out.messages), ["a", "1", "summary", "d", "4"]);
    assert_eq!(texts(&out.dropped), ["b", "2", "c", "3"]);
    assert_eq!(trained(&out), "1<end>4<end>");
    assert_eq!(out.tokens.ids, render(&out.messages, None));
}

#[test]
fn going_back_to_an_earlier_context_finds_its_tokens() {
    let mut recorder = Recorder::new(None);
    let mut history = vec![user("a")];
    ask(&mut recorder, &mut history, "1");
    let mut other = vec![user("elsewhere")];
    ask(&mut recorder, &mut other, "x");
    history.push(user("b"));
    ask(&mut recorder, &mut history, "2");
    let out = recorder.finish();
    assert_eq!(trained(&out), "1<end>2<end>");
    assert_eq!(texts(&out.dropped), ["elsewhere", "x"]);
}

#[test]
fn requests_beside_the_wrapped_client_are_side_conversations() {
    let mut recorder = Recorder::new(None);
    let mut history = vec![user("a")];
    let main = recorder.open(history.clone(), None, true);
    let judge = recorder.open(vec![user("judge this")], None, false);
    assert!(judge.side && !main.side);
    assert_eq!((main.turn, judge.turn), (0, 1));
    let verdict = recorder.close(judge, &said("good"));
    history.push(recorder.close(main, &said("1")).message);
    let again = vec![user("judge this"), verdict.message, user("sure?")];
    let judge = recorder.open(again, None, false);
    assert!(judge.side);
    recorder.close(judge, &said("yes"));
    // A client that isn't wrapped but goes on with the trajectory is part of it.
    history.push(user("b"));
    let turn = recorder.open(history, None, false);
    assert!(!turn.side);
    recorder.close(turn, &said("2"));
    let out = recorder.finish();
    assert_eq!(trained(&out), "1<end>2<end>");
    let side: Vec<_> = out.side.iter().map(|messages| texts(messages)).collect();
    assert_eq!(side, [["judge this", "good", "sure?", "yes"]]);
    assert_eq!(out.turns, 4);
}

#[test]
fn without_a_wrapped_client_the_first_to_ask_begins() {
    let mut recorder = Recorder::new(None);
    let first = recorder.open(vec![user("a")], None, false);
    let judge = recorder.open(vec![user("judge")], None, false);
    assert!(!first.side && judge.side);
    recorder.close(judge, &said("good"));
    recorder.close(first, &said("1"));
    let edited = recorder.open(vec![user("b")], None, false);
    assert!(edited.side);
    recorder.close(edited, &said("2"));
    assert_eq!(trained(&recorder.finish()), "1<end>");
}

#[test]
fn of_parallel_branches_the_last_asked_is_the_trajectory() {
    let mut recorder = Recorder::new(None);
    let turns: Vec<_> = (0..3)
        .map(|_| recorder.open(vec![user("a")], None, true))
        .collect();
    assert_eq!(turns.iter().map(|t| t.turn).collect::<Vec<_>>(), [0, 1, 2]);
    for (turn, text) in turns.into_iter().zip(["1", "2", "3"]).rev() {
        recorder.close(turn, &said(text));
    }
    let out = recorder.finish();
    assert_eq!(texts(&out.messages), ["a", "3"]);
    let side: Vec<_> = out.side.iter().map(|messages| texts(messages)).collect();
    assert_eq!(side, [["a", "1"], ["a", "2"]]);
    assert!(out.dropped.is_empty());
}

#[test]
fn the_branch_that_is_continued_is_the_trajectory() {
    let mut recorder = Recorder::new(None);
    let first = recorder.open(vec![user("a")], None, true);
    let second = recorder.open(vec![user("a")], None, true);
    let reply = recorder.close(first, &said("1"));
    recorder.close(second, &said("2"));
    let turn = recorder.open(vec![user("a"), reply.message, user("b")], None, true);
    recorder.close(turn, &said("3"));
    let out = recorder.finish();
    assert_eq!(trained(&out), "1<end>3<end>");
    assert_eq!(
        out.side.iter().map(|m| texts(m)).collect::<Vec<_>>(),
        [["a", "2"]]
    );
    assert!(out.dropped.is_empty());
}

#[test]
fn a_turn_that_is_never_closed_records_nothing() {
    let mut recorder = Recorder::new(None);
    let mut history = vec![user("a")];
    ask(&mut recorder, &mut history, "1");
    let lost = recorder.open(vec![user("edited")], None, true);
    assert_eq!(lost.turn, 1);
    drop(lost);
    let turn = recorder.open(
        vec![history[0].clone(), history[1].clone(), user("b")],
        None,
        true,
    );
    assert_eq!(turn.turn, 1);
    drop(turn);
    let out = recorder.finish();
    assert_eq!(texts(&out.messages), ["a", "1"]);
    assert!(out.dropped.is_empty() && out.side.is_empty());
    assert_eq!(out.turns, 1);
    assert_eq!(Recorder::new(None).finish(), Conversation::default());
}

#[test]
fn a_cut_turn_is_ended_by_the_template() {
    let mut recorder = Recorder::new(None);
    let turn = recorder.open(vec![user("a")], None, true);
    let reply = recorder.close(turn, &ended(encode_text("12"), Finish::Length));
    assert_eq!(reply.finish_reason, FinishReason::Length);
    let turn = recorder.open(vec![user("a"), reply.message, user("b")], None, true);
    assert_eq!(
        show(&turn.prompt),
        "<bos><user>a<end><assistant>12<end><user>b<end><assistant>"
    );
    recorder.close(turn, &ended(encode_text("3"), Finish::Length));
    let out = recorder.finish();
    assert_eq!(trained(&out), "123");
    assert_eq!(out.finish_reason, "length");
    assert!(*out.tokens.mask.last().expect("tokens"));
}

#[test]
fn a_stop_of_the_requests_own_is_trained_on_but_not_said() {
    let mut recorder = Recorder::new(None);
    let turn = recorder.open(vec![user("a")], None, true);
    let reply = recorder.close(turn, &ended(encode_text("12\n"), Finish::Stop));
    assert_eq!(reply.message.content(), "12");
    assert_eq!(trained(&recorder.finish()), "12\n");
}

#[test]
fn tools_are_rendered_where_they_change() {
    let tools = json!([{"function": {"name": "f"}}]);
    let mut recorder = Recorder::new(Some(tools));
    let mut history = vec![user("a")];
    ask(&mut recorder, &mut history, "1");
    history.push(user("b"));
    let turn = recorder.open(history.clone(), Some(json!([])), true);
    assert_eq!(
        show(&turn.prompt),
        "<bos><tools>f()<end><user>a<end><assistant>1<end><tools><end><user>b<end><assistant>"
    );
    history.push(recorder.close(turn, &said("2")).message);
    let turn = recorder.open(history, None, true);
    assert!(show(&turn.prompt).ends_with("2<end><tools>f()<end><assistant>"));
    recorder.close(turn, &said("3"));
    assert_eq!(trained(&recorder.finish()), "1<end>2<end>3<end>");
}

#[test]
fn thinking_opens_the_turn() {
    let mut recorder = Recorder::new(None);
    recorder.set_thinking(Thinking::Enabled);
    let turn = recorder.open(vec![user("a")], None, true);
    assert_eq!(turn.prompt.last(), Some(&THINK));
    let mut tokens = encode_text("hm");
    tokens.push(THINK_END);
    tokens.extend([u32::from(b'1'), END]);
    let reply = recorder.close(turn, &ended(tokens, Finish::Stop));
    assert_eq!(reply.message.0["reasoning_content"], "hm");
    let out = recorder.finish();
    // What opened the thinking is the template's, not sampled.
    assert_eq!(trained(&out), "hm<think_end>1<end>");
    assert_eq!(out.tokens.ids, render(&out.messages, None));
}

#[test]
fn tool_calls_are_numbered_by_turn() {
    let mut recorder = Recorder::new(None);
    let call = Message(
        json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]})
            .as_object()
            .cloned()
            .unwrap_or_default(),
    );
    let turn = recorder.open(vec![user("a")], None, true);
    let sampled = ended(render_message(&call)[1..].to_vec(), Finish::Stop);
    let reply = recorder.close(turn, &sampled);
    assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
    assert_eq!(reply.message.0["tool_calls"][0]["id"], "call_0_1");
    let mut result = Message::text("tool", "ok");
    result.0.insert("tool_call_id".into(), "call_0_1".into());
    let turn = recorder.open(vec![user("a"), reply.message, result], None, true);
    assert!(show(&turn.prompt).ends_with("<tool>ok<end><assistant>"));
}

/// What a plugin may do to its history between two requests.
#[derive(Debug, Clone)]
enum Step {
    Append(u8),
    Cut(usize),
    Remove(usize),
    Rewrite(usize),
    Restore(usize),
    Ask {
        main: bool,
        reply: Spoken,
    },
    Lose {
        main: bool,
    },
    AskTwice {
        first: Spoken,
        second: Spoken,
        reversed: bool,
    },
}

#[derive(Debug, Clone)]
struct Spoken {
    tokens: Vec<u32>,
    finish: u8,
}

fn reply() -> impl Strategy<Value = Spoken> {
    let token = prop_oneof![8 => 0u32..256, 2 => 256u32..272].prop_filter("ends", |id| *id != END);
    (prop::collection::vec(token, 0..6), 0u8..4)
        .prop_map(|(tokens, finish)| Spoken { tokens, finish })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u8..4).prop_map(Step::Append),
        1 => (0usize..8).prop_map(Step::Cut),
        1 => (0usize..8).prop_map(Step::Remove),
        1 => (0usize..8).prop_map(Step::Rewrite),
        1 => (0usize..8).prop_map(Step::Restore),
        5 => (prop::bool::weighted(0.8), reply()).prop_map(|(main, reply)| Step::Ask { main, reply }),
        1 => any::<bool>().prop_map(|main| Step::Lose { main }),
        1 => (reply(), reply(), any::<bool>())
            .prop_map(|(first, second, reversed)| Step::AskTwice { first, second, reversed }),
    ]
}

/// The oracle: which contexts were answered by which tokens, told by path alone.
#[derive(Default)]
struct Told {
    sampled: BTreeMap<String, Sampled>,
    last: Option<(Vec<u32>, Sampled, Vec<Message>)>,
    asked: u32,
}

fn key(messages: &[Message]) -> String {
    let normal: Vec<Value> = messages.iter().map(Message::normal).collect();
    Value::Array(normal).to_string()
}

impl Told {
    /// A sampled reply that no other equals: its number goes first.
    fn sample(&mut self, reply: &Spoken) -> Sampled {
        self.asked += 1;
        let mut tokens = encode_text(&format!("{}:", self.asked));
        tokens.extend(&reply.tokens);
        if reply.finish > 0 {
            tokens.push(END);
        }
        let finish = if reply.finish > 0 {
            Finish::Stop
        } else {
            Finish::Length
        };
        ended(tokens, finish)
    }

    fn close(
        &mut self,
        recorder: &mut Recorder,
        turn: OpenTurn,
        history: &[Message],
        s: Sampled,
    ) -> Message {
        let (prompt, side) = (turn.prompt.clone(), turn.side);
        let message = recorder.close(turn, &s).message;
        let whole = [history, std::slice::from_ref(&message)].concat();
        self.sampled.insert(key(&whole), s.clone());
        if !side {
            self.last = Some((prompt, s, whole));
        }
        message
    }

    /// The tokens that these messages must have.
    fn expected(&self, messages: &[Message]) -> Tokens {
        let mut out = Tokens::default();
        path::push(&mut out, &template::preamble(None));
        for (index, message) in messages.iter().enumerate() {
            let Some(sampled) = self.sampled.get(&key(&messages[..=index])) else {
                path::push(&mut out, &render_message(message));
                continue;
            };
            path::push(&mut out, &[ASSISTANT]);
            out.ids.extend(&sampled.tokens);
            out.mask.resize(out.ids.len(), true);
            out.logprobs.extend(&sampled.logprobs);
            if index + 1 < messages.len() && sampled.tokens.last() != Some(&END) {
                path::push(&mut out, &[END]);
            }
        }
        out
    }
}

proptest! {
    #[test]
    fn whatever_a_plugin_does_the_record_is_exact(steps in prop::collection::vec(step(), 1..40)) {
        let mut recorder = Recorder::new(None);
        let mut told = Told::default();
        let mut history: Vec<Message> = vec![user("start")];
        let mut seen: Vec<Vec<Message>> = Vec::new();
        let mut fresh = 0;
        for step in steps {
            match step {
                Step::Append(kind) => {
                    let role = ["user", "tool", "system", "assistant"][usize::from(kind)];
                    // Few distinct texts, so that contexts meet again.
                    history.push(Message::text(role, ["x", "y"][usize::from(kind) % 2]));
                }
                Step::Cut(at) => history.truncate(at.max(1)),
                Step::Remove(at) if at < history.len() && history.len() > 1 => {
                    history.remove(at);
                }
                Step::Rewrite(at) if at < history.len() => {
                    fresh += 1;
                    let role = history[at].role().to_owned();
                    history[at] = Message::text(&role, &format!("rewritten {fresh}"));
                }
                Step::Restore(at) if at < seen.len() => history = seen[at].clone(),
                Step::Remove(_) | Step::Rewrite(_) | Step::Restore(_) => {}
                Step::Ask { main, reply } => {
                    let turn = recorder.open(history.clone(), None, main);
                    prop_assert_eq!(&turn.prompt[..turn.prompt.len() - 1], {
                        let mut ids = told.expected(&history).ids;
                        if ids.last() != Some(&END) && ids.len() > 1 {
                            ids.push(END);
                        }
                        &ids.clone()
                    });
                    let sampled = told.sample(&reply);
                    let message = told.close(&mut recorder, turn, &history, sampled);
                    history.push(message);
                    seen.push(history.clone());
                }
                Step::Lose { main } => drop(recorder.open(history.clone(), None, main)),
                Step::AskTwice { first, second, reversed } => {
                    let one = recorder.open(history.clone(), None, true);
                    let two = recorder.open(history.clone(), None, true);
                    prop_assert_ne!(one.turn, two.turn);
                    let (a, b) = (told.sample(&first), told.sample(&second));
                    let before = history.clone();
                    if reversed {
                        // The second was asked last: it is the trajectory, whichever ends first.
                        let message = told.close(&mut recorder, two, &before, b);
                        let last = told.last.clone();
                        told.close(&mut recorder, one, &before, a);
                        told.last = last;
                        history.push(message);
                    } else {
                        let message = told.close(&mut recorder, one, &before, a);
                        told.close(&mut recorder, two, &before, b);
                        history.push(message);
                    }
                    seen.push(history.clone());
                }
            }
        }
        let out = recorder.finish();
        let Tokens { ids, mask, logprobs } = &out.tokens;
        prop_assert_eq!(ids.len(), mask.len());
        prop_assert_eq!(ids.len(), logprobs.len());
        prop_assert_eq!(out.turns, told.asked);
        match told.last {
            None => prop_assert!(ids.is_empty() && out.messages.is_empty()),
            Some((ref prompt, ref sampled, ref messages)) => {
                // What is trained on is the last prompt as the model was given it, and its answer.
                prop_assert_eq!(ids, &[&prompt[..], &sampled.tokens].concat());
                prop_assert_eq!(key(&out.messages), key(messages));
                prop_assert_eq!(&out.tokens, &told.expected(&out.messages));
            }
        }
    }
}
