//! Every operation's backward pass against central differences.

use std::sync::{Arc, OnceLock};

use candle_core::{Device, Result, Tensor, Var};

use super::attention::{Attention, Heads};
use super::embedding::Rows;
use super::linear::{Linear, ResidualLinear};
use super::logprob::TargetLogprob;
use super::norm::RmsNorm;
use super::rope::Rope;
use super::swiglu::SwiGlu;

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

fn var(shape: (usize, usize), seed: u32) -> Var {
    let values = numbers(shape.0 * shape.1, seed);
    Var::from_vec(values, shape, &Device::Cpu).expect("a variable")
}

/// Compares d(Σ c·f)/dx with differences, for fixed c and numbers spread over every input.
fn check(inputs: &[Var], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let tensors: Vec<Tensor> = inputs.iter().map(|v| v.as_tensor().clone()).collect();
    let out = f(&tensors).expect("forward");
    let weights = numbers(out.elem_count(), 77);
    let c = Tensor::from_vec(weights.clone(), out.shape(), &Device::Cpu).expect("weights");
    let total = |tensors: &[Tensor]| -> f64 {
        let out = f(tensors)
            .and_then(|t| t.flatten_all()?.to_vec1::<f32>())
            .expect("forward");
        out.iter()
            .zip(&weights)
            .map(|(x, c)| f64::from(*x) * f64::from(*c))
            .sum()
    };
    let grads = (&out * c)
        .and_then(|t| t.sum_all()?.backward())
        .expect("backward");
    for (which, input) in inputs.iter().enumerate() {
        let grad = grads.get(input.as_tensor()).expect("a gradient");
        let grad = grad
            .flatten_all()
            .and_then(|t| t.to_vec1::<f32>())
            .expect("numbers");
        let base = tensors[which]
            .flatten_all()
            .and_then(|t| t.to_vec1::<f32>())
            .expect("numbers");
        let scale = grad.iter().fold(0.0f32, |a, g| a.max(g.abs())).max(1e-3);
        // A stride that no row length divides, so that all columns come up.
        for at in (0..base.len()).step_by(base.len() / 200 * 2 + 1) {
            let moved = |by: f32| {
                let mut values = base.clone();
                values[at] += by;
                let mut moved = tensors.clone();
                moved[which] =
                    Tensor::from_vec(values, input.shape(), &Device::Cpu).expect("a tensor");
                total(&moved)
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
fn linear() {
    check(&[var((5, 7), 1), var((6, 7), 2)], |t| {
        t[0].apply_op2(&t[1], Linear)
    });
}

#[test]
fn residual_linear() {
    check(&[var((5, 6), 3), var((5, 7), 1), var((6, 7), 2)], |t| {
        t[0].apply_op3(&t[1], &t[2], ResidualLinear)
    });
}

#[test]
fn rms_norm() {
    let gain = Var::from_vec(numbers(24, 5), 24, &Device::Cpu).expect("a variable");
    check(&[var((4, 24), 4), gain], |t| {
        t[0].apply_op2(&t[1], RmsNorm(1e-5))
    });
}

#[test]
fn swiglu() {
    check(&[var((4, 22), 6)], |t| t[0].apply_op1(SwiGlu));
}

#[test]
fn rows() {
    check(&[var((5, 4), 7)], |t| {
        t[0].apply_op1(Rows(vec![3, 0, 3, 4]))
    });
}

#[test]
fn attention_over_packed_sequences() {
    // Two query heads share each key head; one sequence is longer than a page.
    let heads = Heads {
        queries: 4,
        keys: 2,
        head: 16,
    };
    let rope = Arc::new(Rope::new(16, 10_000.0, 64));
    for (lengths, seed) in [(vec![3, 1, 4], 8), (vec![35], 9)] {
        let count = lengths.iter().sum();
        let lengths = Arc::new(lengths);
        check(&[var((count, heads.row()), seed)], |t| {
            t[0].apply_op1(Attention {
                heads,
                rope: rope.clone(),
                lengths: lengths.clone(),
            })
        });
    }
}

#[test]
fn target_logprob_at_a_temperature() {
    check(&[var((4, 21), 10)], |t| {
        t[0].apply_op1(TargetLogprob {
            targets: vec![0, 20, 7, 7],
            inverse_temperature: 1.0 / 0.7,
            entropies: Arc::new(OnceLock::new()),
        })
    });
}
