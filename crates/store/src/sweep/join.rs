//! [`join`]: several sweeps as one, with the sweep as a further condition.

use super::{Contents, SweepError, SweepPlan};
use jitlat_core::sweep::{Factor, FactorLevel, RunOutcome, SweepAxis, SweepGrid};

/// Joins sweeps with the same conditions, each with its label. The result has these conditions, with the values of all
/// sweeps, and the label as a further condition. Each run keeps its packets.
///
/// # Errors
/// [`SweepError::Join`] if there is no sweep, if the sweeps measure different quantities, or if one has a condition
/// that another does not have; [`SweepError::Uncountable`] if there are too many combinations.
pub fn join(sweeps: &[(String, Contents)]) -> Result<Contents, SweepError> {
    let Some((first, Contents { plan, .. })) = sweeps.first() else {
        return Err(SweepError::Join("no sweep is given".to_owned()));
    };
    let labels = sweeps.iter().map(|(label, _)| FactorLevel { text: label.clone(), number: None });
    let mut axes =
        vec![SweepAxis { name: Some("sweep".to_owned()), ..SweepAxis::new(Factor::Group, labels.collect()) }];
    axes.extend(plan.grid.axes.iter().cloned());
    for (label, other) in &sweeps[1..] {
        if other.plan.one_way != plan.one_way {
            let [one, two] = [plan, &other.plan].map(SweepPlan::quantity);
            return Err(SweepError::Join(format!("{first} measures {one}s, {label} {two}s")));
        }
        let lacks = |a: &SweepGrid, b: &SweepGrid| {
            let missing = |axis: &&SweepAxis| !b.axes.iter().any(|other| other.factor == axis.factor);
            a.axes.iter().find(missing).map(SweepAxis::label)
        };
        let (mine, theirs) = (&plan.grid, &other.plan.grid);
        if let Some(axis) = lacks(mine, theirs) {
            return Err(SweepError::Join(format!("{first} states the {axis}, {label} does not")));
        }
        if let Some(axis) = lacks(theirs, mine) {
            return Err(SweepError::Join(format!("{label} states the {axis}, {first} does not")));
        }
        for axis in &theirs.axes {
            let Some(joined) = axes.iter_mut().find(|joined| joined.factor == axis.factor) else { continue };
            let new = axis.levels.iter().filter(|level| !joined.levels.contains(level));
            joined.levels.extend(new.cloned().collect::<Vec<_>>());
        }
    }
    for axis in axes.iter_mut().filter(|axis| axis.is_quantity()) {
        let number = |level: &FactorLevel| level.number.unwrap_or_default();
        axis.levels.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    let grid = SweepGrid { axes };
    grid.cells().ok_or(SweepError::Uncountable)?;
    let mut hosts: Vec<&str> = Vec::new();
    for (_, sweep) in sweeps {
        if !hosts.contains(&sweep.plan.host.as_str()) {
            hosts.push(&sweep.plan.host);
        }
    }
    let of = |f: fn(&SweepPlan) -> u64| sweeps.iter().map(move |(_, sweep)| f(&sweep.plan));
    let joined = SweepPlan {
        packets: of(|plan| plan.packets).min().unwrap_or_default(),
        repetitions: of(|plan| plan.repetitions.into()).max().unwrap_or_default() as u32,
        confidence: plan.confidence,
        one_way: plan.one_way,
        ..SweepPlan::new(&hosts.join(", "), grid)
    };
    let mut contents = Contents { plan: joined, outcomes: Vec::new(), packets: Vec::new(), whole: 0 };
    for (k, (_, sweep)) in sweeps.iter().enumerate() {
        for (outcome, packets) in sweep.outcomes.iter().zip(&sweep.packets) {
            let levels = sweep.plan.grid.levels(outcome.run.cell);
            let Some(cell) = cell(&contents.plan.grid, k, &levels) else { continue };
            let mut outcome = RunOutcome { ..outcome.clone() };
            outcome.run.cell = cell;
            contents.outcomes.push(outcome);
            contents.packets.push(packets.clone());
        }
    }
    Ok(contents)
}

/// Returns the index of the combination of the sweep `k` and `levels`, its other conditions; `None` if one of them is
/// unknown.
fn cell(grid: &SweepGrid, k: usize, levels: &[(Factor, &FactorLevel)]) -> Option<usize> {
    let index = |axis: &SweepAxis| match axis.factor {
        Factor::Group => Some(k),
        factor => {
            let (_, level) = levels.iter().find(|(f, _)| *f == factor)?;
            axis.levels.iter().position(|l| l == *level)
        }
    };
    grid.axes.iter().try_fold(0, |cell, axis| Some(cell * axis.levels.len() + index(axis)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitlat_core::WallTime;
    use jitlat_core::analysis::Samples;
    use jitlat_core::sweep::{ConfidenceLevel, RunFigures, SweepRun, points};

    /// A sweep over payloads in which the run of a payload takes `per_byte` ns for each byte.
    fn sweep(payloads: &[u32], per_byte: f64) -> Contents {
        let level = |n: &u32| FactorLevel { text: n.to_string(), number: Some((*n).into()) };
        let axes = vec![
            SweepAxis::new(Factor::Payload, payloads.iter().map(level).collect()),
            SweepAxis::new(Factor::Protocol, vec![FactorLevel { text: "lamp".to_owned(), number: None }]),
        ];
        let outcome = |cell: usize, repetition: u32| RunOutcome {
            run: SweepRun { cell, repetition },
            at: WallTime(0),
            sent: 10,
            received: 10,
            ip_length: None,
            figures: RunFigures::default().with("latency-mean", f64::from(payloads[cell]) * per_byte),
        };
        let outcomes: Vec<RunOutcome> =
            (0..payloads.len()).flat_map(|cell| (0..2).map(move |r| outcome(cell, r))).collect();
        let packets =
            outcomes.iter().map(|o| Samples { delay: vec![o.run.cell as i64], ..Samples::default() });
        Contents {
            plan: SweepPlan { repetitions: 2, ..SweepPlan::new("192.0.2.1", SweepGrid { axes }) },
            packets: packets.collect(),
            outcomes,
            whole: 0,
        }
    }

    fn named(label: &str, contents: Contents) -> (String, Contents) {
        (label.to_owned(), contents)
    }

    #[test]
    fn every_run_keeps_its_conditions_and_gets_its_sweep() {
        let both = [named("cable", sweep(&[400, 1448], 1.0)), named("hub", sweep(&[32, 400], 3.0))];
        let joined = join(&both).unwrap();
        assert_eq!((joined.outcomes.len(), joined.packets.len()), (8, 8));
        let found: Vec<(String, f64, u64)> =
            points(&joined.plan.grid, &joined.outcomes, ConfidenceLevel::default())
                .iter()
                .map(|p| {
                    let mean = p.get("latency-mean").unwrap().mean;
                    (joined.plan.grid.name(p.cell, None), mean, p.runs)
                })
                .collect();
        let expected = [
            ("cable, 400 bytes", 400.0),
            ("cable, 1448 bytes", 1448.0),
            ("hub, 32 bytes", 96.0),
            ("hub, 400 bytes", 1200.0),
        ];
        assert_eq!(found, expected.map(|(name, mean)| (name.to_owned(), mean, 2)));
        // Payloads are in order although the sweeps have different ones; packets are still those of the run.
        let sizes: Vec<&str> = joined.plan.grid.axes[1].levels.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(sizes, ["32", "400", "1448"]);
        assert_eq!(joined.packets[7].delay, [1]);
    }

    #[test]
    fn sweeps_of_other_conditions_or_quantities_are_refused() {
        let (a, mut b) = (named("a", sweep(&[32], 1.0)), named("b", sweep(&[32], 1.0)));
        b.1.plan.one_way = true;
        let said = |sweeps: &[(String, Contents)]| join(sweeps).unwrap_err().to_string();
        assert!(said(&[a.clone(), b.clone()]).contains("a measures round trips, b one-way delays"));
        b.1.plan.one_way = false;
        b.1.plan.grid.axes.pop();
        assert!(said(&[a.clone(), b.clone()]).contains("a states the protocol, b does not"));
        assert!(said(&[b, a]).contains("a states the protocol, b does not"));
    }
}
