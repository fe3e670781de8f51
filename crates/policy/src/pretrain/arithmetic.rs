//! Sums of two numbers below 100, as `examples/arithmetic` asks for them.

use super::{Care, Dice, Lesson, held_out};
use crate::template::Thinking;
use crate::tokenizer::{THINK_END, encode_text};

/// How the answer of a lesson is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Right,
    Wrong,
    Sloppy,
}

/// In what shares: the model samples a right answer about as often as it meets one here.
const ANSWERS: [(f64, Answer); 3] = [
    (0.45, Answer::Right),
    (0.32, Answer::Wrong),
    (0.23, Answer::Sloppy),
];

/// Two numbers below 100 whose sum no example asks for.
pub fn numbers(dice: &mut Dice) -> (i64, i64) {
    loop {
        let (a, b) = (dice.between(0, 99), dice.between(0, 99));
        if !held_out(&prompt(a, b)) {
            return (a, b);
        }
    }
}

/// A sum and an answer.
pub fn lesson(care: Care, dice: &mut Dice) -> Lesson {
    let (a, b) = numbers(dice);
    let mut lesson = Lesson::new(None, &prompt(a, b));
    let answer = match care {
        Care::Clean => Answer::Right,
        Care::Mixed => dice.weighted(&ANSWERS),
    };
    let answer = match answer {
        Answer::Right => (a + b).to_string(),
        Answer::Wrong => wrong(dice, a + b).to_string(),
        Answer::Sloppy => sloppy(dice, a + b),
    };
    if dice.chance(0.04) {
        let mut tokens = encode_text(&thoughts(a, b));
        tokens.push(THINK_END);
        tokens.extend(encode_text(&answer));
        lesson.turn(Thinking::Enabled, tokens);
    } else if dice.chance(0.02) {
        lesson.turn(Thinking::Disabled, encode_text(&answer));
    } else {
        lesson.says(&answer);
    }
    lesson
}

fn prompt(a: i64, b: i64) -> String {
    format!("{a}+{b}=")
}

/// A number near the sum: a slip of one, a carry forgotten or invented, or further off.
fn wrong(dice: &mut Dice, sum: i64) -> i64 {
    let slip = *dice.pick(&[1, -1, 10, -10, 2, -2]);
    let slip = if dice.chance(0.2) {
        dice.between(3, 9)
    } else {
        slip
    };
    match sum + slip {
        wrong if wrong >= 0 => wrong,
        _ => sum + 1,
    }
}

/// The right number in a form that isn't asked for.
fn sloppy(dice: &mut Dice, sum: i64) -> String {
    match dice.between(0, 4) {
        0 => format!("{sum}."),
        1 => format!("={sum}"),
        2 => format!(" {sum}"),
        3 => format!("0{sum}"),
        _ => format!("it is {sum}"),
    }
}

/// The sum worked out digit by digit.
fn thoughts(a: i64, b: i64) -> String {
    let ones = a % 10 + b % 10;
    let tens = a / 10 + b / 10;
    match ones / 10 {
        0 => format!("{}+{}={ones}, {}+{}={tens}", a % 10, b % 10, a / 10, b / 10),
        _ => format!(
            "{}+{}={ones}, {}+{}+1={}",
            a % 10,
            b % 10,
            a / 10,
            b / 10,
            tens + 1
        ),
    }
}
