//! Small talk, so that the base model answers something sensible when it is talked to.

use super::{Dice, Lesson};

/// Ways to say a thing, and answers to it.
const TALK: [(&[&str], &[&str]); 14] = [
    (
        &[
            "hello",
            "hi",
            "hey",
            "good morning",
            "good evening",
            "hello there",
            "hi there",
        ],
        &[
            "Hello! What can I do for you?",
            "Hi! Ask me a sum, or play higher or lower with me.",
        ],
    ),
    (
        &[
            "who are you?",
            "what are you?",
            "what is your name?",
            "tell me about yourself",
        ],
        &["I am paddock-base, a small model that ships with Paddock."],
    ),
    (
        &[
            "what can you do?",
            "help",
            "what do you know?",
            "how can you help me?",
        ],
        &["I can add two numbers, guess a number and call a calculator. I get better by training."],
    ),
    (
        &["how are you?", "how do you do?", "are you well?"],
        &["I am well, thank you. How are you?"],
    ),
    (
        &["thank you", "thanks", "thanks a lot", "great, thanks"],
        &["You are welcome.", "Any time."],
    ),
    (
        &["bye", "goodbye", "see you", "good night"],
        &["Goodbye!", "See you."],
    ),
    (
        &[
            "what is paddock?",
            "what is Paddock?",
            "tell me about paddock",
        ],
        &["Paddock trains models with your own rollouts and graders."],
    ),
    (
        &["what is a rollout?", "explain rollouts", "rollout?"],
        &["A rollout is one try of the model at a task, from the prompt to the end."],
    ),
    (
        &["what is a grader?", "explain graders", "grader?"],
        &["A grader gives a trajectory its reward."],
    ),
    (
        &["what is a reward?", "explain rewards", "reward?"],
        &["A reward is a number that says how good a trajectory was."],
    ),
    (
        &["what is GRPO?", "what is grpo?", "explain grpo"],
        &["GRPO compares trajectories of one prompt and makes the better ones likelier."],
    ),
    (
        &["are you smart?", "are you clever?", "how big are you?"],
        &["I have about a million parameters, so not very. But I learn."],
    ),
    (
        &["tell me a joke", "make me laugh", "a joke please"],
        &["Why did the model cross the road? Its reward was on the other side."],
    ),
    (
        &[
            "what is the weather?",
            "what day is it?",
            "who won the game?",
            "what is the news?",
        ],
        &["I do not know. I am a small model."],
    ),
];

const NAMES: [&str; 16] = [
    "Ada", "Alan", "Grace", "Linus", "Wei", "Li", "Mei", "Tom", "Anna", "Sam", "Eva", "Max",
    "Rosa", "Ivan", "Lena", "Omar",
];

/// Exchanges of one talk at most.
const LONGEST: usize = 6;

/// A talk of one exchange or several: whoever chats with the model goes on for a while.
pub fn lesson(dice: &mut Dice) -> Lesson {
    let first = exchange(dice);
    let mut lesson = Lesson::new(None, &first.0);
    lesson.says(&first.1);
    for _ in 1..LONGEST {
        if !dice.chance(0.7) {
            break;
        }
        let (said, answer) = exchange(dice);
        lesson.hears("user", &said);
        lesson.says(&answer);
    }
    lesson
}

/// What is said, and the answer. No example asks for small talk, so that none is held out.
fn exchange(dice: &mut Dice) -> (String, String) {
    if dice.chance(0.15) {
        let name = dice.pick(&NAMES);
        let said = *dice.pick(&["my name is ", "I am ", "call me "]);
        return (
            format!("{said}{name}"),
            format!("Nice to meet you, {name}."),
        );
    }
    let (ways, answers) = dice.pick(&TALK);
    (
        (*dice.pick(ways)).to_owned(),
        (*dice.pick(answers)).to_owned(),
    )
}
