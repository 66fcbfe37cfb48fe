//! Applies the caller's function to the converted output values, in runs of float32.

use super::singles::{self, RUN};
use half::bf16;
use shardpack_base::parts::part_mut;
use shardpack_format::{Dtype, ElementType, Error, Result};

/// Calls `change` on each run of output values, which must be floats of at most 32 bits. `change` also receives the
/// index of the first value of the run. The results are rounded to the nearest, ties to even.
///
/// ```
/// use shardpack_array::change_runs;
/// use shardpack_format::Dtype;
/// let mut values = [1.5_f32, -2.0].map(f32::to_le_bytes).concat();
/// change_runs(Dtype::F32.into(), &mut values, |first, run| run.iter_mut().for_each(|v| *v += first as f32 + 1.0))?;
/// assert_eq!(values, [2.5_f32, -1.0].map(f32::to_le_bytes).concat());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
///
/// # Errors
/// `Usage` if the elements are not floats of at most 32 bits.
pub fn change_runs(element: ElementType, bytes: &mut [u8], mut change: impl FnMut(u64, &mut [f32])) -> Result<()> {
    let size = element.size();
    if super::As::float(element).is_none() {
        return Err(Error::usage(format!(
            "only arrays of float16, bfloat16 or float32 can be augmented, not arrays of {element}"
        )));
    }
    let mut singles = [0.0; RUN];
    for (number, bytes) in (0_u64..).zip(bytes.chunks_mut(RUN * size)) {
        let run = part_mut(&mut singles, 0..bytes.len() / size, "elements in a run")?;
        match element {
            ElementType::Bf16 => {
                let values = bytes.as_chunks().0.iter().map(|value| bf16::from_le_bytes(*value).to_f32());
                run.iter_mut().zip(values).for_each(|(to, value)| *to = value);
            }
            ElementType::Dtype(Dtype::F16) => singles::load(Dtype::F16, bytes, run),
            ElementType::Dtype(_) => singles::load(Dtype::F32, bytes, run),
        }
        change(number * RUN as u64, run);
        singles::store(element, run, bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn every_value_is_changed_once() {
        for element in [Dtype::F16.into(), ElementType::Bf16, Dtype::F32.into()] {
            let mut bytes = vec![0; 1_300 * element.size()];
            change_runs(element, &mut bytes, |first, run| {
                run.iter_mut().zip(first..).for_each(|(value, place)| *value += (place % 200) as f32);
            })
            .unwrap();
            change_runs(element, &mut bytes, |_, run| run.iter_mut().for_each(|value| *value /= 2.0)).unwrap();
            let values: Vec<f32> = match element {
                ElementType::Bf16 => bytes.as_chunks().0.iter().map(|v| bf16::from_le_bytes(*v).to_f32()).collect(),
                ElementType::Dtype(Dtype::F16) => {
                    bytes.as_chunks().0.iter().map(|v| f16::from_le_bytes(*v).to_f32()).collect()
                }
                ElementType::Dtype(_) => bytes.as_chunks().0.iter().map(|v| f32::from_le_bytes(*v)).collect(),
            };
            let expected: Vec<f32> = (0..1_300).map(|place| (place % 200) as f32 / 2.0).collect();
            assert_eq!(values, expected, "{element}");
        }
        assert!(change_runs(Dtype::U8.into(), &mut [0], |_, _| ()).is_err());
    }
}
