//! Labels of several runs that are shown together.

use jitlat_core::Direction;

/// Returns unique labels: the name of a run if it has one, otherwise its file name. If two are equal, the direction is
/// added; if that is not enough, the whole path is used, and finally a number.
pub fn unique_labels(runs: &[(Option<&str>, &str, Option<Direction>)]) -> Vec<String> {
    let mut labels: Vec<String> =
        runs.iter().map(|(name, source, _)| name.map_or_else(|| stem(source), str::to_owned)).collect();
    let with_direction = |k: usize, label: &str| match runs[k].2 {
        Some(Direction::Up) => format!("{label} up"),
        Some(Direction::Down) => format!("{label} down"),
        None => label.to_owned(),
    };
    rename(&mut labels, with_direction);
    rename(&mut labels, |k, _| runs[k].1.to_owned());
    rename(&mut labels, |k, label| format!("{label} ({})", k + 1));
    labels
}

/// Replaces each label that occurs more than once by the result of `other`, which receives its index and the label.
pub fn rename(labels: &mut [String], other: impl Fn(usize, &str) -> String) {
    let before = labels.to_vec();
    for (k, label) in labels.iter_mut().enumerate() {
        if before.iter().filter(|l| *l == label).count() > 1 {
            *label = other(k, label);
        }
    }
}

/// Returns the name of a file, without its folder and the usual extensions.
pub fn stem(path: &str) -> String {
    let name = path.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or(path);
    match [".log", ".json", ".sweep"].iter().find_map(|ending| name.strip_suffix(ending)) {
        Some(short) if !short.is_empty() => short.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ() {
        let up = Some(Direction::Up);
        let down = Some(Direction::Down);
        let runs = [
            (None, "x/a.log", None),
            (None, "y/a.log", None),
            (Some("call"), "call.up", up),
            (Some("call"), "call.down", down),
            (None, "c", None),
            (None, "c", None),
            (Some("lab"), "z.json", up),
        ];
        assert_eq!(
            unique_labels(&runs),
            ["x/a.log", "y/a.log", "call up", "call down", "c (5)", "c (6)", "lab"]
        );
    }

    #[test]
    fn files_without_what_says_nothing() {
        assert_eq!(stem("x/y/a.log"), "a");
        assert_eq!(stem("jitlat.0faqgu"), "jitlat.0faqgu");
        assert_eq!(stem(".json"), ".json");
    }
}
