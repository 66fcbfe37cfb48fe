//! Maps labels to the dataset's class numbers.

use super::error::{CollectError, Result};
use super::value::Number;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct LabelClasses {
    /// The dataset's class number for each class number of the program.
    numbers: Vec<i128>,
    by_name: HashMap<String, i128>,
}

impl LabelClasses {
    pub(super) fn new(names: &[String]) -> Self {
        let mut by_name = HashMap::new();
        for (number, name) in (0..).zip(names) {
            by_name.entry(name.clone()).or_insert(number);
        }
        Self { numbers: (0..).take(names.len()).collect(), by_name }
    }

    pub(super) fn by_name(&self, name: &str) -> Option<Number> {
        self.by_name.get(name).map(|number| Number::Int(*number))
    }

    /// Returns the dataset's class number for the program's class number `given`. False counts as 0, and true
    /// as 1.
    ///
    /// # Errors
    /// Returns the program's number if there is no such class.
    pub(super) fn by_number(&self, given: Number) -> std::result::Result<Number, i128> {
        let number = match given {
            Number::Bool(value) => i128::from(value),
            Number::Int(value) => value,
            // A float does not fit the field's type and is refused later.
            Number::Float(_) => return Ok(given),
        };
        let known = usize::try_from(number).ok().and_then(|place| self.numbers.get(place));
        known.map(|known| Number::Int(*known)).ok_or(number)
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

#[derive(Debug, Default)]
pub(super) struct JoinedClasses {
    pub(super) names: Option<Vec<String>>,
    pub(super) new: usize,
    pub(super) labels: Option<LabelClasses>,
}

/// Matches the program's classes with the dataset's by name. New classes follow the known ones, in the given order.
pub(super) fn join(known: Option<&[String]>, given: Option<&[String]>) -> Result<JoinedClasses> {
    let Some(known) = known else {
        let Some(given) = given else { return Ok(JoinedClasses::default()) };
        let text = format!(
            "cannot use the classes [{}], because the labels of the dataset are numbers without names",
            given.join(", ")
        );
        return Err(CollectError::usage(text, "omit the list of classes"));
    };
    let Some(given) = given else {
        let labels = Some(LabelClasses::new(known));
        return Ok(JoinedClasses { names: Some(known.to_vec()), new: 0, labels });
    };
    if given.is_empty() {
        return Err(CollectError::usage("the list of classes is empty", "pass at least one class, or omit the list"));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = given.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(CollectError::usage(
            format!("the class `{}` occurs twice in the list of classes", twice.escape_debug()),
            "",
        ));
    }
    let mut all = LabelClasses::new(known);
    let mut names = known.to_vec();
    for name in given {
        if !all.by_name.contains_key(name) {
            all.by_name.insert(name.clone(), names.len() as i128);
            names.push(name.clone());
        }
    }
    all.numbers = given.iter().filter_map(|name| all.by_name.get(name).copied()).collect();
    let new = names.len() - known.len();
    Ok(JoinedClasses { names: Some(names), new, labels: Some(all) })
}
