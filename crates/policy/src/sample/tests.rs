use std::sync::mpsc::{Receiver, Sender, channel};

use paddock_types::id::Phase;

use super::batch::Reply;
use super::*;
use crate::model::decoder::Tape;
use crate::model::infer::Reading;
use crate::model::tests::small;
use crate::model::{Cache, Model};
use crate::policy::PolicyError;
use crate::sample::choice::choose;

/// A request of the training phase, without filters.
pub(crate) fn request(prompt: &[u32], sample: u32) -> SampleRequest {
    SampleRequest {
        prompt: prompt.to_vec(),
        stop: vec![3],
        max_new_tokens: 50,
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        key: SampleKey {
            seed: 5,
            phase: Phase::Train,
            step: 1,
            sample,
            generation: 0,
            turn: 0,
        },
    }
}

type Answer = Result<Sampled, PolicyError>;

impl Reply for Sender<Answer> {
    fn send(self, result: Answer) {
        let _ = Sender::send(&self, result);
    }

    fn is_closed(&self) -> bool {
        false
    }
}

fn add(
    batch: &mut Batch<Sender<Answer>>,
    model: &Model,
    request: &SampleRequest,
) -> Receiver<Answer> {
    let (sender, receiver) = channel();
    batch.add(model, request.clone(), sender);
    receiver
}

fn alone(model: &Model, request: &SampleRequest) -> Sampled {
    let mut batch = Batch::new(model.config());
    let answer = add(&mut batch, model, request);
    while !batch.is_empty() {
        batch.round(model);
    }
    answer.recv().expect("an answer").expect("sampled")
}

/// Samples with a fresh pass over the whole sequence for every token.
fn without_cache(model: &Model, request: &SampleRequest) -> Sampled {
    let reading = Reading::new(model).expect("a model");
    let mut random = request.key.random();
    let mut ids = request.prompt.clone();
    let mut sampled = Sampled {
        tokens: Vec::new(),
        logprobs: Vec::new(),
        finish: Finish::Length,
    };
    while sampled.tokens.len() < request.max_new_tokens as usize
        && ids.len() < model.config().max_position_embeddings
    {
        let mut cache = Cache::new(model);
        let last = [ids.len() as u32 - 1];
        let logits = reading
            .extend(&mut [(&mut cache, &ids)], &last)
            .expect("a pass");
        let choice = choose(&logits, request, &mut random);
        ids.push(choice.token);
        sampled.tokens.push(choice.token);
        sampled.logprobs.push(choice.logprob);
        if request.stop.contains(&choice.token) {
            sampled.finish = Finish::Stop;
            break;
        }
    }
    sampled
}

fn requests() -> Vec<SampleRequest> {
    let mut all: Vec<SampleRequest> = (0..12)
        .map(|i| {
            request(
                &(0..3 + i * 5)
                    .map(|t| (t * 11 + i) % 40)
                    .collect::<Vec<_>>(),
                i,
            )
        })
        .collect();
    all[1].temperature = 0.6;
    all[2].top_p = 0.8;
    all[3].top_k = 5;
    all[4].temperature = 0.0;
    all[5].stop.clear();
    all[5].max_new_tokens = 1000;
    all[6].max_new_tokens = 1;
    all
}

#[test]
fn sampling_with_a_cache_equals_sampling_without() {
    let model = small(true);
    for request in requests() {
        assert_eq!(alone(&model, &request), without_cache(&model, &request));
    }
}

#[test]
fn company_and_order_of_arrival_change_nothing() {
    let model = small(false);
    let requests = requests();
    let want: Vec<Sampled> = requests
        .iter()
        .map(|request| alone(&model, request))
        .collect();
    let mut batch = Batch::new(model.config());
    let mut answers = Vec::new();
    for (i, request) in requests.iter().enumerate().rev() {
        answers.push((i, add(&mut batch, &model, request)));
        if i % 3 == 0 {
            batch.round(&model);
        }
    }
    while !batch.is_empty() {
        batch.round(&model);
    }
    for (i, answer) in answers {
        assert_eq!(
            answer.recv().expect("an answer").expect("sampled"),
            want[i],
            "request {i}"
        );
    }
}

#[test]
fn a_later_turn_takes_up_the_cache_of_the_earlier_and_changes_nothing() {
    let model = small(true);
    let mut batch = Batch::new(model.config());
    let first = request(&[1, 2, 4, 5, 6], 0);
    let answer = add(&mut batch, &model, &first);
    while !batch.is_empty() {
        batch.round(&model);
    }
    let sampled = answer.recv().expect("an answer").expect("sampled");
    let next = [first.prompt, sampled.tokens, vec![9, 8, 7]].concat();
    let next = SampleRequest {
        key: SampleKey {
            turn: 1,
            ..first.key
        },
        ..request(&next, 0)
    };
    let answer = add(&mut batch, &model, &next);
    while !batch.is_empty() {
        batch.round(&model);
    }
    assert_eq!(
        answer.recv().expect("an answer").expect("sampled"),
        alone(&model, &next)
    );
}

#[test]
fn a_full_context_ends_with_length() {
    let model = small(true);
    let endless = SampleRequest {
        stop: vec![],
        max_new_tokens: 1000,
        ..request(&[1; 100], 0)
    };
    let sampled = alone(&model, &endless);
    assert_eq!((sampled.tokens.len(), sampled.finish), (28, Finish::Length));
    let full = SampleRequest {
        prompt: vec![1; 128],
        ..endless
    };
    let sampled = alone(&model, &full);
    assert_eq!((sampled.tokens.len(), sampled.finish), (0, Finish::Length));
}

#[test]
fn log_probs_of_a_sampled_sequence_are_those_of_a_fresh_pass() {
    let model = small(true);
    for request in requests().into_iter().filter(|r| r.temperature > 0.0) {
        let sampled = alone(&model, &request);
        let ids = [request.prompt.clone(), sampled.tokens.clone()].concat();
        let mask: Vec<bool> = (0..ids.len()).map(|t| t >= request.prompt.len()).collect();
        let packed = crate::model::Packed::new([(ids.as_slice(), mask.as_slice())]);
        let fresh = Reading::new(&model)
            .expect("a model")
            .score(&packed, request.temperature, &mut Tape::default())
            .expect("a pass");
        assert_eq!(fresh, sampled.logprobs);
    }
}

#[test]
fn requests_that_cannot_be_served_are_refused() {
    let model = small(true);
    let wrong = [
        SampleRequest {
            prompt: vec![],
            ..request(&[1], 0)
        },
        SampleRequest {
            prompt: vec![40],
            ..request(&[1], 0)
        },
        SampleRequest {
            temperature: -1.0,
            ..request(&[1], 0)
        },
        SampleRequest {
            temperature: f64::NAN,
            ..request(&[1], 0)
        },
        SampleRequest {
            top_p: 0.0,
            ..request(&[1], 0)
        },
    ];
    for request in wrong {
        let mut batch = Batch::new(model.config());
        let answer = add(&mut batch, &model, &request).recv().expect("an answer");
        assert!(
            matches!(answer, Err(PolicyError::Request(_))),
            "{request:?}: {answer:?}"
        );
        assert!(batch.is_empty());
    }
}
