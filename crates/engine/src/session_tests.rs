use std::sync::Arc;

use paddock_api::model::{ChatRequest, ModelBackend, ModelError};
use paddock_policy::model::{Model, ModelCard, ModelConfig};
use paddock_policy::tokenizer::VOCAB;
use paddock_policy::train::Trainer;
use paddock_types::JobId;
use paddock_types::id::SampleId;
use paddock_types::job_file;
use serde_json::json;

use super::*;

const JOB: &str = "
name: a
model_reference: {foundation_model: {name: paddock-base, model_version: '1'}}
hyperparameters: {max_new_tokens: 6}
custom_rl_pipeline:
  graders: [{plugin: {name: g, python_func: 'plugins.g:g'}}]
data:
  training_set: {local_files: [a.jsonl]}
";

/// An untrained model of two narrow layers: it says anything, and quickly.
fn policy() -> Policy {
    let config = ModelConfig {
        hidden_size: 16,
        intermediate_size: 32,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        num_key_value_heads: Some(1),
        head_dim: Some(8),
        ..ModelConfig::base(VOCAB)
    };
    let model = Model::initial(config, 1).expect("the shape is allowed");
    let card = ModelCard {
        name: "tiny".into(),
        version: "1".into(),
        lr: 1e-4,
        context: 2048,
        hash: String::new(),
        about: String::new(),
    };
    Policy::start(Trainer::new(model, card).expect("weights can be hashed")).expect("a thread")
}

fn settings(job: JobId, generation: u32, charged: u32) -> SessionSettings {
    let config = job_file::parse(JOB, "job.yaml")
        .expect("the job is right")
        .config;
    let row = json!({"messages": [{"role": "user", "content": "1+1="}]});
    let row = Row::new(
        "a.jsonl:1".into(),
        row.as_object().cloned().unwrap_or_default(),
    );
    let sample = SampleId {
        job,
        phase: Phase::Train,
        step: 1,
        index: 0,
    };
    SessionSettings::new(
        &config,
        sample,
        generation,
        charged,
        &row,
        CallClock::default(),
    )
}

fn request(main: bool) -> ChatRequest {
    ChatRequest {
        messages: vec![Message::text("user", "1+1=")],
        tools: None,
        sampling: Sampling::default(),
        main,
        n: 1,
        stop: vec![],
        logprobs: true,
    }
}

async fn ask(sessions: &Sessions, token: &str) -> String {
    let completion = sessions
        .complete(token, request(true))
        .await
        .expect("an answer");
    completion.receipt.expect("a receipt").given();
    completion.choices[0].message.content()
}

#[tokio::test]
async fn what_was_sampled_is_what_is_recorded() {
    let (policy, sessions) = (policy(), Sessions::default());
    let session = sessions.open(policy, settings(JobId::new(), 0, 0));
    let completion = sessions
        .complete(session.token(), request(true))
        .await
        .expect("an answer");
    let logprobs = completion.choices[0]
        .logprobs
        .clone()
        .expect("log-probabilities");
    completion.receipt.expect("a receipt").given();
    let (conversation, fault) = session.finish();
    assert_eq!(fault, None);
    let trained: Vec<f32> = (conversation
        .tokens
        .logprobs
        .iter()
        .zip(&conversation.tokens.mask))
    .filter_map(|(&logprob, &trained)| trained.then_some(logprob))
    .collect();
    assert_eq!(
        trained,
        logprobs
            .iter()
            .map(|token| token.logprob)
            .collect::<Vec<_>>()
    );
    assert!(trained.len() <= 6, "max_new_tokens bounds a turn");
    assert_eq!(conversation.messages.len(), 2);
    assert_eq!(conversation.turns, 1);
}

#[tokio::test]
async fn an_answer_that_was_not_given_in_full_is_not_recorded() {
    let (policy, sessions) = (policy(), Sessions::default());
    let session = sessions.open(policy, settings(JobId::new(), 0, 0));
    let cut = sessions
        .complete(session.token(), request(true))
        .await
        .expect("an answer");
    drop(cut);
    let (conversation, _) = session.finish();
    assert_eq!(conversation.turns, 0);
    assert!(conversation.tokens.mask.iter().all(|trained| !trained));
}

#[tokio::test]
async fn random_numbers_come_from_the_position_not_from_the_order_of_arrival() {
    let (policy, sessions, job) = (policy(), Sessions::default(), JobId::new());
    let open = |generation, charged| {
        Arc::new(sessions.open(policy.clone(), settings(job, generation, charged)))
    };
    let (first, second) = (open(0, 0), open(1, 0));
    let one = ask(&sessions, first.token()).await;
    let two = ask(&sessions, second.token()).await;
    let (second, first) = (open(1, 0), open(0, 0));
    assert_eq!(ask(&sessions, second.token()).await, two);
    assert_eq!(ask(&sessions, first.token()).await, one);
    let anew = open(0, 1);
    assert_ne!(
        ask(&sessions, anew.token()).await,
        one,
        "a plugin's own retry samples anew"
    );
}

#[tokio::test]
async fn what_can_not_be_given_is_refused_and_a_closed_session_opens_nothing() {
    let (policy, sessions) = (policy(), Sessions::default());
    let session = sessions.open(policy, settings(JobId::new(), 0, 0));
    let token = session.token().to_owned();
    let refused = async |request| match sessions.complete(&token, request).await {
        Err(ModelError::Refused { message, .. }) => message,
        other => panic!("not refused: {other:?}"),
    };
    let greedy = Sampling {
        temperature: Some(0.0),
        ..Sampling::default()
    };
    let cold = refused(ChatRequest {
        sampling: greedy,
        ..request(true)
    })
    .await;
    assert!(cold.contains("temperature 0"), "{cold}");
    let many = refused(ChatRequest {
        n: 2,
        ..request(true)
    })
    .await;
    assert!(many.contains("allowed is 1"), "{many}");
    let stop = refused(ChatRequest {
        stop: vec!["\n\n".into()],
        ..request(true)
    })
    .await;
    assert!(stop.contains("one byte"), "{stop}");

    drop(session);
    let closed = sessions.complete(&token, request(true)).await;
    assert!(
        matches!(closed, Err(ModelError::UnknownToken)),
        "{closed:?}"
    );
}

#[tokio::test]
async fn a_side_request_is_answered_but_not_trained_on() {
    let (policy, sessions) = (policy(), Sessions::default());
    let session = sessions.open(policy, settings(JobId::new(), 0, 0));
    ask(&sessions, session.token()).await;
    let judge = ChatRequest {
        messages: vec![Message::text("user", "is it right?")],
        ..request(false)
    };
    let answer = sessions
        .complete(session.token(), judge)
        .await
        .expect("an answer");
    answer.receipt.expect("a receipt").given();
    let (conversation, _) = session.finish();
    assert_eq!(conversation.side.len(), 1);
    assert_eq!(
        conversation.messages.len(),
        2,
        "the trajectory is the wrapped client's"
    );
}

#[tokio::test]
async fn a_row_that_asks_for_thinking_opens_the_turn_with_it() {
    let (policy, sessions) = (policy(), Sessions::default());
    let thinking = json!({"type": "enabled"});
    let settings = SessionSettings {
        thinking: Thinking::from_value(Some(&thinking)),
        ..settings(JobId::new(), 0, 0)
    };
    let session = sessions.open(policy, settings);
    ask(&sessions, session.token()).await;
    let (conversation, _) = session.finish();
    assert!(
        conversation
            .tokens
            .ids
            .contains(&paddock_policy::tokenizer::THINK)
    );
}
