#![no_main]
// Aims at: crates/store/src/sweep.rs crates/core/src/sweep

use jitlat_core::sweep::{points, size_laws};
use jitlat_store::sweep::{Contents, plan_line, read, run_line};
use std::collections::HashSet;

fn written(contents: &Contents) -> String {
    let mut text = plan_line(&contents.plan).expect("a plan can be written");
    for (outcome, packets) in contents.outcomes.iter().zip(&contents.packets) {
        text += &run_line(outcome, packets).expect("a run can be written");
    }
    text
}

// Any text as the file of a sweep: parsed sweeps are written and read back unchanged, a truncation costs one run at
// most, and every run belongs to the plan.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((text, cut)) = data.split_last_chunk::<2>() else { return };
    let (Ok(text), cut) = (std::str::from_utf8(text), u16::from_le_bytes(*cut)) else { return };
    let Ok(contents) = read(text) else { return };
    assert!(contents.whole <= text.len() && contents.outcomes.len() == contents.packets.len());
    let once = written(&contents);
    let again = read(&once).expect("what was written is read");
    assert_eq!(
        (&again.plan, &again.outcomes, &again.packets),
        (&contents.plan, &contents.outcomes, &contents.packets)
    );
    assert_eq!((again.whole, &written(&again)), (once.len(), &once));

    let last = once[..once.len() - 1].rfind('\n').map_or(0, |end| end + 1);
    let mut cut = last + usize::from(cut) % (once.len() - last);
    while !once.is_char_boundary(cut) {
        cut -= 1;
    }
    match read(&once[..cut]) {
        Ok(rest) => assert_eq!((rest.outcomes.len() + 1, rest.whole), (contents.outcomes.len(), last)),
        Err(_) => assert_eq!(last, 0, "a cut in a run costs the plan"),
    }

    let runs = contents.plan.grid.cells().and_then(|c| c.checked_mul(contents.plan.repetitions as usize));
    if runs.is_some_and(|n| n <= 1000)
        && let Ok(runs) = contents.plan.runs()
    {
        let each: HashSet<_> = runs.iter().map(|r| (r.cell, r.repetition)).collect();
        assert_eq!(each.len(), runs.len(), "a run twice");
        let _ = points(&contents.plan.grid, &contents.outcomes, contents.plan.confidence);
        let _ = size_laws(&contents.plan.grid, &contents.outcomes);
    }
});
