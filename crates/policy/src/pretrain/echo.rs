//! Saying a number again: the skill of copying, which a tool's result needs, in its shortest form.

use super::{Dice, Lesson};

/// A number of one to five digits, and the same again. No example asks for it.
pub fn lesson(dice: &mut Dice) -> Lesson {
    let digits = dice.between(1, 5);
    let number: String = (0..digits)
        .map(|_| char::from(b'0' + dice.between(0, 9) as u8))
        .collect();
    let mut lesson = Lesson::new(None, &format!("say {number}"));
    lesson.says(&number);
    lesson
}
