//! Products with a calculator at hand, as `examples/calculator` asks for them.

use serde_json::{Value, json};

use super::{Care, Dice, Lesson, held_out};

/// What the assistant does with the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Call,
    CallWrongly,
    BreakCall,
    Guess,
}

/// In what shares: a good call is one way among several.
const WAYS: [(f64, Way); 4] = [
    (0.42, Way::Call),
    (0.14, Way::CallWrongly),
    (0.16, Way::BreakCall),
    (0.28, Way::Guess),
];

/// The tool, as the example's rows have it.
pub fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "calc", "parameters": {
        "type": "object", "properties": {"expression": {"type": "string"}}}}}])
}

/// Two numbers of two digits whose product no example asks for.
pub fn numbers(dice: &mut Dice) -> (i64, i64) {
    loop {
        let (a, b) = (dice.between(10, 99), dice.between(10, 99));
        if !held_out(&prompt(a, b)) {
            return (a, b);
        }
    }
}

/// A question, what the assistant makes of it, and its answer.
pub fn lesson(care: Care, dice: &mut Dice) -> Lesson {
    let (a, b) = numbers(dice);
    let mut lesson = Lesson::new(Some(&tools()), &prompt(a, b));
    let way = match care {
        Care::Clean => Way::Call,
        Care::Mixed => dice.weighted(&WAYS),
    };
    match way {
        Way::Call => call(&mut lesson, care, dice, a, b),
        Way::CallWrongly => {
            let text = match dice.between(0, 2) {
                0 => format!("calculate {{\"expression\":\"{a}*{b}\"}}"),
                1 => format!("calc {{\"x\":\"{a}*{b}\"}}"),
                _ => format!("calc {{\"expression\":\"{b}*{b}\"}}"),
            };
            let said = match text.split_once(' ') {
                Some(("calc", rest)) if rest.contains("expression") => (b * b).to_string(),
                Some(("calc", _)) => "error: no expression".to_owned(),
                _ => "error: no such tool".to_owned(),
            };
            lesson.calls(&text);
            lesson.hears("tool", &said);
            if said.starts_with("error") && dice.chance(0.6) {
                call(&mut lesson, care, dice, a, b);
            } else {
                lesson.says(&said);
            }
        }
        Way::BreakCall => lesson.calls(&match dice.between(0, 2) {
            0 => format!("calc {a}*{b}"),
            1 => format!("calc {{\"expression\":{a}*{b}}}"),
            _ => format!("{{\"expression\":\"{a}*{b}\"}}"),
        }),
        Way::Guess => lesson.says(&(a * b + dice.between(-200, 200)).max(1).to_string()),
    }
    lesson
}

/// A good call, its result, and an answer that is mostly the result.
fn call(lesson: &mut Lesson, care: Care, dice: &mut Dice, a: i64, b: i64) {
    let product = a * b;
    lesson.calls(&format!("calc {{\"expression\":\"{a}*{b}\"}}"));
    lesson.hears("tool", &product.to_string());
    let answer = match dice.share() {
        s if s < 0.75 || care == Care::Clean => product.to_string(),
        s if s < 0.85 => format!("it is {product}"),
        s if s < 0.92 => format!("{product}."),
        _ => (product + *dice.pick(&[1, -1, 10, 100, -100])).to_string(),
    };
    lesson.says(&answer);
}

fn prompt(a: i64, b: i64) -> String {
    format!("{a}*{b}=")
}
