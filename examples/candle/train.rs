//! Trains an image classifier with [candle](https://github.com/huggingface/candle): converts batches to tensors, and
//! trains a one-layer model on the classes of the dataset.
//!
//! ```console
//! $ shardpack pack photos train
//! $ cargo run --release --manifest-path examples/candle/Cargo.toml train
//! ```

use candle_core::{D, DType, Device, Tensor, Var};
use shardpack::order::End;
use shardpack::{Batch, Dataset, Scaling, View};
use std::error::Error;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Side length of the pictures in a batch, in pixels.
const SIDE: u32 = 32;
/// Mean and standard deviation of ImageNet pictures, per channel.
const MEAN: [f64; 3] = [0.485, 0.456, 0.406];
const STD: [f64; 3] = [0.229, 0.224, 0.225];

struct Model {
    weights: Var,
    bias: Var,
}

impl Model {
    fn new(inputs: usize, classes: usize, device: &Device) -> candle_core::Result<Self> {
        let weights = Var::zeros((inputs, classes), DType::F32, device)?;
        Ok(Self { weights, bias: Var::zeros(classes, DType::F32, device)? })
    }

    /// Returns one score per class for each row.
    fn forward(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        images.flatten_from(1)?.matmul(&self.weights)?.broadcast_add(&self.bias)
    }

    /// Takes one step of gradient descent.
    fn step(&self, loss: &Tensor, rate: f64) -> candle_core::Result<()> {
        let gradients = loss.backward()?;
        for variable in [&self.weights, &self.bias] {
            if let Some(gradient) = gradients.get(variable) {
                variable.set(&(variable.as_tensor() - (gradient * rate)?)?)?;
            }
        }
        Ok(())
    }
}

/// Converts pictures to float32 `[rows, height, width, 3]` and labels to int64 `[rows]`, with one copy into candle's
/// memory.
fn tensors(batch: &Batch, device: &Device) -> Result<(Tensor, Tensor)> {
    let (rows, side) = (batch.len(), SIDE as usize);
    let images = Tensor::from_slice(batch.slice::<f32>("image")?, (rows, side, side, 3), device)?;
    Ok((images, Tensor::from_slice(batch.slice::<i64>("label")?, rows, device)?))
}

/// Returns the mean negative log-probability of the labels.
fn cross_entropy(scores: &Tensor, labels: &Tensor) -> candle_core::Result<Tensor> {
    let of_labels = scores.gather(&labels.unsqueeze(1)?, 1)?.squeeze(1)?;
    (scores.log_sum_exp(D::Minus1)? - of_labels)?.mean_all()
}

/// Trains for `epochs` epochs and returns the mean loss of each.
fn train(dataset: &Dataset, epochs: u32) -> Result<(Model, Vec<f32>)> {
    let device = Device::Cpu;
    let mut loader = dataset
        .loader()
        .batch_size(64)
        .seed(42)
        .end(End::Uneven)
        .image(View::random_resized_crop(SIDE).with_flip(0.5))
        .scaling(Scaling::normalised(MEAN, STD)?)
        .fields(["image", "label"])
        .open()?;
    let classes = dataset.classes().map_or(0, <[String]>::len);
    let model = Model::new((SIDE * SIDE * 3) as usize, classes, &device)?;
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        let (mut sum, mut samples) = (0.0, 0);
        for batch in loader.epoch(epoch) {
            let batch = batch?;
            let (images, labels) = tensors(&batch, &device)?;
            let loss = cross_entropy(&model.forward(&images)?, &labels)?;
            model.step(&loss, 0.001)?;
            sum += loss.to_scalar::<f32>()? * batch.len() as f32;
            samples += batch.len();
        }
        losses.push(sum / samples.max(1) as f32);
    }
    Ok((model, losses))
}

/// Returns the fraction of samples whose class has the largest score.
fn accuracy(model: &Model, dataset: &Dataset) -> Result<f32> {
    let mut loader = dataset
        .loader()
        .batch_size(64)
        .end(End::Uneven)
        .image(View::center_crop(SIDE * 8 / 7, SIDE))
        .scaling(Scaling::normalised(MEAN, STD)?)
        .fields(["image", "label"])
        .open()?;
    let mut right = 0.0;
    for batch in loader.epoch(0) {
        let (images, labels) = tensors(&batch?, &Device::Cpu)?;
        let found = model.forward(&images)?.argmax(D::Minus1)?.to_dtype(DType::I64)?;
        right += found.eq(&labels)?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?;
    }
    Ok(right / dataset.len() as f32)
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "train".to_owned());
    let dataset = Dataset::open(path)?;
    let (model, losses) = train(&dataset, 10)?;
    println!("loss of each epoch: {losses:.3?}");
    println!("accuracy: {:.3}", accuracy(&model, &dataset)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn bmp(blue: u8, red: u8) -> Vec<u8> {
        let (side, header) = (48_u32, 54_u32);
        let mut out = b"BM".to_vec();
        [header + side * side * 3, 0, header, 40, side, side, 1 | 24 << 16, 0, 0, 0, 0, 0, 0]
            .iter()
            .for_each(|number| out.extend(number.to_le_bytes()));
        (0..side).for_each(|row| (0..side).for_each(|_| out.extend([blue, row as u8, red])));
        out
    }

    #[test]
    fn it_learns_two_colours() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let (src, out) = (scratch.path().join("src"), scratch.path().join("out"));
        for (class, blue, red) in [("blue", 200, 40), ("red", 40, 200)] {
            fs::create_dir_all(src.join(class))?;
            for number in 0..60 {
                fs::write(src.join(format!("{class}/{number}.bmp")), bmp(blue + number % 50, red + number % 40))?;
            }
        }
        shardpack::pack(&src, &out, shardpack::PackOptions::default())?;
        let dataset = Dataset::open(&out)?;
        let (model, losses) = train(&dataset, 3)?;
        assert!(losses[2] < losses[0] / 2.0, "{losses:?}");
        assert_eq!(accuracy(&model, &dataset)?, 1.0);
        Ok(())
    }
}
