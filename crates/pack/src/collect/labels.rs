//! Labels as numbers of the classes of a dataset.

use super::error::{CollectError, Result};
use super::value::Number;
use std::collections::{HashMap, HashSet};

/// What a caller gave who gave no name.
const EMPTY: &str = "an empty list";

/// The classes that labels count into.
#[derive(Debug, Default)]
pub(super) struct LabelClasses {
    /// The class of the dataset for each number that a program may give.
    numbers: Vec<i128>,
    /// The same by name.
    by_name: HashMap<String, i128>,
}

impl LabelClasses {
    /// Classes of a new dataset, whose numbers are their places.
    pub(super) fn new(names: &[String]) -> Self {
        let mut by_name = HashMap::new();
        for (number, name) in (0..).zip(names) {
            by_name.entry(name.clone()).or_insert(number);
        }
        Self { numbers: (0..).take(names.len()).collect(), by_name }
    }

    /// The number of a class.
    pub(super) fn by_name(&self, name: &str) -> Option<Number> {
        self.by_name.get(name).map(|number| Number::Int(*number))
    }

    /// The number in the dataset of the class that a program numbers so; a truth value is 0 or 1.
    ///
    /// # Errors
    /// The number, if no class has it.
    pub(super) fn by_number(&self, given: Number) -> std::result::Result<Number, i128> {
        let number = match given {
            Number::Bool(value) => i128::from(value),
            Number::Int(value) => value,
            // Refused by the type of the field.
            Number::Float(_) => return Ok(given),
        };
        let known = usize::try_from(number).ok().and_then(|place| self.numbers.get(place));
        known.map(|known| Number::Int(*known)).ok_or(number)
    }

    /// How many numbers a program may give.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// The classes of a dataset that gets more samples.
#[derive(Debug, Default)]
pub(super) struct JoinedClasses {
    /// Their names, if it has any.
    pub(super) names: Option<Vec<String>>,
    /// How many of them are new.
    pub(super) new: usize,
    /// What labels of new samples count into.
    pub(super) labels: Option<LabelClasses>,
}

/// Matches the classes of a program with those of the dataset, by name. New ones come behind them, in
/// the order given.
pub(super) fn join(known: Option<&[String]>, given: Option<&[String]>) -> Result<JoinedClasses> {
    let Some(known) = known else {
        let Some(given) = given else { return Ok(JoinedClasses::default()) };
        let hint = "leave the classes out: labels are numbers there";
        let found = if given.is_empty() { EMPTY.to_owned() } else { given.join(", ") };
        return Err(CollectError::usage("classes", "none, as in the dataset", found, hint));
    };
    let Some(given) = given else {
        let labels = Some(LabelClasses::new(known));
        return Ok(JoinedClasses { names: Some(known.to_vec()), new: 0, labels });
    };
    if given.is_empty() {
        return Err(CollectError::usage("classes", "at least one name", EMPTY, ""));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = given.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(CollectError::usage("classes", "each name once", format!("`{}` twice", twice.escape_debug()), ""));
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
