//! Describes the hosts and the time of a figure's measurement, because figures are shared without the page
//! around them.

use super::Figure;

/// Maximum number of runs that are named.
const MAX_NAMED_RUNS: usize = 4;

/// Describes where and when several runs were measured, from the name and description of each. Common parts appear once.
pub fn measured_of_several<'a>(runs: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let known: Vec<(&str, String)> =
        runs.into_iter().filter_map(|(name, measured)| Some((name, measured?))).collect();
    match &known[..] {
        [] => String::new(),
        [(_, first), others @ ..] if others.iter().all(|(_, other)| other == first) => first.clone(),
        _ => {
            let shown = if known.len() > MAX_NAMED_RUNS { MAX_NAMED_RUNS - 1 } else { known.len() };
            let one = |(name, measured): &(&str, String)| match name.is_empty() {
                true => measured.clone(),
                false => format!("{name}: {measured}"),
            };
            let mut text = known[..shown].iter().map(one).collect::<Vec<_>>().join("; ");
            if shown < known.len() {
                text += &format!("; and {} more", known.len() - shown);
            }
            text
        }
    }
}

/// Adds the hosts and the time of the measurement to each of `figures` that lacks them.
pub fn label_measured(figures: &mut [Figure], measured: &str) {
    let silent = figures.iter_mut().filter(|figure| figure.measured.is_empty());
    silent.for_each(|figure| measured.clone_into(&mut figure.measured));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_have_in_common_is_said_once() {
        let known = |name, measured: &str| (name, Some(measured.to_owned()));
        assert_eq!(measured_of_several([known("a", "here"), known("b", "here"), ("c", None)]), "here");
        assert_eq!(measured_of_several([known("a", "here"), known("b", "there")]), "a: here; b: there");
        assert_eq!(measured_of_several([("a", None)]), "");
        let many = measured_of_several(["0", "1", "2", "3", "4"].map(|name| known(name, name)));
        assert_eq!(many, "0: 0; 1: 1; 2: 2; and 2 more");
    }
}
