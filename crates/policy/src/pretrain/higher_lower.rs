//! Games of `examples/higher_lower`: a secret number, and guesses answered by a direction.

use super::{Care, Dice, Lesson, held_out};

/// Guesses of a game.
const GUESSES: usize = 6;

/// How a guess is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    Middle,
    Possible,
    InRange,
    Astray,
    NoNumber,
}

/// In what shares. Most guesses aren't good ones: halving what is left is for the job to find.
const GUESSES_MADE: [(f64, Guess); 5] = [
    (0.25, Guess::Middle),
    (0.45, Guess::Possible),
    (0.20, Guess::InRange),
    (0.05, Guess::Astray),
    (0.05, Guess::NoNumber),
];

/// How a careful player guesses.
const CAREFUL: [(f64, Guess); 2] = [(0.5, Guess::Middle), (0.5, Guess::Possible)];

/// A range that no example plays on.
pub fn range(dice: &mut Dice) -> (i64, i64) {
    loop {
        let low = dice.between(1, 67);
        let high = low + dice.between(7, 31);
        if !held_out(&prompt(low, high)) {
            return (low, high);
        }
    }
}

/// A game, played to its end.
pub fn lesson(care: Care, dice: &mut Dice) -> Lesson {
    let (low, high) = range(dice);
    let secret = dice.between(low, high);
    let (mut least, mut most) = (low, high);
    let mut lesson = Lesson::new(None, &prompt(low, high));
    for _ in 0..GUESSES {
        let way = match care {
            Care::Clean => dice.weighted(&CAREFUL),
            Care::Mixed => dice.weighted(&GUESSES_MADE),
        };
        let guess = match way {
            Guess::Middle => (least + most) / 2,
            Guess::Possible => dice.between(least, most),
            Guess::InRange => dice.between(low, high),
            Guess::Astray => dice.between(1, 99),
            Guess::NoNumber => {
                let said = *dice.pick(&["?", "hm", "no idea"]);
                lesson.says(said);
                lesson.hears("user", "number");
                continue;
            }
        };
        lesson.says(&guess.to_string());
        if guess == secret {
            break;
        }
        if guess < secret {
            least = least.max(guess + 1);
            lesson.hears("user", "higher");
        } else {
            most = most.min(guess - 1);
            lesson.hears("user", "lower");
        }
    }
    lesson
}

fn prompt(low: i64, high: i64) -> String {
    format!("guess {low}-{high}")
}
