//! Every operation's backward pass against central differences.

use super::attention::{Heads, Scratch, attend, attend_backward};
use super::embedding::{gather, scatter};
use super::gemm::{Onto, add_outer, multiply};
use super::logprob::{target_logprobs, target_logprobs_backward};
use super::norm::{rms_norm, rms_norm_backward};
use super::pages::Pages;
use super::panels::Panels;
use super::rope::Rope;
use super::swiglu::{swiglu, swiglu_backward};

fn numbers(count: usize, seed: u32) -> Vec<f32> {
    (0..count as u32)
        .map(|i| {
            let x = (i + 1)
                .wrapping_mul(2_654_435_761)
                .wrapping_add(seed.wrapping_mul(40_503));
            (x >> 8) as f32 / f32::from_bits(0x4b00_0000) - 1.0
        })
        .collect()
}

type Inputs = [Vec<f32>];

/// Compares d(Σ c·f)/dx with differences, for fixed c and numbers spread over every input.
/// `backward` is given c and answers a gradient for each input.
fn check(
    inputs: &Inputs,
    forward: impl Fn(&Inputs) -> Vec<f32>,
    backward: impl Fn(&Inputs, &[f32]) -> Vec<Vec<f32>>,
) {
    let weights = numbers(forward(inputs).len(), 77);
    let total = |inputs: &Inputs| -> f64 {
        let out = forward(inputs);
        out.iter()
            .zip(&weights)
            .map(|(x, c)| f64::from(*x) * f64::from(*c))
            .sum()
    };
    for (which, grad) in backward(inputs, &weights).iter().enumerate() {
        assert_eq!(grad.len(), inputs[which].len());
        let scale = grad.iter().fold(0.0f32, |a, g| a.max(g.abs())).max(1e-3);
        // A stride that no row length divides, so that all columns come up.
        for at in (0..grad.len()).step_by(grad.len() / 200 * 2 + 1) {
            let moved = |by: f32| {
                let mut inputs = inputs.to_vec();
                inputs[which][at] += by;
                total(&inputs)
            };
            let h = 4e-3;
            let want = (moved(h) - moved(-h)) / f64::from(2.0 * h);
            let error = (want - f64::from(grad[at])).abs();
            assert!(
                error < 2e-3 * f64::from(scale),
                "input {which} at {at}: difference {want}, gradient {}",
                grad[at]
            );
        }
    }
}

#[test]
fn products() {
    let (rows, depth, cols) = (5, 7, 6);
    check(
        &[numbers(rows * depth, 1), numbers(cols * depth, 2)],
        |inputs| {
            let mut out = vec![0.0; rows * cols];
            let weight = Panels::of_columns(&inputs[1], depth, cols);
            multiply(&inputs[0], &weight, &mut out, Onto::Nothing);
            out
        },
        |inputs, grad| {
            let mut dx = vec![0.0; rows * depth];
            let weight = Panels::of_rows(&inputs[1], cols, depth);
            multiply(grad, &weight, &mut dx, Onto::Nothing);
            let mut dw = vec![0.0; cols * depth];
            add_outer(grad, &inputs[0], rows, &mut dw, &mut Panels::default());
            vec![dx, dw]
        },
    );
}

#[test]
fn norms() {
    let width = 24;
    check(
        &[numbers(4 * width, 4), numbers(width, 5)],
        |inputs| {
            let mut out = vec![0.0; 4 * width];
            rms_norm(&inputs[0], &inputs[1], 1e-5, &mut out);
            out
        },
        |inputs, grad| {
            let (mut dx, mut dg) = (vec![0.0; 4 * width], vec![0.0; width]);
            rms_norm_backward(&inputs[0], &inputs[1], 1e-5, grad, &mut dx, &mut dg);
            vec![dx, dg]
        },
    );
}

#[test]
fn gates() {
    check(
        &[numbers(4 * 22, 6)],
        |inputs| {
            let mut out = vec![0.0; 4 * 11];
            swiglu(&inputs[0], 11, &mut out);
            out
        },
        |inputs, grad| {
            let mut dx = vec![0.0; 4 * 22];
            swiglu_backward(&inputs[0], 11, grad, &mut dx);
            vec![dx]
        },
    );
}

#[test]
fn rows_of_a_table() {
    let ids = [3, 0, 3, 4];
    check(
        &[numbers(5 * 4, 7)],
        |inputs| {
            let mut out = vec![0.0; 4 * 4];
            gather(&inputs[0], 4, &ids, &mut out);
            out
        },
        |_, grad| {
            let mut table = vec![0.0; 5 * 4];
            scatter(grad, 4, &ids, &mut table);
            vec![table]
        },
    );
}

#[test]
fn attention_over_packed_sequences() {
    // Two query heads share each key head; one sequence is longer than a page.
    let heads = Heads {
        queries: 4,
        keys: 2,
        head: 16,
    };
    let rope = Rope::new(16, 10_000.0, 64);
    let forward = |lengths: &[usize], rows: &[f32]| {
        let mut out = Vec::new();
        let mut from = 0;
        for length in lengths {
            let rows = &rows[from * heads.row()..(from + length) * heads.row()];
            let mut these = vec![0.0; length * heads.out()];
            let mut pages = Pages::new(heads.keys, heads.head);
            attend(
                heads,
                &rope,
                rows,
                &mut pages,
                &mut Scratch::default(),
                &mut these,
            );
            out.extend(these);
            from += length;
        }
        out
    };
    for (lengths, seed) in [(vec![3, 1, 4], 8), (vec![35], 9)] {
        let count: usize = lengths.iter().sum();
        check(
            &[numbers(count * heads.row(), seed)],
            |inputs| forward(&lengths, &inputs[0]),
            |inputs, grad| {
                let (rows, out) = (&inputs[0], forward(&lengths, &inputs[0]));
                let mut d_rows = vec![0.0; rows.len()];
                attend_backward(heads, &rope, &lengths, rows, &out, grad, &mut d_rows);
                vec![d_rows]
            },
        );
    }
}

#[test]
fn target_log_probs_at_a_temperature() {
    let (targets, inverse) = ([0, 20, 7, 7], 1.0 / 0.7);
    check(
        &[numbers(4 * 21, 10)],
        |inputs| target_logprobs(&inputs[0], &targets, inverse).0,
        |inputs, grad| {
            let mut d = vec![0.0; 4 * 21];
            target_logprobs_backward(&inputs[0], &targets, inverse, grad, &mut d);
            vec![d]
        },
    );
}
